// ProgramFolder: fills the output folder with what hyc-run starts and a person reads: plan.json, report.txt,
// memory.json, plan.html, src/, bin/, ops.json, command.json and manifest.json.
#ifndef HYC_LIB_DRIVER_FOLDER_PROGRAMFOLDER_H
#define HYC_LIB_DRIVER_FOLDER_PROGRAMFOLDER_H

#include "Fit/LayoutChoice.h"
#include "Folder/AdapterFiles.h"
#include "Folder/OutputFolder.h"
#include "Report/TimeReport.h"
#include "hyc/Analysis/MemoryAccount.h"
#include "hyc/Driver/CompileListener.h"
#include "hyc/Driver/Toolchain.h"
#include "hyc/Plan/CompileOptions.h"
#include "hycrt/file_sums.h"
#include "mlir/IR/BuiltinOps.h"

namespace hyc {

/// What is known of a compiled model beside its phase-5 module.
struct CompiledModel {
  std::string name;        ///< of the job
  std::string modelFolder; ///< against which #hyc.file paths are resolved
  std::string configText;  ///< of a Hugging Face folder, to go with saved weights; empty: the model has none
  std::optional<AdapterFacts> adapters; ///< what is trained beside the model's own parameters
  CompileOptions asked;                 ///< what was said, before anything was settled or found
  Plan plan;
  uint64_t planHash = 0;
  int64_t microBatch = 1, sequence = 0;              ///< samples, and tokens of each; 0 where nothing is a token
  std::string exchangeReport;                        ///< of phase 4
  JobAccount account;                                ///< of memory and communication
  std::vector<std::pair<std::string, int64_t>> axes; ///< of the mesh of one stage, the last fastest
  MachineRates rates;
  std::optional<TimeEstimate> time;     ///< by `rates`
  std::vector<std::vector<OpTime>> ops; ///< of each stage: what its functions call, at `rates`
  std::vector<Candidate> candidates;    ///< layouts that were considered; empty: none was looked for
  double memoryLimit = 0;               ///< bytes of a device; 0: nobody says
};

class ProgramFolder {
public:
  ProgramFolder(OutputFolder &folder, const CompileOptions &options, const CompiledModel &model)
      : folder(folder), options(options), model(model) {}

  /// Writes what was decided and what it costs: plan.json, report.txt, memory.json and
  /// plan.html.
  llvm::Error writePlan();
  /// Writes the plan and everything else but executables.
  llvm::Error writeSources(mlir::ModuleOp rank, const class DiagnosticCollector &diagnostics,
                           const Toolchain &toolchain);
  /// Compiles what writeSources has left.
  llvm::Error buildPrograms(const Toolchain &toolchain, const CompileListener &listener);

private:
  std::string report() const;
  /// 16 digits.
  std::string planHash() const;
  std::string manifest(mlir::ModuleOp rank, std::vector<hycrt::ModelFile> modelFiles, const Toolchain &toolchain) const;
  /// The model's files with what they hold; where a bundle is made, copied into it.
  llvm::Expected<std::vector<hycrt::ModelFile>> takeModelFiles(mlir::ModuleOp rank, bool bundles);
  std::string resolve(const std::string &modelFile) const;
  std::string programOf(int64_t stage) const { return "bin/stage" + std::to_string(stage); }

  OutputFolder &folder;
  const CompileOptions &options;
  const CompiledModel &model;
  std::vector<std::string> sources; ///< .cpp and .cu files, relative to src/
};

} // namespace hyc

#endif // HYC_LIB_DRIVER_FOLDER_PROGRAMFOLDER_H
