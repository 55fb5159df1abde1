// Puts a check behind every call that may make a NaN or an infinity.
//
// After placement, when addresses are fixed: a check looks at what the call before it wrote and reads nothing else, so
// no buffer has to live longer for it. An exchange that adds is checked where it is awaited.
#include "dialects/Dist/ExchangeKinds.h"
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
  if (auto id = call->getAttrOfType<StringAttr>("id"); id && !id.getValue().empty())
    return id.getValue();
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
    if (!start.getFlat())
      return add(builder, start, start.getDestination() ? start.getDestinations() : start.getSources(),
                 start.getSources());
    SmallVector<Value> slices;
    for (Value whole : start.getSources()) {
      auto place = whole.getDefiningOp<rank::AtOp>();
      auto type = cast<rank::BufferType>(whole.getType());
      int64_t size = dist::flatShardSize(type.getNumElements(), mesh.getSize(*start.getFlat()));
      auto slice = cast<rank::AtOp>(builder.clone(*place));
      slice.getResult().setType(type.shard(*start.getFlat(), size));
      slices.push_back(slice);
    }
    add(builder, start, slices, {});
  }

  void add(OpBuilder &builder, Operation *call, ValueRange written, ValueRange read) {
    SmallVector<Value> outs = llvm::filter_to_vector(written, isFloat), ins = llvm::filter_to_vector(read, isFloat);
    if (outs.empty())
      return;
    OpBuilder tables(*program.getOps<rank::FuncOp>().begin());
    std::string name = "site." + std::to_string(count++);
    rank::SiteOp::create(tables, call->getLoc(), name, call->getParentOfType<rank::FuncOp>().getSymName(),
                         labelOf(call));
    Value row = rank::RowOp::create(builder, call->getLoc(), FlatSymbolRefAttr::get(builder.getStringAttr(name)));
    auto check = rank::CheckOp::create(builder, call->getLoc(), row, outs, ins, mayMakeInfinity(call));
    if (Attribute id = call->getAttr("id"))
      check->setAttr("id", id);
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
