// The command line that hyc-run and every generated executable understand, so that the two cannot drift apart.
#ifndef HYCRT_OPTIONS_H_
#define HYCRT_OPTIONS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "hycrt/accelerator.h"
#include "hycrt/status.h"
#include "hycrt/surroundings.h"

namespace hycrt {

struct Manifest;  // manifest.h

// Of samples; kByDocument: of documents, from which windows are cut then.
enum class WindowOrder { kShuffled, kInFile, kByDocument };

// How a file of tokens holds them; kAuto: as its first bytes say (io/token_file.h).
enum class DataFormat { kAuto, kBytes, kLlmc, kUint16, kUint32 };

// Whether a rank has a thread on which collectives progress while it computes.
enum class CommunicationThread { kAuto, kOn, kOff };

// How tensors pass between ranks by way of their hosts.
enum class TransportChoice { kAuto, kTcp, kUcx };

// What becomes of a run that cannot write a checkpoint.
enum class CheckpointFailure { kStop, kWarn };

// When training goes on after a checkpoint is begun: kAsync, at once, while copies of the states are written, kSync,
// when it is written; kAuto: at once where there is memory for the copies.
enum class CheckpointMode { kAuto, kAsync, kSync };

// Where copies of the states are kept beside checkpoints: nowhere, or in the memory of the next host (hycrt/copies.h).
enum class CopyPlace { kNone, kNeighbour };

// What becomes of a layout that is better by what a run has taken: it is told, or taken up at a checkpoint.
enum class ReplanMode { kPropose, kAuto };

// A member an option; what each means is said by its row (run_option_rows.h), which --help prints.
struct RunOptions {
  std::string out;            // the compiled folder
  bool limitsSteps = false;   // --steps was given
  bool seedGiven = false;     // --seed was given
  bool savesAdapter = false;  // takeEntry: what --save-weights names gets adapters alone
#define HYC_RUN_OPTION(type, member, defaultValue, flag, values, traits, help) type member = defaultValue;
#include "hycrt/run_option_rows.h"
#undef HYC_RUN_OPTION
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

// Every option of hyc-run for programs that drive it: a JSON list of {"flag":"--steps","type":"integer","choices":[],
// "values":"N","default":"100","help":"…"}, where type is flag (it has no value), integer or text.
std::string writeOptionsJson();

// What hyc-run, told `options`, starts each rank with, beside --out. With "=", no value can be taken for an option.
std::vector<std::string> argumentsForRanks(const RunOptions& options);

// The options of what tells of a run, for a rank that no hyc-run tells of.
std::vector<std::string> argumentsForTelling(const RunOptions& options);

// Of the former, with its value, what the ranks of a job must be told alike.
std::vector<std::pair<std::string, std::string>> optionsInCommon(const RunOptions& options);

// How training goes through its data, by --no-shuffle and --shuffle-documents, of which one may be given.
Result<WindowOrder> orderOf(const RunOptions& options);

// Before anything is started: every output can be made, and none is the data, one of `inputs` (see
// filesReadBy in manifest.h) or another output.
Status checkOutputs(const RunOptions& options, std::vector<std::string> inputs);

// What the compiled programs are for, and what they can save: those of an evaluation evaluate without being asked, and
// have nothing to save; those without an entry that evaluates have nothing to do with --evaluate-data.
Status takeEntry(const Manifest& manifest, RunOptions* options);

// What `threads` 0 stands for: the cores this process may use, divided by the ranks on this machine, at least 1.
int defaultThreads(int ranksHere);

// What a run asks for, else what the manifest says, else the default.
int threadsPerRank(const RunOptions& options, int manifestThreads, const Surroundings& surroundings);

// kAuto: where every rank's threads leave it a core of this machine.
bool hasCommunicationThread(const RunOptions& options, int threads, const Surroundings& surroundings);

}  // namespace hycrt

#endif  // HYCRT_OPTIONS_H_
