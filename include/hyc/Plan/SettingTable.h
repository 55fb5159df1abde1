// SettingTable: one row a setting: its member, flag, range, unit, help, key in plan.json and keys of ds_config. To add
// one, give Plan (or CompileOptions) a member and SettingTable.cpp a row; the flag, --help, the check of its range,
// plan.json both ways, --config, --explain-config, docs/options.md and, for a policy, the attribute that passes of
// phases 4 and 5 read (Policies.h) follow from that.
#ifndef HYC_PLAN_SETTINGTABLE_H
#define HYC_PLAN_SETTINGTABLE_H

#include "hyc/Plan/CompileOptions.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <optional>
#include <variant>

namespace hyc {

/// The value of a setting, whatever its type; of a choice its word.
using SettingValue = std::variant<bool, int64_t, double, std::string, std::array<double, 2>, std::vector<int64_t>,
                                  std::vector<std::string>>;
/// A setting of some plan, whatever its type.
using SettingRef =
    std::variant<Setting<bool> *, Setting<int64_t> *, Setting<double> *, Setting<std::string> *,
                 Setting<std::array<double, 2>> *, Setting<std::vector<int64_t>> *, Setting<std::vector<std::string>> *,
                 Setting<Choice<OffloadPlace>> *, Setting<Choice<RecomputeMode>> *, Setting<Choice<Precision>> *,
                 Setting<Choice<PipelineSchedule>> *, Setting<Choice<TargetKind>> *>;

/// As --help and docs/options.md group flags.
enum class SettingCategory { Model, Mesh, Batch, Precision, Memory, Optimizer, Files, Output };
inline constexpr std::array<SettingCategory, 8> kSettingCategories = {
    SettingCategory::Model,  SettingCategory::Mesh,      SettingCategory::Batch, SettingCategory::Precision,
    SettingCategory::Memory, SettingCategory::Optimizer, SettingCategory::Files, SettingCategory::Output};
llvm::StringRef titleOf(SettingCategory category);
llvm::StringRef subtitleOf(SettingCategory category);

/// What values a setting may have, beside being of its type.
struct SettingRange {
  enum Kind {
    Any,
    Within, ///< from least to most
    Below,  ///< from least to below most
    Choice, ///< one of the words
    Bytes,  ///< a size as in 24GiB
  } kind = Any;
  double least = 0, most = 0;
  llvm::StringRef words; ///< of Choice, separated by '|'; of Within and Below: what messages expect, "" for the bounds
};

/// Beside which other settings one does anything at all.
struct SettingEffect {
  bool (*isThere)(const Plan &) = nullptr; ///< null: beside any
  llvm::StringRef where;                   ///< the same in words, as in "tp is above 1"
};

struct SettingRow {
  SettingRef (*ofPlan)(Plan &) = nullptr;
  SettingRef (*ofOptions)(CompileOptions &) = nullptr; ///< of what is no part of the plan
  SettingCategory category = SettingCategory::Model;
  llvm::StringRef flag;         ///< without dashes; empty: only a ds_config says it
  llvm::StringRef valueName;    ///< N, X, NAME, …
  llvm::StringRef help;         ///< of the flag, without the default
  llvm::StringRef shownDefault; ///< where the value itself does not tell, "-": nothing does
  llvm::StringRef unit;         ///< elements, samples, steps, …
  SettingRange range;
  /// What a range cannot say. Called with the options as a whole.
  llvm::Error (*check)(const CompileOptions &, const SettingRow &) = nullptr;
  SettingEffect effect;
  llvm::StringRef planKey;      ///< "schedule", "zero/stage"; empty: plan.json does not have it
  llvm::StringRef planFallback; ///< what a file without the key means; empty with isPlanOptional: it leaves it open
  bool isPlanOptional = false;
  bool isOmitted = false;       ///< plan.json leaves it out at its default
  llvm::StringRef configKeys;   ///< separated by spaces; what each is stands in ConfigKeys.cpp
  bool isPolicy = false;        ///< a pass of phase 4 or 5 acts on it: part of the module's `dist.policy`
  bool isSplitAtCommas = false; ///< of a list: --arch a,b; others are repeated

  SettingRef in(CompileOptions &options) const { return ofPlan ? ofPlan(options) : ofOptions(options); }
  SettingRef in(const CompileOptions &options) const { return in(const_cast<CompileOptions &>(options)); }
  /// Its name in `dist.policy`: the flag with underscores.
  std::string policyName() const;

  // What a row of the table adds.
  constexpr SettingRow within(double least, double most, llvm::StringRef expected = {}) const {
    return with(&SettingRow::range, SettingRange{SettingRange::Within, least, most, expected});
  }
  constexpr SettingRow below(double least, double most, llvm::StringRef expected) const {
    return with(&SettingRow::range, SettingRange{SettingRange::Below, least, most, expected});
  }
  constexpr SettingRow oneOf(llvm::StringRef words) const {
    return with(&SettingRow::range, SettingRange{SettingRange::Choice, 0, 0, words});
  }
  constexpr SettingRow bytes() const { return with(&SettingRow::range, SettingRange{SettingRange::Bytes, 0, 0, {}}); }
  constexpr SettingRow checked(llvm::Error (*by)(const CompileOptions &, const SettingRow &)) const {
    return with(&SettingRow::check, by);
  }
  constexpr SettingRow acting(SettingEffect where) const { return with(&SettingRow::effect, where); }
  constexpr SettingRow byDefault(llvm::StringRef shown) const { return with(&SettingRow::shownDefault, shown); }
  constexpr SettingRow counting(llvm::StringRef what) const { return with(&SettingRow::unit, what); }
  /// A key that every plan file has.
  constexpr SettingRow plan(llvm::StringRef key) const { return with(&SettingRow::planKey, key); }
  /// A key that a plan file may lack, and what it means then.
  constexpr SettingRow planOr(llvm::StringRef key, llvm::StringRef fallback) const {
    return plan(key).with(&SettingRow::isPlanOptional, true).with(&SettingRow::planFallback, fallback);
  }
  constexpr SettingRow omitted() const { return with(&SettingRow::isOmitted, true); }
  constexpr SettingRow config(llvm::StringRef keys) const { return with(&SettingRow::configKeys, keys); }
  constexpr SettingRow policy() const { return with(&SettingRow::isPolicy, true); }
  constexpr SettingRow atCommas() const { return with(&SettingRow::isSplitAtCommas, true); }

private:
  template <typename T> constexpr SettingRow with(T SettingRow::*member, T value) const {
    SettingRow row = *this;
    row.*member = value;
    return row;
  }
};

/// The accessors of a row, by which it is found, too.
template <auto Member> SettingRef memberOfPlan(Plan &plan) { return &(plan.*Member); }
template <auto Member> SettingRef memberOfOptions(CompileOptions &options) { return &(options.*Member); }

/// Every row; plan.json and docs/options.md have this order.
llvm::ArrayRef<SettingRow> getSettings();

/// Null where there is none.
const SettingRow *findSettingOfConfigKey(llvm::StringRef key);
const SettingRow *findPolicy(llvm::StringRef name);
/// The row of a member of Plan, which has one.
const SettingRow &rowOf(SettingRef (*member)(Plan &));

SettingValue valueOf(SettingRef setting);
Origin originOf(SettingRef setting);
const std::string &sourceOf(SettingRef setting);
void offerTo(SettingRef setting, const SettingValue &value, Origin by, const std::string &source);

/// As --help, --explain-config and messages show a value: lists with commas, "-" for nothing.
std::string print(const SettingValue &value);
/// What `text` means as a value of the type that `like` has; nothing where it means none. The inverse of print.
std::optional<SettingValue> parseLike(const SettingValue &like, llvm::StringRef text);

/// "1 to 4096", "gpipe or 1f1b", "a number from 0 to below 1"; empty where everything goes.
std::string describe(const SettingRange &range);
/// Whether a value of the right type is in the range.
bool isWithin(const SettingRange &range, const SettingValue &value);
/// "a, b or c" of "a|b|c".
std::string listWords(llvm::StringRef words);

/// What messages call a setting: where it was said, else its flag, else the last part of its key of ds_config.
std::string nameOf(const SettingRow &row, const CompileOptions &options);
/// The default as the help shows it; empty where there is nothing to show.
std::string defaultOf(const SettingRow &row);

/// Whether each setting is in its range, in the table's order; the error names the flag or the place in a file, what it
/// is and what it may be. What settings need of each other is not looked at.
llvm::Error checkRanges(const CompileOptions &options);

/// The rows of flags that were given a value of their own and do nothing, since it takes other settings for that. A
/// plan file has rules, which may give them something to do: beside one there are none.
std::vector<const SettingRow *> flagsWithoutEffect(const CompileOptions &options);

/// docs/options.md.
std::string writeOptionsPage();

} // namespace hyc

#endif // HYC_PLAN_SETTINGTABLE_H
