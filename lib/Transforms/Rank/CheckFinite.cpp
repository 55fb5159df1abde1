// Puts a check behind every call that may make a NaN or an infinity.
//
// After placement, when addresses are fixed: a check looks at what the call before it wrote and reads nothing else, so
// no buffer has to live longer for it. An exchange that adds is checked where it is awaited, each tensor of a bucket by
// itself: what lies between them for alignment is nobody's value.
#include "dialects/Dist/ExchangeKinds.h"
#include "dialects/Hyc/OpId.h"
#include "dialects/Rank/RankDialect.h"
#include "hyc/Plan/Policies.h"
#include "hyc/Transforms/Rank/Passes.h"

namespace hyc {
#define GEN_PASS_DEF_CHECKFINITE
#include "hyc/Transforms/Rank/Passes.h.inc"
} // namespace hyc

using namespace mlir;
using namespace hyc;

namespace {

bool isFloat(Value buffer) { return isa<FloatType>(cast<rank::BufferType>(buffer.getType()).getElementType()); }

bool isInfinite(Attribute value) {
  if (auto table = dyn_cast<DenseFPElementsAttr>(value))
    return llvm::any_of(table, [](const APFloat &element) { return element.isInfinity(); });
  auto number = dyn_cast<FloatAttr>(value);
  return number && number.getValue().isInfinity();
}

/// Whether a constant of the call is infinite, as the one that a mask writes.
bool mayMakeInfinity(Operation *call) {
  if (auto launch = dyn_cast<rank::LaunchOp>(call)) {
    bool found = false;
    rank::lookupKernel(launch).walk([&](rank::LiteralOp literal) { found |= isInfinite(literal.getValue()); });
    return found;
  }
  return llvm::any_of(call->getAttrs(), [](NamedAttribute attribute) { return isInfinite(attribute.getValue()); });
}

/// What messages call it.
StringRef labelOf(Operation *call) {
  if (StringRef id = getId(call); !id.empty())
    return id;
  if (auto launch = dyn_cast<rank::LaunchOp>(call))
    return launch.getKernel();
  if (auto library = dyn_cast<rank::CallOp>(call))
    return library.getKernel();
  return call->getName().getStringRef();
}

/// What makes values that are not to be read any more.
bool isPoison(Operation *op) {
  auto call = dyn_cast<rank::CallOp>(op);
  return call && call.getKernel() == "poison";
}

class CheckPlacer {
public:
  CheckPlacer(rank::ProgramOp program, dist::MeshOp mesh) : program(program), mesh(mesh) {}

  void runOn(rank::FuncOp func) {
    func.getBody().walk([&](Operation *op) {
      if (auto start = dyn_cast<rank::StartOp>(op)) {
        if (dist::factsOf(start.getExchange()).combines)
          checkExchange(start);
      } else if (!rank::writtenBuffers(op).empty() && !isPoison(op)) {
        OpBuilder builder(func->getContext());
        builder.setInsertionPointAfter(op);
        add(builder, op, rank::writtenBuffers(op), rank::readBuffers(op));
      }
    });
  }

private:
  /// Only a rank's own slices of what a flat exchange adds hold a value afterwards.
  void checkExchange(rank::StartOp start) {
    OpBuilder builder(start->getContext());
    builder.setInsertionPointAfter(*start.getTicket().user_begin());
    if (!start.getFlat()) {
      if (SmallVector<rank::StateOp> states = statesIn(start); states.size() > 1)
        for (rank::StateOp state : states)
          checkState(builder, start, state);
      else
        add(builder, start, start.getDestination() ? start.getDestinations() : start.getSources(), start.getSources());
      return;
    }
    const bool isBucket = start.getSources().size() > 1;
    for (Value whole : start.getSources()) {
      auto place = whole.getDefiningOp<rank::AtOp>();
      auto type = cast<rank::BufferType>(whole.getType());
      int64_t size = dist::flatShardSize(type.getNumElements(), mesh.getSize(*start.getFlat()));
      auto slice = cast<rank::AtOp>(builder.clone(*place));
      slice.getResult().setType(type.shard(*start.getFlat(), size));
      StringAttr id = isBucket ? getIdAttr(place) : StringAttr();
      add(builder, start, slice.getResult(), {}, id ? id.getValue() : labelOf(start));
    }
  }

  /// The states whose places a sum in place covers, in the order of addresses.
  SmallVector<rank::StateOp> statesIn(rank::StartOp start) {
    SmallVector<rank::StateOp> states;
    auto place = start.getSource().getDefiningOp<rank::AtOp>();
    if (start.getDestination() || !place)
      return states;
    const auto begin = static_cast<int64_t>(place.getOffset());
    const int64_t end = begin + place.getResult().getType().getBytes();
    for (auto state : program.getOps<rank::StateOp>()) {
      const int64_t first = state.getOffset() ? static_cast<int64_t>(*state.getOffset()) : -1;
      if (state.getArenaAttr() == place.getArenaAttr() && first >= begin &&
          first + state.getBufferType().getBytes() <= end)
        states.push_back(state);
    }
    llvm::sort(states, [](rank::StateOp a, rank::StateOp b) { return *a.getOffset() < *b.getOffset(); });
    return states;
  }

  void checkState(OpBuilder &builder, rank::StartOp start, rank::StateOp state) {
    auto place = rank::AtOp::create(builder, start.getLoc(), state.getBufferType(), state.getArena(),
                                    static_cast<int64_t>(*state.getOffset()), /*per_slot=*/false);
    setId(place, state.getSymNameAttr());
    add(builder, start, place.getResult(), place.getResult(), state.getSymName());
  }

  void add(OpBuilder &builder, Operation *call, ValueRange written, ValueRange read) {
    add(builder, call, written, read, labelOf(call));
  }

  void add(OpBuilder &builder, Operation *call, ValueRange written, ValueRange read, StringRef label) {
    SmallVector<Value> outs = llvm::filter_to_vector(written, isFloat), ins = llvm::filter_to_vector(read, isFloat);
    if (outs.empty())
      return;
    OpBuilder tables(*program.getOps<rank::FuncOp>().begin());
    std::string name = "site." + std::to_string(count++);
    rank::SiteOp::create(tables, call->getLoc(), name, call->getParentOfType<rank::FuncOp>().getSymName(), label);
    Value row = rank::RowOp::create(builder, call->getLoc(), FlatSymbolRefAttr::get(builder.getStringAttr(name)));
    auto check = rank::CheckOp::create(builder, call->getLoc(), row, outs, ins, mayMakeInfinity(call));
    if (getIdAttr(call))
      setId(check, label);
  }

  rank::ProgramOp program;
  dist::MeshOp mesh;
  int64_t count = 0;
};

struct CheckFinite : hyc::impl::CheckFiniteBase<CheckFinite> {
  void runOnOperation() override {
    FailureOr<bool> isAsked = policyOf<&Plan::checkFinite>(getOperation());
    if (failed(isAsked))
      return signalPassFailure();
    if (!*isAsked)
      return;
    dist::MeshOp mesh = dist::MeshOp::find(getOperation());
    for (auto program : getOperation().getOps<rank::ProgramOp>()) {
      CheckPlacer placer(program, mesh);
      for (auto func : llvm::to_vector(program.getOps<rank::FuncOp>()))
        placer.runOn(func);
    }
  }
};

} // namespace
