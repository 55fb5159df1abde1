// Prints the calls of rank functions. A function of many calls becomes several small ones, since the host compiler's
// time grows faster than a function's length.
#ifndef HYC_LIB_TARGET_CPP_FUNCTIONEMITTER_H
#define HYC_LIB_TARGET_CPP_FUNCTIONEMITTER_H

#include "Names.h"
#include "dialects/Rank/Moves.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <map>
#include <set>

namespace hyc::cpp {

/// The text of one piece: its calls, and what they need to have declared before.
class FunctionEmitter {
public:
  /// `onGpu`: kernels are those of kernels/<op>/cuda.h, on the stream `stream`.
  FunctionEmitter(rank::FuncOp func, dist::MeshOp mesh, bool onGpu = false);

  /// All definitions of the function; the last is called camelCase(name). `hasCall`: it gets a hycrt::Call.
  llvm::LogicalResult emit(llvm::raw_ostream &os, bool hasCall);

private:
  using Attribute = mlir::Attribute;

  struct Piece {
    llvm::SmallVector<mlir::Operation *> calls;
  };
  llvm::SmallVector<Piece> cut() const;
  void numberMoves();
  void emitStruct(llvm::raw_ostream &os);
  llvm::LogicalResult emitPiece(llvm::raw_ostream &os, const Piece &piece, llvm::StringRef name);
  std::string parameters() const;
  std::string arguments() const;
  std::string movesDeclaration() const;

  // Expressions.
  std::string bytes(mlir::Value buffer);     // "activations + 4096"
  std::string pointer(mlir::Value buffer);   // "f32(activations + 4096)"
  std::string bufferRef(mlir::Value buffer); // "{kActivations, 4096}"
  std::string row(mlir::Value row);
  std::string mode(rank::WriteMode mode);
  std::string arenaBase(llvm::StringRef arena, bool perSlot);
  /// Adds where a call's scratch memory is; nothing where it wants none, or brings its own.
  void addWorkspace(mlir::Operation *op, llvm::SmallVectorImpl<std::string> &arguments);
  /// Of a shard, the variable that holds where it begins and how many elements it has: "dp2048Of8192".
  std::string shard(rank::BufferType type);
  /// "{f32(activations + 4096), hycrt::DType::kF32, 2048}", with sizes and strides where it is not dense.
  std::string checkedValues(mlir::Value buffer);
  std::string checkedList(mlir::ValueRange buffers);
  /// How many elements a call works on: those of its operands that exist.
  std::string count(llvm::ArrayRef<mlir::Value> operands);

  // Statements.
  void comment(mlir::Operation *op, llvm::StringRef text = "");
  void line(const llvm::Twine &text);
  void callLine(llvm::StringRef function, llvm::ArrayRef<std::string> arguments);
  llvm::LogicalResult emitOp(mlir::Operation *op);
  void emitGemm(rank::GemmOp op);
  void emitLaunch(rank::LaunchOp op);
  void emitStart(rank::StartOp op);
  void emitFlatStart(rank::StartOp op, llvm::StringRef ticket);
  void emitMove(rank::MoveOp op);
  void emitCheck(rank::CheckOp op);
  void emitInvokes(llvm::ArrayRef<mlir::Operation *> invokes);
  llvm::LogicalResult emitCall(rank::CallOp op);
  void emitLayerNorm(rank::CallOp op);
  void emitRmsNorm(rank::CallOp op);
  void emitRotation(rank::CallOp op);
  void emitAttention(rank::CallOp op);
  std::string dropoutText(rank::CallOp op, mlir::OperandRange random);
  void emitEmbedding(rank::CallOp op);
  static bool isIndexed(llvm::StringRef kernel);
  void emitIndexed(rank::CallOp op);
  void emitConvolution(rank::CallOp op);
  void emitMaxPool(rank::CallOp op);
  void emitGather(rank::CallOp op);
  void emitLoss(rank::CallOp op);
  void emitMoves(rank::CallOp op);
  void emitStridedCopy(rank::CallOp op);
  void emitAccumulate(rank::CallOp op);
  void emitAccumulateMax(rank::CallOp op);
  void emitRound(rank::CallOp op);
  void emitUpdates(rank::CallOp op);
  void emitOptimizer(rank::CallOp op, const std::string &elements);
  void emitLossScale(rank::CallOp op);
  void emitCoordinates(rank::CallOp op);

  // CudaCalls.cpp: what GPUs are told in another way than CPUs.
  llvm::LogicalResult emitCudaCall(rank::CallOp op);
  void emitCudaLoss(rank::CallOp op);
  void emitCudaMove(rank::CallOp op);
  void emitCudaUpdate(rank::CallOp op);
  void emitCudaOptimizer(rank::CallOp op);
  /// What is done with many tensors alike is one call; these return how many of `calls` they have printed, 0 where the
  /// first is nothing of the kind. Updates that follow one another and differ in their tensors alone, with the rounding
  /// of what one has updated; sums of squares that go into one sum.
  size_t emitCudaRun(llvm::ArrayRef<mlir::Operation *> calls);
  size_t emitCudaAdamW(llvm::ArrayRef<mlir::Operation *> calls);
  size_t emitCudaSumOfSquares(llvm::ArrayRef<mlir::Operation *> calls);
  std::string adamWCall(rank::CallOp op);

  rank::FuncOp func;
  dist::MeshOp mesh;
  bool onGpu;
  bool hasFailed = false;                         // an op of the piece has no spelling, which has been told
  std::string structName;                         // of a shared function's arguments
  llvm::DenseMap<mlir::Value, std::string> moves; // tickets of moves: "moves[3]"
  bool passesMoves = false;                       // several pieces share them

  // Of the piece being printed.
  std::string text;
  llvm::raw_string_ostream body{text};
  std::set<std::pair<std::string, bool>> usedArenas;
  std::map<std::string, std::string> usedShards; // declarations by variable
  bool usesMode = false, usesBeta = false;
  llvm::DenseMap<mlir::Value, std::string> tickets;
};

} // namespace hyc::cpp

#endif // HYC_LIB_TARGET_CPP_FUNCTIONEMITTER_H
