// Prints the calls of rank functions. A function of many calls becomes several small ones, since the host compiler's
// time grows faster than a function's length; so do the calls of a turn, where something is repeated.
#ifndef HYC_LIB_TARGET_CPP_FUNCTIONEMITTER_H
#define HYC_LIB_TARGET_CPP_FUNCTIONEMITTER_H

#include "CallPrinter.h"
#include "Names.h"
#include "dialects/Rank/Moves.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <map>
#include <set>

namespace hyc::cpp {

/// The text of one function: its calls, and what they need to have declared before. What targets spell in different
/// ways is the CallPrinter's, which writes with what is public here.
class FunctionEmitter {
public:
  using MakeCallPrinter = std::unique_ptr<CallPrinter>(FunctionEmitter &);

  /// `headers` gets what calls want included: "kernels/gemm/op.h".
  FunctionEmitter(rank::FuncOp func, dist::MeshOp mesh, MakeCallPrinter makePrinter, std::set<std::string> &headers);

  /// All definitions of the function; the last is called camelCase(name). `hasCall`: it gets a hycrt::Call.
  llvm::LogicalResult emit(llvm::raw_ostream &os, bool hasCall);

  // Expressions.
  std::string bytes(mlir::Value buffer);   // "activations + 4096"
  std::string pointer(mlir::Value buffer); // "f32(activations + 4096)"
  std::string mode(rank::WriteMode mode);
  /// How many elements a call works on: those of its operands that exist.
  std::string count(llvm::ArrayRef<mlir::Value> operands);
  /// Where a call's scratch memory is; nothing where it wants none, or brings its own.
  std::optional<std::string> workspaceOf(mlir::Operation *op);
  /// This rank's place along the axes, "0" along none.
  std::string coordinateAlong(dist::AxisListAttr axes) { return axes ? coordinate(axes) : "0"; }

  // Statements.
  void include(llvm::StringRef header) { headers.insert(header.str()); }
  void comment(mlir::Operation *op, llvm::StringRef text = "");
  void line(const llvm::Twine &text);
  void callLine(llvm::StringRef function, llvm::ArrayRef<std::string> arguments);
  /// "  static constexpr float values[] = {…};" of the call's attribute `values`, in its result's type.
  void declareValues(rank::CallOp op);
  /// "  const T tensors[] = {" rows "};", each row a line.
  void table(llvm::StringRef type, llvm::StringRef name, llvm::StringRef rows);

private:
  struct Piece {
    llvm::SmallVector<mlir::Operation *> calls;
  };
  llvm::SmallVector<Piece> cut() const;
  /// Where a buffer lies without its arena: "4096", "4096 + turn * 512", "at.weight".
  struct Offset {
    std::string arena, text;
    bool perSlot = false;
  };
  Offset offsetOf(mlir::Value buffer) const;
  void numberMoves();
  void emitStruct(llvm::raw_ostream &os);
  /// `more` are parameters beside those of all pieces.
  llvm::LogicalResult emitPiece(llvm::raw_ostream &os, llvm::ArrayRef<mlir::Operation *> calls, llvm::StringRef name,
                                llvm::StringRef more = "");
  std::string parameters() const;
  std::string arguments() const;
  std::string movesDeclaration() const;

  // Expressions.
  std::string bufferRef(mlir::Value buffer); // "{kActivations, 4096}"
  std::string row(mlir::Value row);
  std::string arenaBase(llvm::StringRef arena, bool perSlot);
  /// Of a shard, the variable that holds where it begins and how many elements it has: "dp2048Of8192".
  std::string shard(rank::BufferType type);
  /// "{f32(activations + 4096), hycrt::DType::kF32, 2048}", with sizes and strides where it is not dense.
  std::string checkedValues(mlir::Value buffer);
  std::string checkedList(mlir::ValueRange buffers);

  // Statements.
  llvm::LogicalResult emitCalls(llvm::ArrayRef<mlir::Operation *> calls);
  llvm::LogicalResult emitOp(mlir::Operation *op);
  llvm::LogicalResult emitRepeat(rank::RepeatOp op);
  /// Calls of a turn as statements, or as functions of their own where they are many.
  llvm::LogicalResult emitTurn(llvm::ArrayRef<mlir::Operation *> calls);
  void emitGemm(rank::GemmOp op);
  void emitLaunch(rank::LaunchOp op);
  void emitStart(rank::StartOp op);
  void emitFlatStart(rank::StartOp op, llvm::StringRef ticket);
  void emitMove(rank::MoveOp op);
  void emitCheck(rank::CheckOp op);
  void emitInvokes(llvm::ArrayRef<mlir::Operation *> invokes);
  void emitMark(llvm::ArrayRef<mlir::Operation *> printed);

  rank::FuncOp func;
  dist::MeshOp mesh;
  MakeCallPrinter *makePrinter;
  std::unique_ptr<CallPrinter> printer;
  std::set<std::string> &headers;
  std::string structName;                         // of a shared function's arguments
  llvm::DenseMap<mlir::Value, std::string> moves; // tickets of moves: "moves[3]"
  bool passesMoves = false;                       // several pieces share them
  int64_t turnParts = 0;                          // functions of calls that are repeated

  // Of the piece being printed.
  std::string before; // functions that it calls
  std::string text;
  llvm::raw_string_ostream body{text};
  std::set<std::pair<std::string, bool>> usedArenas;
  std::map<std::string, std::string> usedShards; // declarations by variable
  bool usesMode = false, usesBeta = false;
  llvm::DenseMap<mlir::Value, std::string> tickets;
};

} // namespace hyc::cpp

#endif // HYC_LIB_TARGET_CPP_FUNCTIONEMITTER_H
