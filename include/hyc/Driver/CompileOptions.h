// What a compilation is asked for, as typed; an optional that is empty was not said, and the plan file or the model
// decides.
#ifndef HYC_DRIVER_COMPILEOPTIONS_H
#define HYC_DRIVER_COMPILEOPTIONS_H

#include "llvm/Support/Error.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hyc {

/// Where to stop: after a phase (its text), after the sources, or with executables.
enum class EmitKind { Model, Train, Plan, Local, Rank, Source, Exe };

struct CompileOptions {
  std::string input;  ///< .onnx, or .mlir text of phase 1
  std::string output; ///< folder (source, exe) or file (a phase; empty: standard output)
  EmitKind emit = EmitKind::Exe;
  std::string dumpFolder; ///< the text after each phase; empty: none

  std::string loss = "cross_entropy", logits, labels = "labels";
  std::vector<std::string> dims; ///< NAME=N
  std::string weights = "read";  ///< where parameters start: read, initialise-missing, initialise
  std::optional<int64_t> microBatch;
  int64_t gradAccum = 1;

  std::optional<int64_t> tp, pp, dp;
  std::optional<std::string> schedule, partitionMethod;
  std::string planFile;

  std::string optimizer = "adamw";
  double learningRate = 1e-3, weightDecay = 0, momentum = 0, clipGradNorm = 0;
  std::vector<std::string> noDecay;
  std::string learningRateSchedule = "constant";
  int64_t warmupSteps = 0;

  int64_t threads = 0; ///< per rank; 0: the cores divided by the ranks, when they start
};

/// Most ranks that one job may have; the runtime reads no manifest of more.
inline constexpr int64_t kMaxRanks = 4096;

/// Checks every value by itself and the mesh as a whole; a usage error names the flag, what it is and what it may be.
llvm::Error checkOptions(const CompileOptions &options);

/// The name and size of one `--dim`.
llvm::Expected<std::pair<std::string, int64_t>> parseDim(const std::string &text);

} // namespace hyc

#endif // HYC_DRIVER_COMPILEOPTIONS_H
