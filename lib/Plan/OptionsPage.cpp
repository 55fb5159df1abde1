// docs/options.md from the table of settings; a test holds the page to it.
#include "hyc/Plan/SettingTable.h"

#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using namespace hyc;

static constexpr char kIntroduction[] = R"(# Options of hyc-compile

Every setting of a compilation: what says it on the command line, in `plan.json` (`--plan`) and in a DeepSpeed
configuration (`--config`), what it may be and what it is where nobody says it. A flag wins over a plan, a plan over a
configuration; a plan that contradicts either is refused. Which keys of a configuration have no effect tells
`--explain-config` ([deepspeed-config.md](deepspeed-config.md)). A flag that does nothing beside the others, as `--zero 1` with
one rank, is told of by a note. What is on or off is switched on by the flag alone, and said by `--FLAG=on` and `--FLAG=off` (or
true and false), with no blank between.

This page is made from the table of settings (`lib/Plan/SettingTable.cpp`):
`hyc-compile --print-options-page > docs/options.md`.
)";

/// "samples, 1 to 65536"; `like` tells the type where no range does.
static std::string describeValues(const SettingRow &row) {
  SettingValue like = valueOf(row.in(CompileOptions()));
  std::string text = describe(row.range);
  if (text.empty() && std::holds_alternative<bool>(like))
    text = "on, off";
  if (text.empty() && !row.flag.empty())
    text = ("`" + row.valueName + "`").str();
  if (row.unit.empty())
    return text;
  return (row.unit + (text.empty() || text.front() == '`' ? "" : ", " + text)).str();
}

static std::string code(StringRef text) { return text.empty() ? "" : ("`" + text + "`").str(); }

/// One a line.
static std::string codes(StringRef words) {
  SmallVector<StringRef> each;
  words.split(each, ' ', -1, /*KeepEmpty=*/false);
  std::string text;
  for (StringRef word : each)
    text += (text.empty() ? "" : "<br>") + code(word);
  return text;
}

std::string hyc::writeOptionsPage() {
  std::string text = kIntroduction;
  raw_string_ostream os(text);
  for (SettingCategory category : kSettingCategories) {
    os << "\n## " << titleOf(category) << "\n\n" << subtitleOf(category) << ".\n\n";
    os << "| flag | values | default | plan.json | ds_config | meaning |\n|---|---|---|---|---|---|\n";
    for (const SettingRow &row : getSettings()) {
      if (row.category != category)
        continue;
      std::string flag = row.flag.empty() ? "" : code((row.flag.size() == 1 ? "-" : "--") + row.flag.str());
      os << "| " << flag << " | " << describeValues(row) << " | " << defaultOf(row) << " | " << code(row.planKey)
         << " | " << codes(row.configKeys) << " | " << row.help << " |\n";
    }
  }
  return text;
}
