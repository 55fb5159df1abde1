// .pt2: the whole importer, from the archive's bytes to a verified module. Most mutations change the JSON within the
// archive, value by value, and make the archive good again around it: of bytes changed anywhere nearly all end at a
// checksum.
#include "fuzzing.h"
#include "zip_mutation.h"

#include "hyc/Import/TorchExport/Import.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"

#include <cstring>
#include <random>

using namespace hyc;
using namespace hyc::fuzzing;
using llvm::StringRef;

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static InputFile file("model.pt2");
  static ImportCheck check;
  ImportOptions options;
  options.batch = 2;
  const std::string &path = file.write(data, size);
  check.run([&](mlir::MLIRContext &context) { return importTorchExport(context, path, options); });
  return 0;
}

namespace {
/// Begin and end of a JSON value or `"key": value` in a text.
using Span = std::pair<size_t, size_t>;

class JsonMutation {
public:
  JsonMutation(std::string &text, std::mt19937 &random) : text(text), random(random) { collect(); }

  void apply() {
    if (tokens.empty())
      return;
    Span token = pick(tokens);
    switch (random() % 6) {
    case 0: // a number or a word that comparisons and products stumble over
      replace(token, kValues[random() % std::size(kValues)]);
      break;
    case 1: // another value of the same text
    case 2: {
      Span other = pick(tokens);
      replace(token, text.substr(other.first, other.second - other.first));
      break;
    }
    case 3: // what stands between two brackets goes, or comes twice
      if (!groups.empty()) {
        Span group = pick(groups);
        bool twice = random() % 2;
        std::string inside = text.substr(group.first, group.second - group.first);
        replace(group, twice ? inside + "," + inside : "null");
      }
      break;
    case 4: // another object or array of the same text
      if (!groups.empty()) {
        Span group = pick(groups), other = pick(groups);
        replace(group, text.substr(other.first, other.second - other.first));
      }
      break;
    default: { // characters
      std::string changed = text.substr(token.first, token.second - token.first);
      size_t length = changed.size();
      changed.resize(length + 16);
      changed.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t *>(changed.data()), length, changed.size()));
      replace(token, changed);
    }
    }
  }

private:
  static constexpr const char *kValues[] = {"0",
                                            "1",
                                            "-1",
                                            "2",
                                            "9223372036854775807",
                                            "-9223372036854775808",
                                            "1e308",
                                            "4294967296",
                                            "1073741824",
                                            "\"\"",
                                            "null",
                                            "true",
                                            "[]",
                                            "{}",
                                            "\"a\"",
                                            "0.5",
                                            "\"-Infinity\"",
                                            "{\"as_int\": -1}",
                                            "{\"as_none\": true}"};

  Span pick(const std::vector<Span> &spans) { return spans[random() % spans.size()]; }
  void replace(Span span, const std::string &with) { text.replace(span.first, span.second - span.first, with); }

  /// Strings, numbers and words into `tokens`; objects and arrays into `groups`.
  void collect() {
    std::vector<size_t> open;
    for (size_t at = 0; at < text.size(); ++at) {
      char c = text[at];
      size_t begin = at;
      if (c == '"') {
        for (++at; at < text.size() && text[at] != '"'; ++at)
          at += text[at] == '\\';
        tokens.push_back({begin, std::min(at + 1, text.size())});
      } else if (c == '{' || c == '[') {
        open.push_back(at);
      } else if ((c == '}' || c == ']') && !open.empty()) {
        groups.push_back({open.back(), at + 1});
        open.pop_back();
      } else if (llvm::isAlnum(c) || c == '-') {
        while (at + 1 < text.size() && (llvm::isAlnum(text[at + 1]) || StringRef(".+-").contains(text[at + 1])))
          ++at;
        tokens.push_back({begin, at + 1});
      }
    }
  }

  std::string &text;
  std::mt19937 &random;
  std::vector<Span> tokens, groups;
};
} // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize, unsigned int seed) {
  std::mt19937 random(seed);
  std::optional<ZipRecords> records = random() % 8 ? readZip(data, size) : std::nullopt;
  if (!records || records->empty())
    return LLVMFuzzerMutate(data, size, maxSize);
  std::vector<std::string *> texts;
  for (auto &[name, contents] : *records)
    if (StringRef(name).ends_with(".json") || random() % 64 == 0)
      texts.push_back(&contents);
  if (texts.empty())
    return LLVMFuzzerMutate(data, size, maxSize);
  std::string &text = *texts[random() % texts.size()];
  for (unsigned changes = 1 + random() % 3; changes > 0; --changes)
    JsonMutation(text, random).apply();
  std::string zip = writeZip(*records);
  if (zip.size() > maxSize)
    return LLVMFuzzerMutate(data, size, maxSize);
  std::memcpy(data, zip.data(), zip.size());
  return zip.size();
}
