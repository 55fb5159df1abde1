// Machine files: what a machine's ranks do and how they are joined, as JSON that people write or that ships with hyc.
//
//   {"name": "h100-sxm", "device_memory": 80e9,
//    "products": 67e12, "narrow_products": 989e12, "memory": 3.35e12, "launch": 3e-6,
//    "product_share": [{"operations": 1e9, "share": 0.3}, {"operations": 1e12, "share": 0.8}],
//    "tiers": [{"name": "host", "ranks": 8, "latency": 13e-6, "rates": [{"bytes": 1048576, "rate": 67e9}, …]},
//              {"name": "cluster", "ranks": 16384, "latency": 69e-6, "rates": […]}],
//    "sources": ["device_memory: …", …]}
//
// The surprise: every key may be left out, and is then a server CPU core's a thread; a file without tiers gives one
// link for all groups. docs/planning.md tells what each key means.
#ifndef HYC_PLANNER_MACHINE_H
#define HYC_PLANNER_MACHINE_H

#include "hyc/Analysis/MachineRates.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace hyc {

/// A key of a machine's file that is one number.
struct MachineKey {
  llvm::StringLiteral key;
  double MachineRates::*value;
  double least, most;
  llvm::StringLiteral meaning;
};
/// In the order in which reports show them.
llvm::ArrayRef<MachineKey> getMachineKeys();

/// What the file says; what it leaves out stays as it is in `rates`, but for what only some machines have: products
/// whose operands take time beside their operations. A machine without a name is called as its file
/// is, but for the ending. Errors (65, or 74 where the file cannot be read)
/// name line and column.
llvm::Expected<MachineRates> readMachine(const std::string &path, MachineRates rates);

/// The file that `--machine NAME` means: a path, where there is a file or NAME looks like one, else that of the machine
/// of this name in `folder`. An error (64) lists the names.
llvm::Expected<std::string> findMachine(const std::string &name, const std::string &folder);

/// The default rates of a rank of so many threads of a CPU.
MachineRates defaultRates(int64_t threads);

} // namespace hyc

#endif // HYC_PLANNER_MACHINE_H
