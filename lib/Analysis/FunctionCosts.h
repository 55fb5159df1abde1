// FunctionCosts: what each call of a rank program's function costs on its own, for the clocks of StepTime.
#ifndef HYC_LIB_ANALYSIS_FUNCTIONCOSTS_H
#define HYC_LIB_ANALYSIS_FUNCTIONCOSTS_H

#include "dialects/Rank/Moves.h"
#include "hyc/Analysis/StepTime.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringSet.h"

namespace hyc {

/// One call, with its cost on its own.
struct Event {
  enum class Kind { Compute, Exchange, Disk, Fetch, Evict, Wait }; ///< Fetch, Evict: over a GPU's bus
  Kind kind = Kind::Compute;
  double seconds = 0;
  size_t started = 0;  ///< of a Wait: the event that it waits for
  int64_t number = -1; ///< of an Exchange between stages: the collective's
  size_t stages = 1;   ///< that take part in it
  mlir::Operation *op = nullptr;
  llvm::StringRef layer; ///< of which a shared function was called: "transformer.h.3"; lasts as long as FunctionCosts
  TimeBound bound = TimeBound::Memory;
  double operations = 0, bytes = 0; ///< floating-point operations; bytes read and written, or sent
  rank::CollectiveOp collective;    ///< of an Exchange
  bool isStarted = true;            ///< by itself, which takes the thread that starts kernels its time
};

class FunctionCosts {
public:
  FunctionCosts(rank::ProgramOp program, const mlir::SymbolTable &symbols, const MachineRates &rates);

  /// Of a function and all that it invokes, in program order.
  std::vector<Event> of(rank::FuncOp func);

private:
  using Rows = llvm::DenseMap<mlir::Value, rank::RowOp>;

  void walk(mlir::Block &block, const Rows &rows, llvm::StringRef layer);
  void add(Event event, llvm::StringRef layer);
  Event costOfKernel(mlir::Operation *call) const;
  Event costOf(rank::StartOp start, const Rows &rows) const;
  Event costOf(rank::MoveOp move) const;
  double hostSeconds(mlir::Operation *call) const;

  const mlir::SymbolTable &symbols;
  dist::MeshOp mesh;
  const MachineRates &rates;
  bool onGpu; ///< whose kernels and copies go on at once, and reach the host's memory over a bus
  std::vector<Event> events;
  llvm::StringSet<> layers;
};

/// The id of the op that an event was made of, with the layer that a shared function leaves out. Empty for none.
std::string idOf(const Event &event);

} // namespace hyc

#endif // HYC_LIB_ANALYSIS_FUNCTIONCOSTS_H
