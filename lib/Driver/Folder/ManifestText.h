// manifest.json, as runtime/include/hycrt/manifest.h defines it.
#ifndef HYC_LIB_DRIVER_FOLDER_MANIFESTTEXT_H
#define HYC_LIB_DRIVER_FOLDER_MANIFESTTEXT_H

#include "Report/TimeReport.h"
#include "hyc/Plan/Plan.h"
#include "hycrt/file_sums.h"

#include <optional>

namespace hyc {

struct ManifestFacts {
  std::string name, planHash, schedule;
  std::string entry = "train"; ///< as Plan::entry
  std::string adapter;         ///< an object of JSON; empty: no adapters are trained
  std::string data;            ///< what is read: tokens or samples; empty: nothing
  /// Of programs that are compiled here; elsewhere it is another compiler that decides.
  struct Cpu {
    std::string march;
    std::vector<std::string> instructions; ///< as Linux names them
  };
  std::optional<Cpu> cpu;
  std::string dim;            ///< of which the programs train several sizes; empty: none
  std::vector<int64_t> sizes; ///< these, ascending
  int64_t stages = 1;
  struct Axis {
    std::string name;
    int64_t size = 1;
  };
  std::vector<Axis> axes; ///< of the mesh, major to minor
  int64_t microBatch = 1, gradAccum = 1, sequence = 1;
  int64_t threads = 0;
  std::string nvmePath;
  LearningRatePlan learningRate;
  std::string optimizer; ///< and its settings, in words; empty: nothing is trained
  std::optional<TimeEstimate> time;
  std::vector<hycrt::ModelFile> modelFiles; ///< absolute, or in the folder itself; each with its sums
  std::vector<std::string> stagePrograms;   ///< relative to the folder, one a stage
};

/// The optimizer of programs that train, with those of its settings that it has.
std::string describeOptimizer(const Plan &plan);

std::string writeManifest(const ManifestFacts &facts);

} // namespace hyc

#endif // HYC_LIB_DRIVER_FOLDER_MANIFESTTEXT_H
