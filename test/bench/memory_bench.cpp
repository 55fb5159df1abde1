// The account of memory against the machine: the job's summed proportional set size minus the declared fixed costs,
// over the plan, of GPT-2 124M in several layouts. Arenas are not filled for it, so that pages count which training
// itself has touched.
//
// Usage: memory_bench [--steps N] [--nvme-path FOLDER]
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "CompiledRun.h"

using namespace hyc_e2e;

namespace {

struct Case {
  const char *name;
  std::vector<std::string> flags;
  bool needsDisk = false;
};

const std::vector<Case> kCases = {
    {"one rank, f32", {}},
    {"one rank, bf16", {"--precision", "bf16"}},
    {"one rank, fp16, recomputed", {"--precision", "fp16", "--recompute", "layer"}},
    {"tp 2", {"--tp", "2"}},
    {"pp 2, 4 micro-batches", {"--pp", "2", "--grad-accum", "4"}},
    {"dp 2", {"--dp", "2"}},
    {"dp 2, ZeRO 3", {"--dp", "2", "--zero", "3"}},
    {"dp 4, ZeRO 3, recomputed", {"--dp", "4", "--zero", "3", "--recompute", "layer"}},
    {"tp 2 x dp 2, ZeRO 1, bf16", {"--tp", "2", "--dp", "2", "--zero", "1", "--precision", "bf16"}},
    {"optimizer in host memory", {"--offload-optimizer", "cpu"}},
    {"optimizer in a file", {"--offload-optimizer", "nvme"}, true},
};

std::string run(const std::vector<std::string> &arguments) {
  Outcome outcome = execute(arguments);
  if (outcome.status == 0) return outcome.output;
  std::fprintf(stderr, "%s", outcome.output.c_str());
  std::exit(1);
}

/// The last line of hyc-run's table: the job, or its only rank.
std::string lastRow(const std::string &output) {
  std::istringstream lines(output.substr(output.find("memory in MiB")));
  std::string last;
  for (std::string line; std::getline(lines, line);)
    if (line.rfind("rank ", 0) == 0 || line.rfind("all", 0) == 0) last = line;
  return last.substr(9);
}

}  // namespace

int main(int argc, char **argv) {
  std::string steps = "2", disk;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (!std::strcmp(argv[i], "--steps"))
      steps = argv[i + 1];
    else if (!std::strcmp(argv[i], "--nvme-path"))
      disk = argv[i + 1];
  }
  std::printf("%-28s %12s %12s %12s %12s %8s\n", "MiB, all ranks", "planned", "resident", "outside", "declared",
              "ratio");
  for (const Case &one : kCases) {
    if (one.needsDisk && disk.empty()) continue;
    std::string folder = scratch("bench-memory");
    std::vector<std::string> arguments = {tool("hyc-compile"),
                                          model("gpt2-124m.onnx"),
                                          "--weights",
                                          "initialise",
                                          "--loss",
                                          "cross_entropy",
                                          "--logits",
                                          "logits",
                                          "--labels",
                                          "labels",
                                          "--micro-batch",
                                          "1",
                                          "--lr",
                                          "3e-4",
                                          "-o",
                                          folder};
    arguments.insert(arguments.end(), one.flags.begin(), one.flags.end());
    if (one.needsDisk) arguments.insert(arguments.end(), {"--nvme-path", disk});
    run(arguments);
    std::string output = run({tool("hyc-run"), folder, "--data", model("text.bin"), "--steps", steps});
    std::printf("%-28s%s\n", one.name, lastRow(output).c_str());
    std::fflush(stdout);
    std::filesystem::remove_all(folder);
  }
  return 0;
}
