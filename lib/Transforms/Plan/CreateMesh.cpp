// Declares the mesh. Here, and nowhere after, an axis is known by its name: dp splits samples, tp structural classes.
#include "dialects/Dist/DistDialect.h"
#include "dialects/Hyc/HycDialect.h"
#include "hyc/Transforms/Plan/Passes.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/Builders.h"
#include <deque>
#include <set>

namespace hyc {
#define GEN_PASS_DEF_CREATEMESH
#include "hyc/Transforms/Plan/Passes.h.inc"
} // namespace hyc

using namespace mlir;
using namespace hyc;

namespace {

struct Axis {
  StringRef name;
  int64_t size = 1;
  std::vector<Axis> parts = {}; ///< major to minor; none where it is not cut
};

struct CreateMesh : hyc::impl::CreateMeshBase<CreateMesh> {
  using CreateMeshBase::CreateMeshBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    SmallVector<Axis> axes;
    if (failed(checkSizes(module)) || failed(collectAxes(module, axes)))
      return signalPassFailure();
    llvm::stable_sort(axes, [&](const Axis &a, const Axis &b) {
      auto place = [&](StringRef name) { return llvm::find(order, name) - order.begin(); };
      return std::pair(place(a.name), a.name) < std::pair(place(b.name), b.name);
    });
    dist::MeshOp mesh = create(module, axes);
    if (mesh.getParents())
      expandParents(module, mesh);
  }

private:
  LogicalResult checkSizes(ModuleOp module) {
    for (auto [name, size] : {std::pair{"dp", int64_t(dp)}, {"tp", int64_t(tp)}, {"pp", int64_t(pp)}})
      if (size < 1)
        return module.emitError("mesh axis ") << name << " has size " << size << ", expected at least 1";
    if (int64_t(virtualStages) < 1 || (int64_t(virtualStages) > 1 && int64_t(pp) == 1))
      return module.emitError("has ") << int64_t(virtualStages) << " virtual stages of " << int64_t(pp)
                                      << " stages, expected " << (int64_t(pp) == 1 ? "1" : "at least 1");
    return dist::MeshOp::find(module) ? module.emitError("has a mesh already") : success();
  }

  LogicalResult collectAxes(ModuleOp module, SmallVectorImpl<Axis> &all) {
    all.push_back({"dp", int64_t(dp)});
    all.push_back({"tp", int64_t(tp)});
    SmallVector<std::pair<StringRef, Axis>> parts;
    for (StringRef text : axes) {
      auto [path, number] = text.rsplit(':');
      Axis axis;
      if (number.getAsInteger(10, axis.size) || axis.size < 1)
        return module.emitError("mesh axis \"") << text << "\" has no size of at least 1, expected NAME:SIZE";
      auto [parent, name] = path.split('.');
      axis.name = name.empty() ? parent : name;
      if (name.empty())
        all.push_back(axis);
      else
        parts.push_back({parent, axis});
    }
    for (const auto &[parent, part] : parts) {
      auto *whole = llvm::find_if(all, [&, name = parent](const Axis &axis) { return axis.name == name; });
      if (whole == all.end())
        return module.emitError("mesh axis \"")
               << part.name << "\" is a part of \"" << parent << "\", which is no axis";
      whole->parts.push_back(part);
    }
    cutForKeyHeads(module, all);
    for (const Axis &axis : all) {
      int64_t product = 1;
      for (const Axis &part : axis.parts)
        product *= part.size;
      if (!axis.parts.empty() && product != axis.size)
        return module.emitError("mesh axis \"")
               << axis.name << "\" has size " << axis.size << ", but its parts " << product;
    }
    for (StringRef name : order)
      if (llvm::none_of(all, [&](const Axis &axis) { return axis.name == name; }))
        return module.emitError("the mesh has no axis \"") << name << "\" to put in order";
    return success();
  }

  /// Where attention has fewer key heads than tp has ranks, each of them is on several ranks. What splits them is then
  /// a part of tp: of tp 8, over 2 and over 4 key heads, the parts are 2 · 2 · 2.
  void cutForKeyHeads(ModuleOp module, MutableArrayRef<Axis> all) {
    Axis &whole = *llvm::find_if(all, [](const Axis &axis) { return axis.name == "tp"; });
    if (!whole.parts.empty())
      return;
    std::set<int64_t> counts;
    module.walk([&](AttentionOp op) {
      auto headsOf = [](Value value) { return cast<RankedTensorType>(value.getType()).getDimSize(2); };
      int64_t heads = headsOf(op.getQ()), keyHeads = headsOf(op.getK());
      if (keyHeads > 1 && keyHeads < whole.size && whole.size % keyHeads == 0 && heads % whole.size == 0)
        counts.insert(keyHeads);
    });
    int64_t size = 1;
    for (int64_t count : counts) {
      if (count % size != 0)
        continue;
      whole.parts.push_back({names.emplace_back("tp" + std::to_string(whole.parts.size())), count / size});
      size = count;
    }
    if (size > 1)
      whole.parts.push_back({names.emplace_back("tp" + std::to_string(whole.parts.size())), whole.size / size});
  }

  std::deque<std::string> names; ///< of parts that the model asks for

  dist::MeshOp create(ModuleOp module, ArrayRef<Axis> all) {
    OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
    SmallVector<StringRef> names, parents;
    SmallVector<int64_t> sizes;
    SmallVector<StringAttr> batch, tensor;
    for (const Axis &axis : all)
      for (const Axis &leaf : axis.parts.empty() ? ArrayRef<Axis>(axis) : ArrayRef<Axis>(axis.parts)) {
        names.push_back(leaf.name);
        sizes.push_back(leaf.size);
        parents.push_back(axis.parts.empty() ? StringRef() : axis.name);
        if (axis.name == "dp")
          batch.push_back(builder.getStringAttr(leaf.name));
        else if (axis.name == "tp")
          tensor.push_back(builder.getStringAttr(leaf.name));
      }
    bool isCut = llvm::any_of(parents, [](StringRef parent) { return !parent.empty(); });
    return dist::MeshOp::create(builder, module.getLoc(), "mesh", builder.getStrArrayAttr(names), sizes,
                                isCut ? builder.getStrArrayAttr(parents) : ArrayAttr(),
                                static_cast<uint64_t>(int64_t(pp)), static_cast<uint64_t>(int64_t(virtualStages)),
                                dist::AxisListAttr::get(&getContext(), batch),
                                dist::AxisListAttr::get(&getContext(), tensor));
  }

  /// What a plan has written already names whole axes.
  static void expandParents(ModuleOp module, dist::MeshOp mesh) {
    AttrTypeReplacer replacer;
    replacer.addReplacement([&](dist::AxisListAttr axes) -> Attribute { return mesh.expand(axes); });
    module.walk([&](Operation *op) { replacer.replaceElementsIn(op); });
  }
};
} // namespace
