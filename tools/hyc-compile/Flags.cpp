// One cl::opt a row.
#include "Flags.h"

using namespace llvm;
using namespace hyc;

/// "Ranks that split each layer [1]"
static std::string helpOf(const SettingRow &row) {
  std::string shown = defaultOf(row);
  return row.help.str() + (shown.empty() ? "" : " [" + shown + "]");
}

namespace {
/// The parser for one type of setting, as the type of its value decides.
struct OptionMaker {
  const SettingRow &row;
  cl::OptionCategory &category;
  StringRef help;
  std::unique_ptr<cl::Option> option;
  std::function<SettingValue()> value;

  template <typename T> void makeOne() {
    auto made =
        std::make_unique<cl::opt<T>>(row.flag, cl::value_desc(row.valueName), cl::desc(help), cl::cat(category));
    value = [flag = made.get()] { return SettingValue(static_cast<T>(flag->getValue())); };
    option = std::move(made);
  }
  template <typename T> void makeList() {
    auto made =
        std::make_unique<cl::list<T>>(row.flag, cl::value_desc(row.valueName), cl::desc(help), cl::cat(category));
    if (row.isSplitAtCommas)
      made->setMiscFlag(cl::CommaSeparated);
    value = [flag = made.get()] { return SettingValue(std::vector<T>(flag->begin(), flag->end())); };
    option = std::move(made);
  }

  void operator()(bool) { makeOne<bool>(); }
  void operator()(int64_t) { makeOne<int64_t>(); }
  void operator()(double) { makeOne<double>(); }
  void operator()(const std::string &) { makeOne<std::string>(); }
  void operator()(const std::array<double, 2> &) { llvm_unreachable("no flag takes a pair"); }
  void operator()(const std::vector<int64_t> &) { makeList<int64_t>(); }
  void operator()(const std::vector<std::string> &) { makeList<std::string>(); }
};
} // namespace

Flags::Flag Flags::make(const SettingRow &row) {
  OptionMaker maker{row, *categories.at(row.category), helps.emplace_back(helpOf(row)), nullptr, nullptr};
  std::visit(maker, valueOf(row.in(CompileOptions())));
  return {&row, std::move(maker.option), std::move(maker.value)};
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

CompileOptions Flags::read() const {
  CompileOptions options;
  options.input = *input;
  for (const Flag &flag : flags)
    if (flag.option->getNumOccurrences())
      offerTo(flag.row->in(options), flag.value(), Origin::Flag, "--" + flag.row->flag.str());
  return options;
}
