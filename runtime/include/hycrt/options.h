// The command line that hyc-run and every generated executable understand, so that the two cannot drift apart.
#ifndef HYCRT_OPTIONS_H_
#define HYCRT_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "hycrt/accelerator.h"
#include "hycrt/status.h"

namespace hycrt {

enum class WindowOrder { kShuffled, kInFile };

// Whether a rank has a thread on which collectives progress while it computes.
enum class CommunicationThread { kAuto, kOn, kOff };

struct RunOptions {
  std::string out;   // the compiled folder
  std::string data;  // tokens or samples (dataset.h); empty: none given
  int64_t steps = 100;
  bool evaluate = false;     // the loss over the data, without training
  bool limitsSteps = false;  // --steps was given
  uint64_t seed = 0;
  int threads = 0;  // per rank; 0: the cores divided by the ranks
  WindowOrder order = WindowOrder::kShuffled;
  std::string logFile;  // the five: empty is off
  std::string dumpGradients;
  std::string saveWeights;
  std::string trace;  // of the steps after the first; empty: none
  CommunicationThread communicationThread = CommunicationThread::kAuto;
  DeviceComm comm = DeviceComm::kAuto;  // of programs for GPUs
  bool tf32 = false;                    // of the same
  StepRecording cudaGraph = StepRecording::kAuto;
  std::string measureMemory;
  bool poison = false;
  std::string nvmePath;  // folder of the ranks' offload files; empty: as compiled
};

enum class CommandLine {
  kHycRun,  // hyc-run OUT [options]
  kRank,    // executable [options], where the folder is --out
};

struct ParsedCommandLine {
  RunOptions options;
  std::string help;  // not empty: --help was given, and this is the answer
};

// Usage errors carry the nearest known option where one is unknown.
Result<ParsedCommandLine> parseCommandLine(int argc, const char* const* argv, CommandLine kind);

// Before anything is started: every output can be made, and none is the data, one of `inputs` (see
// filesReadBy in manifest.h) or another output.
Status checkOutputs(const RunOptions& options, std::vector<std::string> inputs);

// What the compiled programs are for: those of an evaluation evaluate without being asked, and have nothing to save.
Status takeEntry(bool evaluates, RunOptions* options);

// What `threads` 0 stands for: the cores this process may use, divided by the ranks on this machine, at least 1.
int defaultThreads(int localRanks);

// What a run asks for, else what the manifest says, else the default.
int threadsPerRank(const RunOptions& options, int manifestThreads, int localRanks);

// kAuto: where every rank's threads leave it a core of this machine.
bool hasCommunicationThread(const RunOptions& options, int threads, int localRanks);

}  // namespace hycrt

#endif  // HYCRT_OPTIONS_H_
