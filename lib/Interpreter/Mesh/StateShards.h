// What an op with `dist.flat` sees of states: this rank's flat shard, of a whole state or of one that is stored flat.
#ifndef HYC_LIB_INTERPRETER_MESH_STATESHARDS_H
#define HYC_LIB_INTERPRETER_MESH_STATESHARDS_H

#include "Ops/OpTable.h"
#include "dialects/Dist/DistDialect.h"

namespace hyc::interpreter {

/// This rank's linear coordinate along `axes`, major to minor, and how many there are; nothing, after a diagnostic,
/// where there is no such axis.
std::optional<AxisPosition> linearPosition(mlir::Operation *op, const Device &device, dist::AxisListAttr axes);
inline std::optional<AxisPosition> linearPosition(OpCall &call, dist::AxisListAttr axes) {
  return linearPosition(call.op, call.device, axes);
}

/// One state as one op sees it: all of it, or with `dist.flat` this rank's shard.
class StateShard {
public:
  /// Fails after a diagnostic where the rank holds no such state.
  static llvm::FailureOr<StateShard> find(OpCall &call, llvm::StringRef symbol);
  /// This rank's shard of a whole state. Fails after a diagnostic where the mesh lacks an axis.
  static llvm::FailureOr<StateShard> slice(mlir::Operation *op, const Device &device, Tensor &whole,
                                           dist::AxisListAttr axes);

  /// Of a whole state the shard is filled up with zeros to the size that all shards have.
  Tensor load() const;
  /// What lies beyond the whole's end is dropped.
  void store(const Tensor &value) const;

private:
  Tensor *state = nullptr;
  std::optional<int64_t> begin; ///< of the slice of a whole state
  int64_t size = 0;
};

/// Elements [begin, begin + size) of the flattened tensor, zeros beyond its end.
Tensor flatWindow(const Tensor &whole, int64_t begin, int64_t size);

} // namespace hyc::interpreter

#endif // HYC_LIB_INTERPRETER_MESH_STATESHARDS_H
