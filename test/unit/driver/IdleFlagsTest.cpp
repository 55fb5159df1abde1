// Flags that do nothing beside others: what SettingTable says of them is held to the programs, which are then the same
// with the flag and without; beside what they need they are not.
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
  Flags idle, acting;       ///< beside which it does nothing, and something
  bool isInPrograms = true; ///< else it acts on what is written beside them
};

void PrintTo(const Case &one, std::ostream *os) { *os << "--" << one.flag << " " << one.value; }

const Flags kOneRank, kTwoOfDp{{"dp", "2"}}, kTwoOfTp{{"tp", "2"}}, kTwoStages{{"pp", "2"}, {"grad-accum", "2"}},
    kZero2{{"dp", "2"}, {"zero", "2"}}, kZero3{{"dp", "2"}, {"zero", "3"}, {"stage3-param-persistence-threshold", "0"}},
    kPrefetching{{"dp", "2"}, {"zero", "3"}, {"stage3-param-persistence-threshold", "0"}, {"stage3-prefetch", "4"}},
    kEvaluating{{"entry", "evaluate"}}, kStatesOnHost{{"offload-optimizer", "cpu"}},
    kStatesOnDisk{{"offload-optimizer", "nvme"}, {"nvme-path", "/tmp"}, {"sub-group-size", "1000"}},
    kParamsOnDisk{{"offload-param", "nvme"}, {"nvme-path", "/tmp"}}, kCuda{{"target", "cuda"}},
    kCudaOffload{{"target", "cuda"}, {"offload-optimizer", "cpu"}};

const Case kCases[] = {
    {"schedule", "gpipe", kTwoOfDp, kTwoStages},
    {"partition-method", "uniform", kTwoOfDp, kTwoStages, false},
    {"sequence-parallel", "true", kTwoOfDp, kTwoOfTp},
    {"gathers-ahead", "0", kTwoOfDp, {{"tp", "2"}, {"sequence-parallel", "true"}}},
    {"frozen-masters", "false", {{"freeze", "h.0.*"}}, {{"freeze", "h.0.*"}, {"precision", "bf16"}}, false},
    {"communication-type", "bf16", kTwoOfTp, kTwoOfDp},
    {"partition-activations", "true", {{"recompute", "layer"}}, {{"recompute", "layer"}, {"tp", "2"}}},
    {"offload-ratio", "0.5", kTwoOfDp, kStatesOnHost},
    {"offload-param-max-in-cpu", "100000", kStatesOnHost, kParamsOnDisk},
    {"sub-group-size", "1000", kTwoOfDp, kStatesOnHost},
    {"offload-read-ahead", "false", kStatesOnHost, kStatesOnDisk},
    {"offload-write-behind", "false", kStatesOnHost, kStatesOnDisk},
    {"offload-prefetch", "4", kTwoOfDp, {{"offload-param", "cpu"}}},
    {"offload-window", "4096", kStatesOnHost, kCudaOffload},
    {"zero", "3", kTwoOfTp, kTwoOfDp},
    {"gradient-reduction", "micro_batch", kOneRank, {{"dp", "2"}, {"grad-accum", "2"}}},
    {"stage3-param-persistence-threshold", "0", kZero2, {{"dp", "2"}, {"zero", "3"}}},
    {"stage3-prefetch", "4", kZero2, kZero3},
    {"stage3-prefetch-bucket-size", "100", kZero2, kPrefetching},
    {"stage3-max-live-parameters", "100", kZero2, kPrefetching},
    {"reductions-in-flight", "4", kOneRank, kZero2},
    {"reduce-bucket-size", "1000", kOneRank, {{"dp", "2"}, {"zero", "1"}}},
    {"allgather-bucket-size", "100", kOneRank, kPrefetching},
    {"optimizer", "lamb", kEvaluating, kOneRank},
    {"lr-schedule", "cosine", kEvaluating, kOneRank, false},
    {"lr", "0.5", kEvaluating, kOneRank, false},
    {"warmup-steps", "7", kEvaluating, kOneRank, false},
    {"weight-decay", "0.5", kEvaluating, kOneRank},
    {"no-decay", "h.0.*", kOneRank, {{"weight-decay", "0.5"}}},
    {"momentum", "0.5", kOneRank, {{"optimizer", "sgd"}}},
    {"arch", "sm_90", kOneRank, kCuda, false},
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

TEST_P(IdleFlag, ChangesNothingAndANoteSaysSo) {
  const Compiled without = compileOnce(GetParam().idle), with = compileWith(also(GetParam().idle, GetParam()));
  EXPECT_TRUE(with.program == without.program);
  const std::string begin = "--" + GetParam().flag + ": note: does nothing here: it acts only where ";
  ASSERT_EQ(with.notes.size(), 1u);
  EXPECT_EQ(with.notes[0].substr(0, begin.size()), begin);
}

TEST_P(IdleFlag, ActsBesideWhatItNeedsWithoutANote) {
  const Compiled without = compileOnce(GetParam().acting), with = compileWith(also(GetParam().acting, GetParam()));
  EXPECT_TRUE(with.notes.empty()) << with.notes[0];
  if (GetParam().isInPrograms)
    EXPECT_TRUE(with.program != without.program);
}

std::string nameOfCase(const testing::TestParamInfo<Case> &info) {
  std::string name = info.param.flag;
  std::replace(name.begin(), name.end(), '-', '_');
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
