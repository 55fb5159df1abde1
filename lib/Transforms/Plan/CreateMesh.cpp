// Declares the mesh.
#include "dialects/Dist/DistDialect.h"
#include "hyc/Transforms/Plan/Passes.h"
#include "mlir/IR/Builders.h"

namespace hyc {
#define GEN_PASS_DEF_CREATEMESH
#include "hyc/Transforms/Plan/Passes.h.inc"
} // namespace hyc

using namespace mlir;
using namespace hyc;

namespace {
struct CreateMesh : hyc::impl::CreateMeshBase<CreateMesh> {
  using CreateMeshBase::CreateMeshBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    for (auto [name, size] : {std::pair{"dp", int64_t(dp)}, {"tp", int64_t(tp)}, {"pp", int64_t(pp)}})
      if (size < 1) {
        module.emitError("mesh axis ") << name << " has size " << size << ", expected at least 1";
        return signalPassFailure();
      }
    if (int64_t(virtualStages) < 1 || (int64_t(virtualStages) > 1 && int64_t(pp) == 1)) {
      module.emitError("has ") << int64_t(virtualStages) << " virtual stages of " << int64_t(pp) << " stages, expected "
                               << (int64_t(pp) == 1 ? "1" : "at least 1");
      return signalPassFailure();
    }
    if (dist::MeshOp::find(module)) {
      module.emitError("has a mesh already");
      return signalPassFailure();
    }
    OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
    dist::MeshOp::create(builder, module.getLoc(), "mesh", builder.getStrArrayAttr({"dp", "tp"}),
                         ArrayRef<int64_t>{dp, tp}, static_cast<uint64_t>(int64_t(pp)),
                         static_cast<uint64_t>(int64_t(virtualStages)));
  }
};
} // namespace
