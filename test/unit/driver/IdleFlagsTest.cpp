// Flags that do nothing beside others: what SettingTable says of them is held to the programs, which are then the same
// with the flag and without; beside what they need they are not.
#include "SeveralSizes.h"
#include "hyc/Driver/Compile.h"
#include "hyc/Plan/SettingTable.h"
#include "test/Places.h"

#include "llvm/ADT/STLExtras.h"

#include <gtest/gtest.h>

#include <map>

namespace {

using namespace hyc;
using Flags = std::vector<std::pair<std::string, std::string>>;

struct Case {
  std::string flag, value;
  Flags acting;             ///< beside which it does something
  bool isInPrograms = true; ///< else it acts on what is written beside them
};

void PrintTo(const Case &one, std::ostream *os) { *os << "--" << one.flag << " " << one.value; }

const Flags kOneRank, kTwoOfDp{{"dp", "2"}}, kTwoOfTp{{"tp", "2"}}, kTwoStages{{"pp", "2"}, {"grad-accum", "2"}},
    kSplitSequence{{"tp", "2"}, {"sequence-parallel", "true"}, {"grad-accum", "2"}}, kZero1{{"dp", "2"}, {"zero", "1"}},
    kZero2{{"dp", "2"}, {"zero", "2"}}, kZero3{{"dp", "2"}, {"zero", "3"}, {"stage3-param-persistence-threshold", "0"}},
    kPrefetching{{"dp", "2"}, {"zero", "3"}, {"stage3-param-persistence-threshold", "0"}, {"stage3-prefetch", "4"}},
    kEvaluating{{"entry", "evaluate"}}, kStatesOnHost{{"offload-optimizer", "cpu"}},
    kParamsOnHost{{"offload-param", "cpu"}},
    kStatesOnDisk{{"offload-optimizer", "nvme"}, {"nvme-path", "/tmp"}, {"sub-group-size", "1000"}},
    kParamsOnDisk{{"offload-param", "nvme"}, {"nvme-path", "/tmp"}}, kCuda{{"target", "cuda"}};

/// Beside each of these every flag is tried that is said to do nothing there.
const Flags kLayouts[] = {kOneRank,
                          {{"grad-accum", "4"}},
                          {{"recompute", "layer"}},
                          kTwoOfDp,
                          kTwoOfTp,
                          kTwoStages,
                          kSplitSequence,
                          {{"pp", "2"}, {"grad-accum", "2"}, {"zero", "2"}},
                          kZero2,
                          kEvaluating,
                          kStatesOnHost,
                          kParamsOnHost};

const Case kCases[] = {
    {"schedule", "gpipe", kTwoStages},
    {"partition-method", "uniform", kTwoStages, false},
    {"sequence-parallel", "true", kTwoOfTp},
    {"gathers-ahead", "0", kSplitSequence},
    {"frozen-masters", "false", {{"freeze", "h.0.*"}, {"precision", "bf16"}}},
    {"communication-type", "bf16", kTwoOfDp},
    {"partition-activations", "true", {{"recompute", "layer"}, {"tp", "2"}}},
    {"offload-ratio", "0.5", kStatesOnHost},
    {"offload-param-max-in-cpu", "100000", kParamsOnDisk},
    {"sub-group-size", "1000", kParamsOnHost},
    {"offload-read-ahead", "false", kStatesOnDisk},
    {"offload-write-behind", "false", kStatesOnDisk},
    {"offload-prefetch", "4", kParamsOnHost},
    {"offload-window", "4096", {{"target", "cuda"}, {"offload-optimizer", "cpu"}}},
    {"zero", "1", kTwoOfDp},
    {"zero", "2", kSplitSequence},
    {"gradient-reduction", "micro_batch", {{"dp", "2"}, {"grad-accum", "2"}}},
    {"stage3-param-persistence-threshold", "0", {{"dp", "2"}, {"zero", "3"}}},
    {"stage3-prefetch", "4", kZero3},
    {"stage3-prefetch-bucket-size", "100", kPrefetching},
    {"stage3-max-live-parameters", "100", kPrefetching},
    {"reductions-in-flight", "4", kZero2},
    {"reduce-bucket-size", "1000", kZero1},
    {"allgather-bucket-size", "100", kPrefetching},
    {"optimizer", "lamb", kOneRank},
    {"lr-schedule", "cosine", kOneRank, false},
    {"lr", "0.5", kOneRank, false},
    {"warmup-steps", "7", kOneRank, false},
    {"weight-decay", "0.5", kOneRank},
    {"no-decay", "h.0.*", {{"weight-decay", "0.5"}}},
    {"momentum", "0.5", {{"optimizer", "sgd"}}},
    {"arch", "sm_90", kCuda, false},
};

const SettingRow &rowOfFlag(const std::string &flag) {
  auto row = llvm::find_if(getSettings(), [&](const SettingRow &each) { return each.flag == flag; });
  EXPECT_NE(row, getSettings().end()) << flag;
  return *row;
}

CompileOptions withFlags(const Flags &flags) {
  CompileOptions options;
  options.input = places::model("gpt2-formats.onnx");
  options.emit = "rank";
  options.threads = 1;
  for (const auto &[flag, text] : flags) {
    SettingRef setting = rowOfFlag(flag).in(options);
    std::optional<SettingValue> value = parseLike(valueOf(setting), text);
    EXPECT_TRUE(value) << flag << " " << text;
    if (value)
      offerTo(setting, *value, Origin::Flag, "--" + flag);
  }
  return options;
}

struct Compiled {
  std::string program;            ///< the text after phase 5 but for its first line, which has all policies
  std::vector<std::string> notes; ///< of flags
};

Compiled compileWith(const Flags &flags) {
  CompileResult result = hyc::compile(withFlags(flags), Toolchain());
  EXPECT_TRUE(bool(result)) << result.error;
  Compiled compiled{result.text.substr(std::min(result.text.size(), result.text.find('\n'))), {}};
  for (const CompileDiagnostic &each : result.diagnostics)
    if (llvm::StringRef(each.location).starts_with("--"))
      compiled.notes.push_back(each.str());
  return compiled;
}

/// Of what several cases begin with, compiled once.
const Compiled &compileOnce(const Flags &flags) {
  static std::map<Flags, Compiled> compiled;
  auto [entry, isNew] = compiled.try_emplace(flags);
  if (isNew)
    entry->second = compileWith(flags);
  return entry->second;
}

Flags also(Flags flags, const Case &one) {
  flags.emplace_back(one.flag, one.value);
  return flags;
}

class IdleFlag : public testing::TestWithParam<Case> {};

/// Whether the table says so; what is refused does nothing either, but that is told otherwise.
bool isIdle(const Flags &flags, const std::string &flag) {
  CompileOptions options = withFlags(flags);
  if (llvm::Error error = settleOptions(options)) {
    llvm::consumeError(std::move(error));
    return false;
  }
  return llvm::is_contained(flagsWithoutEffect(options), &rowOfFlag(flag));
}

TEST_P(IdleFlag, ChangesNothingWhereANoteSaysSo) {
  const std::string begin = "--" + GetParam().flag + ": note: does nothing here: it acts only where ";
  int tried = 0;
  for (const Flags &layout : kLayouts) {
    const bool hasIt = llvm::any_of(layout, [](const auto &each) { return each.first == GetParam().flag; });
    if (hasIt || !isIdle(also(layout, GetParam()), GetParam().flag))
      continue;
    ++tried;
    const Compiled without = compileOnce(layout), with = compileWith(also(layout, GetParam()));
    EXPECT_TRUE(with.program == without.program) << testing::PrintToString(layout);
    EXPECT_EQ(with.notes.size(), without.notes.size() + 1);
    EXPECT_TRUE(llvm::any_of(with.notes, [&](llvm::StringRef note) { return note.starts_with(begin); }));
  }
  EXPECT_GT(tried, 0);
}

TEST_P(IdleFlag, ActsBesideWhatItNeedsWithoutANote) {
  const Compiled without = compileOnce(GetParam().acting), with = compileWith(also(GetParam().acting, GetParam()));
  EXPECT_TRUE(with.notes.empty()) << with.notes[0];
  if (GetParam().isInPrograms)
    EXPECT_TRUE(with.program != without.program);
}

std::string nameOfCase(const testing::TestParamInfo<Case> &info) {
  std::string name = info.param.flag + "_" + info.param.value;
  for (char &c : name)
    c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Each, IdleFlag, testing::ValuesIn(kCases), nameOfCase);

TEST(IdleFlags, AreAllTried) {
  for (const SettingRow &row : getSettings())
    if (row.effect.isThere)
      EXPECT_TRUE(std::any_of(std::begin(kCases), std::end(kCases), [&](const Case &each) {
        return each.flag == row.flag;
      })) << row.flag.str();
}

TEST(IdleFlags, AtTheirDefaultsAreNotSpokenOf) {
  EXPECT_TRUE(compileWith({{"zero", "0"}, {"sequence-parallel", "false"}}).notes.empty());
}

} // namespace
