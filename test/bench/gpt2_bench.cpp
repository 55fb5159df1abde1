// GPT-2 124M as a user trains it, beside the rates that bound it, all within one run:
//
//   - training tokens/s on one rank, as a share of what the GEMM rate measured before and after would allow;
//   - seconds from start to the end of the first step;
//   - compile seconds, host compiler included, cache empty, for 12 layers and, with a second model, for more;
//   - tokens/s in bf16 over tokens/s in f32, the runs taking turns.
//
// Usage: gpt2_bench [--threads N] [--steps N] [--turns N] [--deeper MODEL.onnx]
// (--deeper: test/models/export_gpt2.py --layers 48; --turns 0 leaves bf16 out)
//
// Operations a token: 6 a parameter that multiplies, and 12·l·h·s for attention, halved by the causal mask (Narayanan
// et al. 2021 without recomputation).
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "CompiledRun.h"
#include "kernels/gemm/op.h"
#include "nlohmann/json.hpp"

using namespace hyc_e2e;

namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// GFLOP/s of the product that most of the model's time goes to: 1024 tokens, width 768, inner 3072. Best of several.
double gemmRate(int threads) {
  omp_set_num_threads(threads);
  const int64_t m = 1024, n = 3072, k = 768;
  std::vector<float> a(m * k, 0.5f), b(k * n, 0.25f), c(m * n);
  hyc::kernels::GemmDesc desc;
  desc.m = m, desc.n = n, desc.k = k;
  std::vector<char> workspace(static_cast<size_t>(hyc::kernels::gemmWorkspaceBytes(desc, threads)) + 64);
  double best = 1e9;
  for (int i = 0; i < 100; ++i) {
    double start = now();
    hyc::kernels::gemm(desc, a.data(), b.data(), nullptr, c.data(), workspace.data());
    best = std::min(best, now() - start);
  }
  return 2.0 * m * n * k / best * 1e-9;
}

double compileSeconds(const std::string &modelPath, const std::string &folder, int threads,
                      const std::string &precision = "f32") {
  std::string cache = scratch("bench-cache");
  std::filesystem::create_directories(cache);
  setenv("HYC_CACHE_DIR", cache.c_str(), 1);
  double start = now();
  Outcome outcome = execute({tool("hyc-compile"),
                             modelPath,
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
                             "--precision",
                             precision,
                             "--threads",
                             std::to_string(threads),
                             "-o",
                             folder});
  double seconds = now() - start;
  if (outcome.status != 0) {
    std::fprintf(stderr, "%s", outcome.output.c_str());
    std::exit(1);
  }
  return seconds;
}

/// The fastest step of a run, in milliseconds.
double bestStep(const std::string &folder, int steps, int threads) {
  std::string log = folder + "/turn.jsonl";
  Outcome outcome = execute({tool("hyc-run"), folder, "--data", model("text.bin"), "--steps", std::to_string(steps),
                             "--threads", std::to_string(threads), "--log-file", log});
  if (outcome.status != 0) {
    std::fprintf(stderr, "%s", outcome.output.c_str());
    std::exit(1);
  }
  double best = 1e30;
  std::ifstream file(log);
  for (std::string line; std::getline(file, line);)
    best = std::min(best, nlohmann::json::parse(line)["ms"].get<double>());
  return best;
}

/// f32 and bf16 in turns, so that both see the machine's load; the best step of each.
void compareBf16(const std::string &f32, int turns, int steps, int threads) {
  std::string bf16 = scratch("bench-124m-bf16");
  compileSeconds(model("gpt2-124m.onnx"), bf16, threads, "bf16");
  double best[2] = {1e30, 1e30};
  for (int turn = 0; turn < turns; ++turn) {
    best[0] = std::min(best[0], bestStep(f32, steps, threads));
    best[1] = std::min(best[1], bestStep(bf16, steps, threads));
  }
  std::printf("bf16 over f32           %6.2f   (%.1f and %.1f tokens/s, products %s)\n", best[0] / best[1],
              1024e3 / best[1], 1024e3 / best[0], hyc::kernels::amxIsUsable() ? "on AMX" : "widened");
}

}  // namespace

int main(int argc, char **argv) {
  int threads = 2, steps = 4, turns = 2;
  std::string deeper;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (!std::strcmp(argv[i], "--threads"))
      threads = std::atoi(argv[i + 1]);
    else if (!std::strcmp(argv[i], "--steps"))
      steps = std::atoi(argv[i + 1]);
    else if (!std::strcmp(argv[i], "--turns"))
      turns = std::atoi(argv[i + 1]);
    else if (!std::strcmp(argv[i], "--deeper"))
      deeper = argv[i + 1];
  }
  const double parameters = 124.4e6 - 1024 * 768;  // the position table is added, not multiplied
  const double flopsPerToken = 6 * parameters + 12.0 * 12 * 768 * 1024 / 2;

  std::string folder = scratch("bench-124m");
  double compile12 = compileSeconds(model("gpt2-124m.onnx"), folder, threads);
  std::printf("compile, 12 layers      %6.2f s\n", compile12);
  if (!deeper.empty()) {
    double compileDeeper = compileSeconds(deeper, scratch("bench-deeper"), threads);
    std::printf("compile, deeper model   %6.2f s   ratio %.2f\n", compileDeeper, compileDeeper / compile12);
  }

  double before = gemmRate(threads);
  std::string log = folder + "/log.jsonl";
  double start = now();
  pid_t pid = hyc_e2e::start({tool("hyc-run"), folder, "--data", model("text.bin"), "--steps", std::to_string(steps),
                              "--threads", std::to_string(threads), "--log-file", log},
                             folder + "/output.txt");
  double firstStep = 0;
  int status = -1;
  while ((status = waitFor(pid, 0.05)) == -1)
    if (firstStep == 0 && std::filesystem::exists(log) && std::filesystem::file_size(log) > 0)
      firstStep = now() - start;
  double after = gemmRate(threads);
  if (status != 0) {
    std::fprintf(stderr, "hyc-run ended with %d; see %s/output.txt\n", status, folder.c_str());
    return 1;
  }
  std::vector<double> milliseconds;
  std::ifstream file(log);
  for (std::string line; std::getline(file, line);) milliseconds.push_back(nlohmann::json::parse(line)["ms"]);
  double best = *std::min_element(milliseconds.begin(), milliseconds.end());
  double tokensPerSecond = 1024 / (best * 1e-3), rate = tokensPerSecond * flopsPerToken * 1e-9;
  std::printf("gemm 1024x3072x768      %6.1f GFLOP/s before, %.1f after (%d threads)\n", before, after, threads);
  std::printf("start to first step     %6.2f s, the first step itself %.2f s\n", firstStep,
              milliseconds.front() * 1e-3);
  std::printf("training                %6.1f tokens/s (best of %zu steps), %.1f GFLOP/s, share of gemm %.2f\n",
              tokensPerSecond, milliseconds.size(), rate, rate / std::max(before, after));
  if (turns > 0) compareBf16(folder, turns, steps, threads);
  return 0;
}
