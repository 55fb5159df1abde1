// The table of settings as JSON, so that other front doors have no second list of flags.
#include "hyc/Plan/SettingsJson.h"

#include "hyc/Plan/SettingTable.h"

#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using namespace hyc;

namespace {
/// What other languages call the type of a value.
struct TypeName {
  StringRef operator()(bool) { return "bool"; }
  StringRef operator()(int64_t) { return "integer"; }
  StringRef operator()(const std::vector<int64_t> &) { return "integer"; }
  StringRef operator()(double) { return "number"; }
  StringRef operator()(const std::array<double, 2> &) { return "number"; }
  StringRef operator()(const std::string &) { return "text"; }
  StringRef operator()(const std::vector<std::string> &) { return "text"; }
};
} // namespace

static void writeRow(json::OStream &json, const SettingRow &row) {
  SettingValue like = valueOf(row.in(CompileOptions()));
  json.attribute("flag", (row.flag.size() == 1 ? "-" : "--") + row.flag.str());
  json.attribute("type", std::visit(TypeName(), like));
  json.attribute("list", std::holds_alternative<std::vector<int64_t>>(like) ||
                             std::holds_alternative<std::vector<std::string>>(like));
  json.attributeArray("choices", [&] {
    SmallVector<StringRef> words;
    if (row.range.kind == SettingRange::Choice)
      row.range.words.split(words, '|');
    for (StringRef word : words)
      json.value(word);
  });
  json.attribute("values", describe(row.range));
  json.attribute("default", defaultOf(row));
  json.attribute("help", row.help);
}

std::string hyc::writeSettingsJson() {
  std::string text;
  raw_string_ostream os(text);
  json::OStream json(os, 1);
  json.array([&] {
    for (const SettingRow &row : getSettings())
      if (!row.flag.empty())
        json.object([&] { writeRow(json, row); });
  });
  return text + "\n";
}
