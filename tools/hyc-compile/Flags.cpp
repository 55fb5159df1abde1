// One cl::opt a row.
#include "Flags.h"

#include "hyc/Support/DriverError.h"
#include "llvm/ADT/StringSwitch.h"

using namespace llvm;
using namespace hyc;

/// "Ranks that split each layer [1]"
static std::string helpOf(const SettingRow &row) {
  std::string shown = defaultOf(row);
  return row.help.str() + (shown.empty() ? "" : " [" + shown + "]");
}

static bool parseWord(StringRef text, bool &value) {
  std::optional<bool> known = StringSwitch<std::optional<bool>>(text)
                                  .Cases({"", "on", "true", "1"}, true)
                                  .Cases({"off", "false", "0"}, false)
                                  .Default(std::nullopt);
  value = known.value_or(false);
  return known.has_value();
}
static bool parseWord(StringRef text, int64_t &value) { return !text.getAsInteger(10, value); }
static bool parseWord(StringRef text, double &value) { return !text.getAsDouble(value); }
static bool parseWord(StringRef text, std::string &value) {
  value = text.str();
  return true;
}

static StringRef kindOf(bool) { return "on or off"; }
static StringRef kindOf(int64_t) { return "a whole number"; }
static StringRef kindOf(double) { return "a number"; }
static StringRef kindOf(const std::string &) { return "text"; }

namespace {
/// The value of one type of setting from words of the command line, as the type of its value decides. LLVM takes flags
/// as text, and the words are read here, so that one that cannot be read is refused as one out of range is.
struct ValueReader {
  const SettingRow &row;
  ArrayRef<std::string> words;
  std::string &complaint; ///< of the first word that cannot be read

  template <typename T> bool read(StringRef word, T &value) {
    if (parseWord(word, value))
      return true;
    std::string range = describe(row.range);
    complaint =
        ("--" + row.flag + " is \"" + word + "\", expected " + (range.empty() ? kindOf(value).str() : range)).str();
    return false;
  }
  /// Of a flag that is given again the last word counts, but all have to be ones that it can be.
  template <typename T> SettingValue one() {
    T value{};
    for (StringRef word : words)
      if (!read(word, value))
        break;
    return value;
  }
  template <typename T> SettingValue list() {
    std::vector<T> values;
    for (StringRef word : words)
      if (!read(word, values.emplace_back()))
        break;
    return values;
  }

  SettingValue operator()(bool) { return one<bool>(); }
  SettingValue operator()(int64_t) { return one<int64_t>(); }
  SettingValue operator()(double) { return one<double>(); }
  SettingValue operator()(const std::string &) { return one<std::string>(); }
  SettingValue operator()(const std::array<double, 2> &) { llvm_unreachable("no flag takes a pair"); }
  SettingValue operator()(const std::vector<int64_t> &) { return list<int64_t>(); }
  SettingValue operator()(const std::vector<std::string> &) { return list<std::string>(); }
};
} // namespace

Flags::Flag Flags::make(const SettingRow &row) {
  SettingValue like = valueOf(row.in(CompileOptions()));
  bool isSwitch = std::holds_alternative<bool>(like), isSplit = row.isSplitAtCommas;
  auto words = std::make_unique<cl::list<std::string>>(
      row.flag, cl::value_desc(isSwitch ? "on|off" : row.valueName), cl::desc(helps.emplace_back(helpOf(row))),
      cl::cat(*categories.at(row.category)), isSwitch ? cl::ValueOptional : cl::ValueRequired);
  if (isSplit)
    words->setMiscFlag(cl::CommaSeparated);
  return {&row, std::move(words)};
}

Flags::Flags()
    : compare(
          "compare", cl::value_desc("A B"),
          cl::desc("Print what two plans (plan.json, or folders that have one) decide differently and what each comes "
                   "to in time and memory, and stop")),
      replan("replan", cl::value_desc("FOLDER"),
             cl::desc("Look for a layout that is better than that of a compiled folder, by what a run of it took "
                      "(--measured FILE, of hyc-run --profile), print it with the command that compiles it, and stop")),
      replanWith("replan-with", cl::value_desc("FOLDER[,FOLDER...]"), cl::CommaSeparated,
                 cl::desc("Of --replan: compare it with these, compiled beforehand, and look for none")),
      replanMargin("replan-margin", cl::value_desc("PERCENT"), cl::init(10.0),
                   cl::desc("Of --replan: by how much of a step's time it has to be better [10]")),
      replanJson("replan-json", cl::Hidden, cl::desc("Of --replan: print it as one line of JSON")),
      explain("explain-config", cl::desc("Print what becomes of every key of a ds_config, and stop")),
      page("print-options-page", cl::Hidden, cl::desc("Print docs/options.md, and stop")),
      settings("print-settings", cl::Hidden, cl::desc("Print every flag as JSON, and stop")) {
  std::vector<const cl::OptionCategory *> ours;
  for (SettingCategory category : kSettingCategories) {
    categories[category] = std::make_unique<cl::OptionCategory>(titleOf(category), subtitleOf(category));
    ours.push_back(categories[category].get());
  }
  compare.addCategory(*categories[SettingCategory::Files]);
  cl::OptionCategory &files = *categories[SettingCategory::Files];
  explain.addCategory(files);
  replan.addCategory(files);
  replanWith.addCategory(files);
  replanMargin.addCategory(files);
  input = std::make_unique<cl::opt<std::string>>(cl::Positional, cl::desc("MODEL.onnx | MODEL.pt2 | FOLDER"),
                                                 cl::value_desc("MODEL.onnx | MODEL.pt2 | FOLDER"),
                                                 cl::cat(*categories[SettingCategory::Model]));
  for (const SettingRow &row : getSettings())
    if (!row.flag.empty())
      flags.push_back(make(row));
  cl::HideUnrelatedOptions(ours);
}

hyc::RelayoutRequest Flags::relayoutRequest() const {
  RelayoutRequest request;
  request.folder = replan;
  request.alternatives = std::vector<std::string>(replanWith.begin(), replanWith.end());
  request.margin = replanMargin;
  return request;
}

llvm::Expected<CompileOptions> Flags::read() const {
  CompileOptions options;
  options.input = *input;
  std::string complaint;
  for (const Flag &flag : flags) {
    if (!flag.words->getNumOccurrences())
      continue;
    const std::vector<std::string> words(flag.words->begin(), flag.words->end());
    ValueReader reader{*flag.row, words, complaint};
    SettingValue value = std::visit(reader, valueOf(flag.row->in(options)));
    if (!complaint.empty())
      return usageError(complaint);
    offerTo(flag.row->in(options), value, Origin::Flag, "--" + flag.row->flag.str());
  }
  return options;
}
