// TransferBoard: where neighbouring stages meet for transfers. Neither end goes on before both have come (rendezvous);
// transfers between the same two ranks meet in the order in which they are posted.
#ifndef HYC_LIB_INTERPRETER_MESH_TRANSFERBOARD_H
#define HYC_LIB_INTERPRETER_MESH_TRANSFERBOARD_H

#include "Mesh/Topology.h"
#include "mlir/IR/Operation.h"
#include <deque>
#include <map>
#include <memory>

namespace hyc::interpreter {

/// One end of a transfer, posted by one rank.
struct TransferEnd {
  dist::TransferAttr transfer;
  int64_t worldRank = 0, peer = 0;
  mlir::Operation *owner = nullptr;     ///< a symbol: whose results are sent, or whose arguments are filled
  llvm::StringMap<mlir::Type> channels; ///< what is sent or expected, by id
  NamedTensors tensors;                 ///< by id: those sent, or once done those received
  bool isDone = false;

  /// "send forward micro_batch 2 to rank 3 (stage 1, dp 0, tp 1)".
  std::string describe(const Topology &topology) const;
};

class TransferBoard {
public:
  explicit TransferBoard(const Topology &topology) : topology(topology) {}

  /// Fails, after a diagnostic, where the other end means another transfer.
  llvm::LogicalResult post(const std::shared_ptr<TransferEnd> &end);

private:
  struct Lane {
    std::deque<std::shared_ptr<TransferEnd>> sends, receives;
  };
  llvm::LogicalResult meet(TransferEnd &send, TransferEnd &receive) const;

  const Topology &topology;
  std::map<std::pair<int64_t, int64_t>, Lane> lanes; ///< by sender and receiver
};

/// Channel ids and types of a function's arguments or of its results.
llvm::StringMap<mlir::Type> channelArguments(mlir::Operation *function);
llvm::StringMap<mlir::Type> channelResults(mlir::Operation *function);

} // namespace hyc::interpreter

#endif // HYC_LIB_INTERPRETER_MESH_TRANSFERBOARD_H
