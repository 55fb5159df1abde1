// What placement tells of a program beside its offsets (hyc/Analysis/MemoryAccount.h): its functions and instructions
// in words, and each tensor with the lives that decided where it lies.
#ifndef HYC_LIB_TRANSFORMS_RANK_PLACEMENTACCOUNT_H
#define HYC_LIB_TRANSFORMS_RANK_PLACEMENTACCOUNT_H

#include "BufferLives.h"
#include "hyc/Analysis/MemoryAccount.h"

namespace hyc {

/// The stage without its arenas, before anything is placed.
StageAccount accountExecution(rank::ProgramOp program, const BufferLives &lives);

/// The tensors of arenas, once they have their places.
class TensorAccounts {
public:
  TensorAccounts(rank::ProgramOp program, llvm::ArrayRef<AccountedFunction> functions)
      : program(program), functions(functions) {}

  /// States, inputs, scalars and constants: they are there for the whole run.
  void addSymbols(rank::ArenaOp arena, ArenaAccount &result);
  AccountedTensor ofTemporary(rank::AllocOp alloc, const ArenaItem &item);
  AccountedTensor ofRecord(const RecordUses &uses, const ArenaItem &item);

private:
  std::string describe(rank::BufferType type);

  rank::ProgramOp program;
  llvm::ArrayRef<AccountedFunction> functions;
  llvm::DenseMap<mlir::Type, std::string> elementTypes; // as text: few are of many tensors, and printing is long
};

} // namespace hyc

#endif // HYC_LIB_TRANSFORMS_RANK_PLACEMENTACCOUNT_H
