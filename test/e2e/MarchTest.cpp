// Programs for an older CPU than this machine's (--march): the same bits, and a manifest that tells what they take.
#include "CompiledRun.h"

#include "gtest/gtest.h"
#include <fstream>
#include <nlohmann/json.hpp>

using namespace hyc_e2e;
using nlohmann::json;

namespace {

constexpr int kSteps = 4;

json cpuOf(const std::string &folder) {
  std::ifstream file(folder + "/manifest.json");
  return json::parse(file).at("cpu");
}

bool takes(const json &cpu, const std::string &instructions) {
  for (const json &one : cpu.at("instructions"))
    if (one == instructions)
      return true;
  return false;
}

#ifdef __x86_64__
TEST(March, OfAnOlderCpuGivesTheSameBits) {
  const std::string native = compiled({2, 1, 1}),
                    older = compiled({2, 1, 1, "1f1b", "adamw", "f32", {"--march=x86-64"}});
  const Log expected = train(native, kSteps), log = train(older, kSteps);
  ASSERT_EQ(log.losses.size(), static_cast<size_t>(kSteps));
  EXPECT_EQ(log.losses, expected.losses);
  EXPECT_EQ(log.norms, expected.norms);

  EXPECT_EQ(cpuOf(native).at("march"), "native");
  EXPECT_EQ(takes(cpuOf(native), "avx2"), static_cast<bool>(__builtin_cpu_supports("avx2")));
  EXPECT_EQ(takes(cpuOf(native), "avx512f"), static_cast<bool>(__builtin_cpu_supports("avx512f")));
  EXPECT_EQ(cpuOf(older).at("march"), "x86-64");
  EXPECT_EQ(cpuOf(older).at("instructions"), json::array());
}

TEST(March, TellsOfInstructionsByTheNamesOfLinux) {
  const json instructions =
      cpuOf(compiled({1, 1, 1, "1f1b", "adamw", "f32", {"--march=x86-64-v3"}})).at("instructions");
  // What the x86-64 psABI has in its level v3, and of that what a compiler may choose to use by itself.
  EXPECT_EQ(instructions, json({"pni", "ssse3", "sse4_1", "sse4_2", "popcnt", "abm", "movbe", "avx", "f16c", "fma",
                                "bmi1", "bmi2", "avx2"}));
}
#endif

} // namespace
