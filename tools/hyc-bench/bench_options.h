// What hyc-bench is asked for, and how a rank of it is told.
#ifndef HYC_BENCH_BENCH_OPTIONS_H_
#define HYC_BENCH_BENCH_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "hycrt/status.h"

namespace hycbench {

struct BenchOptions {
  std::string output, name;                // the machine's file, and what it calls the machine
  std::string hostfile, include, exclude;  // as hyc-run's
  std::string interface, nvmePath;
  int sshPort = 0;
  bool plaintext = false;
  bool onDevice = false;  // one GPU is measured, and no rank
  int ranks = 0;          // on this machine; 0: one a core, 8 at most
  int threads = 0;        // a rank; 0: the cores divided by the ranks
  int64_t mib = 64;       // of the largest message, and of each array that kernels run over
  double seconds = 0.2;   // for which each figure is measured in a pass
  int passes = 3;         // of everything, one after the other
};

inline constexpr char kDeviceProgram[] = "hyc-bench-cuda";  // measures the GPU, beside hyc-bench
// How a process of hyc-bench is told that it is a rank. No option of the user's has such a name.
inline constexpr char kRankFlag[] = "--rank";

struct CommandLine {
  BenchOptions options;
  std::string help;  // not empty: it is asked for
};
// Wrong usage names the option, what was found and what was expected.
hycrt::Result<CommandLine> parseCommandLine(int argc, char** argv);

// What ranks are to know of it, and back.
std::vector<std::string> argumentsForRanks(const BenchOptions& options);
// What kDeviceProgram is called with: MIB SECONDS PASSES.
std::vector<std::string> argumentsForDevice(const BenchOptions& options);
hycrt::Result<BenchOptions> optionsOfRank(const std::vector<std::string>& arguments);

}  // namespace hycbench

#endif  // HYC_BENCH_BENCH_OPTIONS_H_
