// CompileOptions: what a compilation is asked for: a plan, and beside it what the plan is of, what it is held to, and
// what is left behind.
#ifndef HYC_PLAN_COMPILEOPTIONS_H
#define HYC_PLAN_COMPILEOPTIONS_H

#include "hyc/Plan/Plan.h"

namespace hyc {

struct CompileOptions : Plan {
  std::string input; ///< .onnx, .pt2, .mlir text of phase 1, or a config.json (or its folder)

  // How the model is read
  Setting<std::vector<std::string>> dims = std::vector<std::string>(); ///< NAME=N
  /// Where parameters start: read, initialise-missing, initialise, or the path of a checkpoint.
  Setting<std::string> weights = "read";
  Setting<std::string> mode = "exported"; ///< exported, train or evaluate: see hyc::ModelMode
  Setting<bool> paddingMask = false;      ///< an encoder's folder tells tokens from padding by an input
  Setting<bool> keepMerged = false;       ///< tensors that an exporter merged stay one parameter

  // Files that decide; empty: none
  Setting<std::string> planFile = "", configFile = "";
  Setting<std::string> machineFile = ""; ///< rates of its ranks: a file, or the name of one that hyc has
  /// Profiles of runs, by which these rates are corrected, one after the other.
  Setting<std::vector<std::string>> measuredFiles = std::vector<std::string>();

  // What the plan is held to, as in 24GiB; empty: not limited
  Setting<std::string> deviceMemory = "", activationMemory = "";

  // The search for a layout
  Setting<int64_t> planCandidates = 0; ///< layouts that are shown side by side; 0: none
  Setting<double> planSeconds = 0.0;   ///< after which the best so far is taken; 0: no such end

  // What is left behind
  Setting<std::string> output = "";  ///< folder (source, exe) or file (a phase; empty: the text is handed back)
  Setting<std::string> emit = "exe"; ///< see EmitKind
  Setting<bool> planOnly = false;
  Setting<std::string> dumpFolder = "";  ///< the text after each phase; empty: none
  Setting<int64_t> optimization = 3;     ///< -O of the host compiler on generated files
  Setting<std::string> march = "native"; ///< -march of the host compiler on generated files
  Setting<std::vector<std::string>> architectures = std::vector<std::string>{"sm_80", "sm_90"}; ///< of GPUs, for cuda
};

/// Where to stop: after a phase (its text), with the plan and its account of memory, after the sources, or with
/// executables.
enum class EmitKind { Model, Train, Plan, Local, Rank, Account, Source, Exe };

} // namespace hyc

#endif // HYC_PLAN_COMPILEOPTIONS_H
