// A printer of JSON that prints one part wrongly.
#include "JsonChange.h"

#include "llvm/Support/raw_ostream.h"

using namespace hyc::fuzzing;
namespace json = llvm::json;

namespace {
constexpr const char *kValues[] = {"0",
                                   "1",
                                   "-1",
                                   "2",
                                   "3",
                                   "8",
                                   "0.5",
                                   "-0.5",
                                   "1e308",
                                   "1e999",
                                   "-1e999",
                                   "4294967296",
                                   "9223372036854775807",
                                   "9223372036854775808",
                                   "-9223372036854775809",
                                   "123456789012345678901234567890",
                                   "true",
                                   "false",
                                   "null",
                                   "\"\"",
                                   "\"auto\"",
                                   "\"1\"",
                                   "\"a\\u0000b\"",
                                   "\"\\ud800\"",
                                   "\"*\"",
                                   "[]",
                                   "{}",
                                   "[1, 2]",
                                   "[0.9, 0.999]",
                                   "{\"a\": 1}",
                                   "[[]]",
                                   "NaN",
                                   "01",
                                   "'x'"};

class Printer {
public:
  Printer(Random &random, int64_t changed) : random(random), changed(changed) {}

  std::string text;
  int64_t count = 0;

  void print(const json::Value &value) {
    if (count++ == changed)
      return printOther();
    if (const json::Object *object = value.getAsObject())
      return printObject(*object);
    if (const json::Array *array = value.getAsArray()) {
      text += "[";
      for (size_t i = 0; i < array->size(); ++i) {
        text += i ? ", " : "";
        print((*array)[i]);
      }
      text += "]";
      return;
    }
    llvm::raw_string_ostream(text) << value;
  }

private:
  void printOther() {
    if (!random.oneIn(12)) {
      text += random.pick(kValues);
      return;
    }
    int64_t depth = random.between(50, 5000);
    text += std::string(depth, '[') + std::string(depth, ']');
  }

  /// Each key is a part, too: it may be left out, be there twice, or be another.
  void printObject(const json::Object &object) {
    text += "{";
    bool isFirst = true;
    for (const auto &[key, value] : object) {
      std::string name = key.str();
      int64_t times = 1;
      if (count++ == changed)
        switch (random.below(3)) {
        case 0:
          times = 0;
          break;
        case 1:
          times = 2;
          break;
        default:
          name.insert(random.below(static_cast<int64_t>(name.size()) + 1), random.oneIn(2) ? "x" : ".");
        }
      for (; times > 0; --times) {
        text += isFirst ? "\n  " : ",\n  ";
        isFirst = false;
        llvm::raw_string_ostream(text) << json::Value(name) << ": ";
        print(value);
      }
    }
    text += "}";
  }

  Random &random;
  int64_t changed;
};
} // namespace

std::string hyc::fuzzing::printChanged(const json::Value &value, Random &random, bool isChanged) {
  Printer whole(random, -1);
  whole.print(value);
  if (!isChanged)
    return whole.text;
  Printer printer(random, random.below(whole.count));
  printer.print(value);
  return printer.text;
}
