// Turns one function over tensors into calls over buffers. Files by topic: FunctionLowering.cpp (arguments, results,
// where values lie), LowerShapes.cpp, LowerProducts.cpp, LowerComposites.cpp, LowerWindows.cpp,
// LowerIndexing.cpp, LowerExchanges.cpp, LowerFlat.cpp, LowerMoves.cpp.
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
  /// Where a result goes, and what becomes of the old contents.
  struct Destination {
    mlir::Value buffer;
    rank::WriteMode mode = rank::WriteMode::overwrite;
  };
  enum class Layout { Dense, Strided };

  // Arguments, results and dispatch.
  llvm::LogicalResult lowerArgument(mlir::BlockArgument argument);
  llvm::LogicalResult lowerResult(unsigned index, mlir::Value value, mlir::Location loc);
  llvm::LogicalResult lower(mlir::Operation *op);
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
  llvm::LogicalResult lowerRead(ReadOp op);
  llvm::LogicalResult lowerWrite(WriteOp op);
  llvm::LogicalResult lowerAccumulate(AccumulateOp op);
  llvm::LogicalResult lowerSumOfSquares(SumOfSquaresOp op);
  llvm::LogicalResult lowerRoundSum(RoundSumOp op);
  llvm::LogicalResult lowerGradientScale(GradientScaleOp op);
  llvm::LogicalResult lowerIncrement(IncrementOp op);
  llvm::SmallVector<mlir::Value> addressesOf(UpdateOpInterface op);
  void callUpdate(UpdateOpInterface op, llvm::StringRef kernel, mlir::ValueRange outs, llvm::ArrayRef<mlir::Value> ins,
                  bool takesMomentum);
  llvm::LogicalResult lowerAdam(UpdateOpInterface op, llvm::StringRef kernel, bool takesMomentum);
  llvm::LogicalResult lowerLambDirection(LambDirectionOp op);
  llvm::LogicalResult lowerTrustRatio(TrustRatioOp op);
  llvm::LogicalResult lowerSgd(SgdOp op);
  llvm::LogicalResult lowerRefresh(RefreshOp op);
  llvm::LogicalResult lowerUpdateLossScale(UpdateLossScaleOp op);
  llvm::LogicalResult lowerUpdateFp8Scale(UpdateFp8ScaleOp op);

  // Shapes and elements.
  llvm::LogicalResult lowerReshape(ReshapeOp op);
  llvm::LogicalResult lowerTranspose(TransposeOp op);
  llvm::LogicalResult lowerSlice(SliceOp op);
  llvm::LogicalResult lowerPad(PadOp op);
  llvm::LogicalResult lowerSplit(SplitOp op);
  llvm::LogicalResult lowerConcat(ConcatOp op);
  llvm::LogicalResult lowerConstant(ConstantOp op);
  llvm::LogicalResult lowerCluster(rank::ClusterOp op);
  mlir::Value concatBuffer(ConcatOp op);
  std::optional<rank::WriteMode> accumulationMode(llvm::ArrayRef<mlir::Value> results);

  // Matrix products.
  llvm::LogicalResult lowerProduct(mlir::Operation *op, llvm::StringRef spec, mlir::Value lhs, mlir::Value rhs,
                                   mlir::Value bias);
  mlir::Value permuted(mlir::Value buffer, llvm::StringRef letters, llvm::StringRef order, llvm::StringRef id);

  // Composite ops.
  llvm::LogicalResult lowerLayerNorm(LayerNormOp op);
  llvm::LogicalResult lowerLayerNormGrad(LayerNormGradOp op);
  llvm::LogicalResult lowerRmsNorm(RmsNormOp op);
  llvm::LogicalResult lowerRmsNormGrad(RmsNormGradOp op);
  llvm::LogicalResult lowerRotaryTable(RotaryTableOp op);
  llvm::LogicalResult lowerRope(RopeOp op);
  template <typename OpT>
  llvm::SmallVector<mlir::Value> randomBuffers(OpT op, llvm::SmallVectorImpl<mlir::NamedAttribute> &attributes);
  llvm::LogicalResult lowerAttention(AttentionOp op);
  llvm::LogicalResult lowerAttentionGrad(AttentionGradOp op);
  llvm::LogicalResult lowerEmbedding(EmbeddingOp op);
  llvm::LogicalResult lowerEmbeddingGrad(EmbeddingGradOp op);
  llvm::LogicalResult lowerCrossEntropy(CrossEntropyOp op);
  llvm::LogicalResult lowerCrossEntropyGrad(CrossEntropyGradOp op);
  llvm::LogicalResult lowerVocabMax(VocabMaxOp op);
  llvm::LogicalResult lowerVocabSumExp(VocabSumExpOp op);
  llvm::LogicalResult lowerVocabLoss(VocabLossOp op);
  mlir::Value headStridesBuffer(mlir::Value tensor);

  // Windows, and ops by number.
  template <typename OpT> llvm::LogicalResult lowerConvolution(OpT op);
  llvm::LogicalResult lowerMaxPool(MaxPoolOp op);
  llvm::LogicalResult lowerGather(GatherOp op);
  llvm::LogicalResult lowerScatter(ScatterOp op);
  llvm::LogicalResult lowerCumSum(CumSumOp op);
  llvm::LogicalResult lowerArgSort(ArgSortOp op);

  // Moves.
  llvm::LogicalResult lowerFetch(dist::FetchStartOp op);
  llvm::LogicalResult lowerEvict(dist::EvictStartOp op);
  llvm::LogicalResult lowerWaitMove(dist::WaitMoveOp op);
  llvm::LogicalResult lowerCopy(dist::CopyStartOp op);
  /// The ticket of a move.
  mlir::Value startMove(mlir::Operation *op, llvm::StringRef kind, llvm::StringRef state, mlir::Value destination,
                        mlir::Value source);

  // Exchanges.
  llvm::LogicalResult lowerAllReduce(dist::AllReduceStartOp op);
  llvm::LogicalResult lowerAllGather(dist::AllGatherStartOp op);
  llvm::LogicalResult lowerReduceScatter(dist::ReduceScatterStartOp op);
  llvm::LogicalResult lowerWait(dist::WaitOp op);
  llvm::LogicalResult lowerShardOffset(dist::ShardOffsetOp op);
  llvm::LogicalResult lowerShardSlice(dist::SliceOp op);
  /// Whether nothing else sees the memory of a started reduction's operand: it may then be combined where it lies.
  bool worksInPlace(mlir::Operation *start);
  mlir::Value start(mlir::Operation *op, llvm::StringRef exchange, llvm::StringRef combine, dist::GroupAttr group,
                    mlir::Value buffer, mlir::Value destination, int64_t count, dist::AxisListAttr flat = {});
  int64_t memberCount(dist::GroupAttr group);

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
  llvm::DenseMap<mlir::Value, mlir::Value> tickets;  // pending -> ticket
  llvm::DenseMap<mlir::Value, mlir::Value> gathered; // pending -> what the exchange itself wrote
  llvm::DenseMap<mlir::Operation *, mlir::Value> concats;
  llvm::DenseSet<mlir::Operation *> fusedAccumulations;
};

/// Whether a constant is a number that is only written into states: it then needs no memory of its own.
bool isOnlyWritten(ConstantOp constant);

/// The buffer that a chain of views begins with, and the offset into it in elements.
std::pair<mlir::Value, int64_t> rootOf(mlir::Value buffer);

/// Strides of the same elements under another shape, if they exist.
std::optional<llvm::SmallVector<int64_t>> reshapeStrides(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> strides,
                                                         llvm::ArrayRef<int64_t> newShape);

} // namespace hyc

#endif // HYC_LIB_TRANSFORMS_RANK_FUNCTIONLOWERING_H
