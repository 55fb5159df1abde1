// DeviceLimits: how much memory the device of each rank may need, by --device-memory, the machine and its kinds of
// ranks.
//
// The surprise: --device-memory is the limit in place of the machine's figure, above it too; a kind that tells a figure
// of its own keeps that where it is less.
#ifndef HYC_LIB_DRIVER_FIT_DEVICELIMITS_H
#define HYC_LIB_DRIVER_FIT_DEVICELIMITS_H

#include "hyc/Analysis/MachineRates.h"
#include "hyc/Analysis/MemoryAccount.h"
#include "hyc/Plan/CompileOptions.h"
#include "llvm/Support/Error.h"

#include <string>

namespace hyc {

/// Most bytes of a device, whatever kinds of ranks have: --device-memory, else the machine's; 0: nobody says.
llvm::Expected<double> memoryLimit(const CompileOptions &options, const MachineRates &machine);

/// `machine` with what each kind of ranks may need as its device memory, and with the most of them as that of all; 0:
/// not limited.
llvm::Expected<MachineRates> withMemoryLimits(const CompileOptions &options, MachineRates machine);

/// What some ranks may need, by a machine with limits, and who says so.
struct DeviceLimit {
  double bytes = 0;   ///< 0: not limited
  std::string source; ///< "--device-memory", "--machine", "kind "old" of --machine"

  bool isExceededBy(double needed) const { return bytes > 0 && needed > bytes; }
};
DeviceLimit limitOfStage(const CompileOptions &options, const MachineRates &limited, int64_t stage,
                         int64_t ranksPerStage);

/// The stage of a job that is furthest above its limit, or nearest to it.
struct TightestStage {
  const StageAccount *stage = nullptr;
  DeviceLimit limit;
  double part = 0; ///< of the limit that it needs; 0: no stage is limited
};
TightestStage tightestStage(const CompileOptions &options, const MachineRates &limited, const JobAccount &job);

} // namespace hyc

#endif // HYC_LIB_DRIVER_FIT_DEVICELIMITS_H
