// The arenas of a program, by name: each is memory for one purpose. Whether one is shared depends on what lies in it.
#ifndef HYC_DIALECTS_RANK_ARENAS_H
#define HYC_DIALECTS_RANK_ARENAS_H

#include "llvm/ADT/StringRef.h"

namespace hyc::rank {

inline constexpr llvm::StringLiteral kParameters = "parameters";
inline constexpr llvm::StringLiteral kGradients = "gradients";
inline constexpr llvm::StringLiteral kOptimizer = "optimizer";
inline constexpr llvm::StringLiteral kActivations = "activations";
inline constexpr llvm::StringLiteral kCommunication = "communication";
inline constexpr llvm::StringLiteral kConstants = "constants"; // what is written once a run
inline constexpr llvm::StringLiteral kFeeds = "feeds";         // what the host fills for each step, and small counters
inline constexpr llvm::StringLiteral kWorkspace = "workspace"; // scratch memory of calls
inline constexpr llvm::StringLiteral kHost = "host";           // what is offloaded
inline constexpr llvm::StringLiteral kNvme = "nvme";           // a file

/// All of them, in the order in which accounts list them.
inline constexpr llvm::StringLiteral kArenas[] = {kParameters, kGradients, kOptimizer, kActivations, kCommunication,
                                                  kConstants,  kFeeds,     kWorkspace, kHost,        kNvme};

/// Whether an arena takes up the device's memory.
inline bool isOnDevice(llvm::StringRef arena) { return arena != kHost && arena != kNvme; }

} // namespace hyc::rank

#endif // HYC_DIALECTS_RANK_ARENAS_H
