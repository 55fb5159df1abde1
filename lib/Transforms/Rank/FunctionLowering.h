// Turns one function over tensors into calls over buffers. FunctionLowering.cpp has what all ops share: arguments,
// results, where values lie. How an op is lowered stands in the Lower*.cpp file of its topic, and nowhere else: a
// specialisation of FunctionLowering::lower, and a row of LoweringTable.
//
// The surprise: destinations are decided before a value is made, by looking at its uses: a part of a concatenation is
// written into the whole, a term of a gradient is added to the state, an operand of a collective is made in shared
// memory.
#ifndef HYC_LIB_TRANSFORMS_RANK_FUNCTIONLOWERING_H
#define HYC_LIB_TRANSFORMS_RANK_FUNCTIONLOWERING_H

#include "ProgramTables.h"
#include "dialects/Dist/Placement.h"

#include "llvm/ADT/StringSet.h"

namespace hyc {

class FunctionLowering {
public:
  /// `kind` is forward, backward, reduce or apply; of the former two there is one each virtual stage. In the order in
  /// which they first run in a step: a function overwrites the gradients that none before it has added to.
  FunctionLowering(ProgramTables &tables, FuncOp source, rank::FuncOp target, dist::InstructionKind kind,
                   int64_t virtualStage)
      : tables(tables), source(source), kind(kind), virtualStage(virtualStage), builder(target.getBody()) {
    for (auto write : source.getBody().front().getOps<WriteOp>())
      writes[write.getTarget()].push_back(write);
  }

  llvm::LogicalResult run();

private:
  friend class LoweringTable;

  /// Where a result goes, and what becomes of the old contents.
  struct Destination {
    mlir::Value buffer;
    rank::WriteMode mode = rank::WriteMode::overwrite;
  };
  enum class Layout { Dense, Strided };

  // Arguments, results and dispatch.
  llvm::LogicalResult lowerArgument(mlir::BlockArgument argument);
  llvm::LogicalResult lowerResult(unsigned index, mlir::Value value, mlir::Location loc);
  llvm::LogicalResult lowerAny(mlir::Operation *op);
  /// One op; each is specialised in the file of its topic, and a row of LoweringTable.
  template <typename OpT> llvm::LogicalResult lower(OpT op);
  rank::RecordOp recordOf(mlir::Value buffer, llvm::StringRef name);
  llvm::SmallVector<mlir::Value, 2> takeTensorsIn(mlir::Value temporary);
  bool outlivesWrite(ReadOp read);
  void addTransfer(rank::RecordOp record, llvm::StringRef channel, bool send, mlir::Location loc);

  // Where values lie.
  mlir::Value bufferOf(mlir::Value tensor) { return buffers.lookup(tensor); }
  rank::BufferType typeOf(mlir::Value tensor) { return llvm::cast<rank::BufferType>(bufferOf(tensor).getType()); }
  mlir::Value denseBufferOf(mlir::Value tensor);
  /// Its rows may be apart, all by the same distance (rank::rowStride).
  mlir::Value rowsBufferOf(mlir::Value tensor);
  mlir::Value allocate(rank::BufferType type, llvm::StringRef arena, mlir::Location loc, llvm::StringRef id);
  /// With the strides of `type`.
  mlir::Value allocateAs(rank::BufferType type, llvm::StringRef arena, mlir::Location loc, llvm::StringRef id);
  Destination destinationOf(mlir::Value tensor, Layout layout);
  /// Where a part of a concatenation lies in the whole.
  mlir::Value placeIn(ConcatOp concat, unsigned part);
  mlir::Value placeBesideOtherUses(mlir::Value tensor);
  /// Where `tensor` lies if rows of it begin at multiples of kPaddedRowBytes: on GPUs, where that is what tensor cores
  /// and wide loads want, and whoever reads it steps over what is between them. Null: rows follow one another.
  rank::BufferType paddedType(mlir::Value tensor);
  /// The op that is `tensor`'s only use, reshapes aside, if it adds it to state.
  AccumulateOp soleAccumulation(mlir::Value tensor);
  /// The state that `tensor`'s only use adds it to, if there is one; that use is then done with.
  std::optional<Destination> accumulationOf(mlir::Value tensor);
  Destination accumulationOrDestination(mlir::Value tensor, Layout layout);
  rank::WriteMode modeOfAccumulation(llvm::StringRef state);
  bool needsShared(mlir::Value tensor);
  llvm::StringRef arenaFor(mlir::Value tensor);
  /// Where ops find a state now: its copy, if it was fetched, else where it is kept.
  mlir::Value addressOf(mlir::Operation *user, llvm::StringRef state);
  bool isKeptElsewhere(mlir::Operation *user, llvm::StringRef state);
  mlir::Value homeOf(mlir::Operation *user, llvm::StringRef state);
  mlir::Value view(mlir::Value buffer, int64_t offset, rank::BufferType type);
  /// The same elements under another shape, if strides can express it; else null.
  mlir::Value reshapeView(mlir::Value buffer, llvm::ArrayRef<int64_t> shape);
  void copy(mlir::Value destination, mlir::Value from, llvm::StringRef id);
  rank::CallOp call(mlir::Operation *op, llvm::StringRef kernel, mlir::ValueRange outs, mlir::ValueRange ins,
                    llvm::ArrayRef<mlir::NamedAttribute> attributes = {},
                    rank::WriteMode mode = rank::WriteMode::overwrite);
  mlir::NamedAttribute named(llvm::StringRef name, mlir::Attribute value) { return builder.getNamedAttr(name, value); }

  // Symbols and updates.
  llvm::SmallVector<mlir::Value> addressesOf(UpdateOpInterface op);
  llvm::LogicalResult lowerUpdate(UpdateOpInterface op);

  // Shapes and elements.
  mlir::Value concatBuffer(ConcatOp op);
  std::optional<rank::WriteMode> accumulationMode(llvm::ArrayRef<mlir::Value> results);

  // Matrix products.
  void storeOrdered(mlir::Operation *op, mlir::Value from, llvm::StringRef order, llvm::StringRef letters,
                    const Destination &to);
  llvm::LogicalResult lowerProduct(mlir::Operation *op, llvm::StringRef spec, mlir::Value lhs, mlir::Value rhs,
                                   mlir::Value bias);
  mlir::Value permuted(mlir::Value buffer, llvm::StringRef letters, llvm::StringRef order, llvm::StringRef id);

  // Composite ops.
  template <typename OpT>
  llvm::SmallVector<mlir::Value> maskAndRandomBuffers(OpT op, llvm::SmallVectorImpl<mlir::NamedAttribute> &attributes);
  mlir::Value headStridesBuffer(mlir::Value tensor);

  // Windows, and ops by number.
  template <typename OpT> llvm::LogicalResult lowerConvolution(OpT op);
  /// The gradient of a norm with a scale and a bias; `workspaceOf` tells the scratch memory that it wants for x.
  template <typename OpT>
  void lowerNormGradient(OpT op, llvm::StringRef kernel,
                         llvm::function_ref<rank::BufferType(rank::BufferType)> workspaceOf);

  // Loops.
  friend class ScanLowering;

  // Moves.
  /// The ticket of a move.
  mlir::Value startMove(mlir::Operation *op, llvm::StringRef kind, llvm::StringRef state, mlir::Value destination,
                        mlir::Value source);

  // Exchanges.
  friend class ExchangeLowering; // one method a kind
  /// Whether nothing else sees the memory of a started reduction's operand: it may then be combined where it lies.
  bool worksInPlace(mlir::Operation *start);
  /// Starts `op` on buffers, and remembers its ticket.
  rank::StartOp start(dist::ExchangeOpInterface op, mlir::Value buffer, mlir::Value destination, int64_t count,
                      dist::AxisListAttr flat = {});
  int64_t memberCount(dist::GroupAttr group);

  /// Marks a call whose indices, the operand that `operand` names, come from the model's own computation: they are
  /// compared with `bound` when they are used. What comes from an input as it is, the loader has compared.
  void boundIndices(rank::CallOp call, mlir::Value indices, llvm::StringRef operand, int64_t bound);

  // Flat shards.
  llvm::LogicalResult lowerFlatAllGather(dist::AllGatherStartOp op);
  llvm::LogicalResult lowerFlatReduceScatter(dist::ReduceScatterStartOp op);
  int64_t flatShardSize(int64_t elements, dist::AxisListAttr axes);
  /// This rank's own slice of a dense buffer.
  mlir::Value shardView(mlir::Value buffer, dist::AxisListAttr axes);
  /// What `user` works on of a state: with `dist.flat` this rank's shard of it.
  mlir::Value shardOrAddressOf(mlir::Operation *user, llvm::StringRef name);
  rank::StateOp stateOf(mlir::Value buffer);
  bool shareWhereItLies(mlir::Value buffer);
  mlir::Value inCommunication(mlir::Value buffer, mlir::Operation *op);

  ProgramTables &tables;
  FuncOp source;
  dist::InstructionKind kind;
  int64_t virtualStage;
  mlir::OpBuilder builder;
  llvm::StringMap<llvm::SmallVector<WriteOp, 1>> writes; // by state
  llvm::DenseMap<mlir::Value, mlir::Value> buffers;      // tensor or pending -> buffer
  /// The other way round, of temporaries: made when the first of them becomes a record, after all ops are lowered.
  std::optional<llvm::DenseMap<mlir::Value, llvm::SmallVector<mlir::Value, 2>>> tensorsIn;
  struct FetchedCopy {
    mlir::Value buffer;
    bool isShard = false; // of a state that is kept whole
  };
  llvm::StringMap<FetchedCopy> copies;
  llvm::DenseMap<mlir::Value, mlir::Value> tickets; // pending -> ticket
  /// What an exchange itself writes: a part of each member, one after the other, to be joined along a dimension.
  struct MemberParts {
    mlir::Value buffer;
    int64_t dim = 0;
  };
  llvm::DenseMap<mlir::Value, MemberParts> received; // by what is pending
  llvm::DenseMap<mlir::Operation *, mlir::Value> concats;
  /// Of the step of a scan that is being lowered: where what it gives has to lie, and what its invariant arguments are
  /// outside.
  struct ScanStep {
    llvm::DenseMap<mlir::Value, mlir::Value> places, invariants;
  };
  ScanStep scanStep;
  llvm::DenseSet<mlir::Operation *> fusedAccumulations;
};

/// What an op makes of the numbers of an operand that indexes something.
struct IndexUse {
  int64_t bound = INT64_MAX;             ///< one more than the largest that it accepts
  std::optional<int64_t> uncounted = {}; ///< a label that a loss does not count
  bool isLookup = false;                 ///< every number must be there: as an index, an uncounted label is wrong
};

/// How one kind of op is lowered, and what that means for where its operands may lie.
struct OpLowering {
  llvm::LogicalResult (*lower)(FunctionLowering &lowering, mlir::Operation *op) = nullptr;
  /// Whether rows of the operand may be apart (FunctionLowering::paddedType). Null: they may not.
  bool (*takesPaddedRows)(mlir::OpOperand &use) = nullptr;
  IndexUse (*indexUse)(mlir::OpOperand &use) = nullptr;
};

/// A row a kind of op, filled by one function a topic.
class LoweringTable {
public:
  static const LoweringTable &get();

  const OpLowering &find(mlir::Operation *op) const;
  template <typename OpT> OpLowering &of() { return rows[mlir::TypeID::get<OpT>()]; }
  template <typename... OpTs> void add() { (addOne<OpTs>(), ...); }

private:
  LoweringTable();
  template <typename OpT> void addOne() {
    of<OpT>().lower = [](FunctionLowering &lowering, mlir::Operation *op) {
      return lowering.lower(llvm::cast<OpT>(op));
    };
  }

  llvm::DenseMap<mlir::TypeID, OpLowering> rows;
};

void addSymbolLowerings(LoweringTable &table);
void addShapeLowerings(LoweringTable &table);
void addProductLowerings(LoweringTable &table);
void addCompositeLowerings(LoweringTable &table);
void addExpertLowerings(LoweringTable &table);
void addLoopLowerings(LoweringTable &table);
void addNormLowerings(LoweringTable &table);
void addWindowLowerings(LoweringTable &table);
void addIndexLowerings(LoweringTable &table);
void addExchangeLowerings(LoweringTable &table);
void addMoveLowerings(LoweringTable &table);

/// Whether a constant is a number that is only written into states: it then needs no memory of its own.
bool isOnlyWritten(ConstantOp constant);

/// The buffer that a chain of views begins with, and the offset into it in elements.
std::pair<mlir::Value, int64_t> rootOf(mlir::Value buffer);

/// Strides of the same elements under another shape, if they exist.
std::optional<llvm::SmallVector<int64_t>> reshapeStrides(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> strides,
                                                         llvm::ArrayRef<int64_t> newShape);

} // namespace hyc

#endif // HYC_LIB_TRANSFORMS_RANK_FUNCTIONLOWERING_H
