// Registration of the dist dialect, and the checks of the attributes that it hangs on other dialects' ops.
#include "dialects/Dist/DistDialect.h"
#include "dialects/Dist/Placement.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace hyc::dist;

#include "dialects/Dist/DistDialect.cpp.inc"
#include "dialects/Dist/DistEnums.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/Dist/DistTypes.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/Dist/DistOps.cpp.inc"

void DistDialect::initialize() {
  registerAttributes();
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/Dist/DistTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/Dist/DistOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/Dist/MoveOps.cpp.inc"
      >();
}

/// A sharding has one axis list a dimension of its tensor.
static LogicalResult verifySharding(Operation *op, ShardingAttr sharding, Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (tensor && sharding.getDims().size() == static_cast<size_t>(tensor.getRank()))
    return success();
  return op->emitError("sharding ") << sharding << " has " << sharding.getDims().size()
                                    << " dimensions, expected those of " << type;
}

LogicalResult DistDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  for (StringRef name : {StringRef(kFlat), StringRef(kOwned)})
    if (attribute.getName() == name && !isa<AxisListAttr>(attribute.getValue()))
      return op->emitError(name) << " is " << attribute.getValue() << ", expected a #dist.axes";
  if (attribute.getName() == kReduction) {
    auto text = dyn_cast<StringAttr>(attribute.getValue());
    if (!text || (text != "step" && text != "micro_batch"))
      return op->emitError("dist.reduction is ") << attribute.getValue() << ", expected \"step\" or \"micro_batch\"";
  }
  if (attribute.getName() == kPrefetch && !isa<IntegerAttr>(attribute.getValue()))
    return op->emitError("dist.prefetch is ") << attribute.getValue() << ", expected an integer";
  if (attribute.getName() == kPlacement) {
    auto place = dyn_cast<StringAttr>(attribute.getValue());
    if (!place || (place != kOnDevice && place != kOnHost && place != kOnDisk))
      return op->emitError("dist.placement is ")
             << attribute.getValue() << ", expected \"device\", \"host\" or \"nvme\"";
  }
  if (attribute.getName() == kStage && !isa<IntegerAttr>(attribute.getValue()))
    return op->emitError("dist.stage is ") << attribute.getValue() << ", expected an integer";
  if (attribute.getName() == kSplit) {
    auto factors = dyn_cast<ArrayAttr>(attribute.getValue());
    if (!factors || !llvm::all_of(factors, llvm::IsaPred<AxisListAttr>))
      return op->emitError("dist.split is ") << attribute.getValue() << ", expected one #dist.axes a factor";
  }
  if (attribute.getName() == kLifetime && !isa<LifetimeAttr>(attribute.getValue()))
    return op->emitError("dist.lifetime is ") << attribute.getValue() << ", expected a #dist.lifetime";
  if (attribute.getName() != kShardings)
    return success();
  auto shardings = dyn_cast<ArrayAttr>(attribute.getValue());
  if (!shardings || shardings.size() != op->getNumResults())
    return op->emitError("dist.shardings is ")
           << attribute.getValue() << ", expected " << op->getNumResults() << " shardings, one a result";
  for (auto [sharding, type] : llvm::zip_equal(shardings, op->getResultTypes())) {
    auto typed = dyn_cast<ShardingAttr>(sharding);
    if (!typed)
      return op->emitError("dist.shardings holds ") << sharding << ", expected a #dist.sharding";
    if (failed(verifySharding(op, typed, type)))
      return failure();
  }
  return success();
}

SmallVector<int64_t> hyc::dist::localShape(ArrayRef<int64_t> shape, ShardingAttr sharding, MeshOp mesh) {
  SmallVector<int64_t> local;
  for (auto [size, axes] : llvm::zip_equal(shape, sharding.getDims()))
    local.push_back(shardSize(size, mesh.getSize(axes)));
  return local;
}
