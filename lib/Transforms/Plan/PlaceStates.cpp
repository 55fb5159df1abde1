// Decides where states are kept.
#include "dialects/Dist/Placement.h"
#include "dialects/Hyc/PhaseNames.h"
#include "hyc/Analysis/FlatStates.h"
#include "hyc/Transforms/Plan/Passes.h"

namespace hyc {
#define GEN_PASS_DEF_PLACESTATES
#include "hyc/Transforms/Plan/Passes.h.inc"
} // namespace hyc

using namespace mlir;
using namespace hyc;

namespace {

struct PlaceStates : hyc::impl::PlaceStatesBase<PlaceStates> {
  using PlaceStatesBase::PlaceStatesBase;

  void runOnOperation() override {
    if (failed(checkOptions()))
      return signalPassFailure();
    SmallVector<ParamStates> all = collectParamStates(getOperation());
    llvm::DenseSet<StringAttr> written;
    if (auto microbatch = getOperation().lookupSymbol<FuncOp>(kMicrobatch))
      for (auto write : microbatch.getBody().front().getOps<WriteOp>())
        written.insert(write.getTargetAttr().getAttr());
    // Tables of integers and masks stay, and so do buffers, which each micro-batch writes.
    llvm::erase_if(all, [&](const ParamStates &states) {
      ParamOp param = states.param;
      return !isa<FloatType>(param.getTensorType().getElementType()) || written.contains(param.getSymNameAttr());
    });
    placeOptimizer(all);
    placeParameters(all);
    for (const ParamStates &states : all)
      if (states.gradient)
        place(states.gradient, isUpdatedElsewhere(states) ? StringRef(gradients) : StringRef("none"));
  }

private:
  LogicalResult checkOptions() {
    ModuleOp module = getOperation();
    for (auto [what, device] : {std::pair{"optimizer", &optimizer}, {"parameters", &parameters}})
      if (device->getValue() != "none" && device->getValue() != "cpu" && device->getValue() != "nvme")
        return module.emitError("offload of ")
               << what << " goes to \"" << device->getValue() << "\", expected none, cpu or nvme";
    if (gradients != "none" && gradients != "cpu")
      return module.emitError("offload of gradients goes to \"") << gradients << "\", expected none or cpu";
    if (!(ratio >= 0 && ratio <= 1) || maxInHost < 0)
      return module.emitError("ratio is ")
             << ratio << " and max-in-host is " << maxInHost << ", expected 0 to 1 and no negative number";
    return success();
  }

  /// An update on the device would fetch the gradient.
  static bool isUpdatedElsewhere(const ParamStates &states) {
    Operation *decides = states.optimizer.empty() ? ParamOp(states.param).getOperation()
                                                  : StateOp(states.optimizer.front()).getOperation();
    return dist::placementOf(decides) != dist::kOnDevice;
  }

  static int64_t elementsOf(const ParamStates &states) { return ParamOp(states.param).getWholeType().getNumElements(); }

  /// The states of the first parameters, as many as the ratio has room for. A master beside its copy in the compute
  /// type is the optimizer's.
  void placeOptimizer(ArrayRef<ParamStates> all) {
    int64_t total = 0, moved = 0;
    auto updatedElements = [](const ParamStates &states) {
      return ParamOp(states.param).getFrozen() ? 0 : elementsOf(states);
    };
    for (const ParamStates &states : all)
      total += updatedElements(states);
    for (const ParamStates &states : all) {
      int64_t elements = updatedElements(states);
      bool fits = static_cast<double>(moved + elements) <= static_cast<double>(total) * ratio;
      for (StateOp state : states.optimizer)
        place(state, fits ? StringRef(optimizer) : StringRef("none"));
      if (states.copy)
        place(states.param, fits ? StringRef(optimizer) : StringRef("none"));
      moved += fits ? elements : 0;
    }
  }

  /// What forward and backward read. Of those that go to a disk the first stay on the host, as many as there is room
  /// for.
  void placeParameters(ArrayRef<ParamStates> all) {
    int64_t room = parameters == "nvme" ? maxInHost : 0;
    for (const ParamStates &states : all) {
      bool fits = elementsOf(states) <= room;
      place(states.used(), fits ? StringRef("cpu") : StringRef(parameters));
      room -= fits ? elementsOf(states) : 0;
    }
  }

  /// What a plan file or the module's text says stays.
  void place(Operation *state, StringRef device) {
    if (device != "none" && !state->hasAttr(dist::kPlacement))
      state->setAttr(dist::kPlacement, StringAttr::get(&getContext(), device == "cpu" ? dist::kOnHost : dist::kOnDisk));
    if (dist::placementOf(state) == dist::kOnDevice)
      state->removeAttr(dist::kPlacement);
    offloaded += state->hasAttr(dist::kPlacement);
  }
};
} // namespace
