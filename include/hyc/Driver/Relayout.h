// Relayout: whether a compiled folder should have another layout, by what a run of it took.
//
// The layout of the folder and those it is compared with are timed on the same machine, as the run's profile corrects
// it, so that a machine that was described wrongly is wrong for all of them. Without alternatives that were compiled
// beforehand the search of lib/Planner looks for one: of a folder whose layout was left to hyc under the same terms, of
// another with everything open that the search varies. The global batch and the number of ranks stay.
#ifndef HYC_DRIVER_RELAYOUT_H
#define HYC_DRIVER_RELAYOUT_H

#include "hyc/Driver/CompileListener.h"
#include "hyc/Driver/Toolchain.h"
#include "hyc/Support/DriverError.h"

#include <string>
#include <vector>

namespace hyc {

struct RelayoutRequest {
  std::string folder;                    ///< that was run
  std::string measured;                  ///< the run's profile.json
  std::vector<std::string> alternatives; ///< folders of the same model and global batch; empty: a layout is looked for
  double margin = 10;                    ///< percent of a step's time by which another layout has to be shorter
  double seconds = 0;                    ///< after which the search takes the best so far; 0: no such end
};

struct Relayout {
  struct Side {
    std::string layout; ///< its flags
    double seconds = 0; ///< of a step
  };
  Side present, found;
  bool isBetter = false; ///< by the margin
  std::string folder;    ///< the alternative that was found; empty: it has to be compiled
  /// Words of the hyc-compile that compiles it, but where to.
  std::vector<std::string> arguments;
  std::string batchShares; ///< for hyc-run, where ranks are not equally fast; else empty

  /// For people, with the command.
  std::string describe(const RelayoutRequest &request) const;
  /// One line, for hyc-run: {"layout", "is_better", "folder", "arguments", "batch_shares", "text"}, where the text is
  /// that for people.
  std::string toJson(const RelayoutRequest &request) const;
};

/// Errors: 64 of a folder whose layout a plan decides, 65 of files that are not what hyc wrote, of a model that is
/// another one by now, and of alternatives that train otherwise; 74 of what cannot be read.
llvm::Expected<Relayout> relayout(const RelayoutRequest &request, const Toolchain &toolchain,
                                  const CompileListener &listener = {});

/// Where hyc-run puts the programs of a layout that it takes up: FOLDER.replan.
std::string replannedFolder(const std::string &folder);

} // namespace hyc

#endif // HYC_DRIVER_RELAYOUT_H
