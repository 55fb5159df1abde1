// StateAssembly: joins what ranks hold of one param or state into the whole, and notices where copies differ.
#ifndef HYC_LIB_INTERPRETER_MESH_STATEASSEMBLY_H
#define HYC_LIB_INTERPRETER_MESH_STATEASSEMBLY_H

#include "Mesh/Topology.h"
#include "mlir/IR/Diagnostics.h"
#include <map>

namespace hyc::interpreter {

/// How a param or state is spread.
struct StateLayout {
  llvm::SmallVector<int64_t> wholeShape, localShape; ///< local: what dimensions leave, before flat shards are cut
  dist::ShardingAttr sharding;
  dist::AxisListAttr slice; ///< of a state that is stored whole: only the rank's flat shard along these axes counts
};

/// The elements of the flattened local tensor that count on one rank, and where it stores them.
struct HeldPart {
  int64_t begin, count, storedAt;
};

class StateAssembly {
public:
  StateAssembly(const Topology &topology, StateLayout layout) : topology(topology), layout(std::move(layout)) {}

  HeldPart partOf(int64_t worldRank) const;

  /// Takes the elements of `partOf(worldRank)`. Fails, after a diagnostic, where another rank holds the same elements
  /// with other bits.
  llvm::LogicalResult add(int64_t worldRank, const Tensor &elements,
                          llvm::function_ref<mlir::InFlightDiagnostic()> emitError);

  /// The whole; null where nothing was added.
  Tensor finish() const;
  /// A rank whose elements beyond the whole's end are not zero; nothing where all are.
  std::optional<int64_t> findFilledPadding() const;

private:
  struct Local {
    Tensor elements; ///< of the flattened local tensor
    int64_t firstRank;
    std::map<int64_t, std::pair<int64_t, Tensor>> parts; ///< first rank and elements, by where they begin
  };
  Local &localOf(int64_t worldRank, ElementKind kind);

  const Topology &topology;
  StateLayout layout;
  std::map<std::vector<int64_t>, Local> locals; ///< by offset in the whole
};

} // namespace hyc::interpreter

#endif // HYC_LIB_INTERPRETER_MESH_STATEASSEMBLY_H
