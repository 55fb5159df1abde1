// TimedCalls: the statements of a rank program that take time, in the order in which they are executed.
//
// A profile is a list of durations without names: the program marks the end of each of these statements (hycrt::mark),
// and what the n-th of a function is stands here. Whoever prints programs and whoever describes them therefore ask one
// function which statements count.
#ifndef HYC_ANALYSIS_TIMEDCALLS_H
#define HYC_ANALYSIS_TIMEDCALLS_H

#include "dialects/Rank/RankDialect.h"
#include "hyc/Analysis/MachineRates.h"

#include <string>
#include <utility>
#include <vector>

namespace hyc {

/// Whether a statement is marked. Calls of shared functions are not, but what those call.
bool isTimed(mlir::Operation *op);

struct TimedCall {
  enum class Kind { Kernel, Exchange, Move, Wait };
  Kind kind = Kind::Kernel;
  size_t started = 0;   ///< of a Wait: which of the function's calls it waits for
  std::string what, id; ///< the kernel, or the kind of the exchange or move; the op that it was made of, or empty
  TimeBound bound = TimeBound::Memory;
  double seconds = 0;               ///< at the machine's rates
  double operations = 0, bytes = 0; ///< floating-point operations; bytes read and written, or sent
  double message = 0;               ///< of an Exchange: bytes of the whole tensor
  int64_t members = 1;
  rank::CollectiveOp collective; ///< of an Exchange
};

/// Whether a kernel, by its name, is fused attention, whose operations have a rate of their own.
bool isFusedAttention(llvm::StringRef kernel);

/// Of a function, by its name; what it invokes stands there as often.
using TimedFunction = std::pair<std::string, std::vector<TimedCall>>;

/// Of each function that the runtime calls, in the order of ProgramOp::getFunctionNames.
std::vector<TimedFunction> timedCalls(rank::ProgramOp program, const MachineRates &rates);

} // namespace hyc

#endif // HYC_ANALYSIS_TIMEDCALLS_H
