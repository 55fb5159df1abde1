// The steps of recurrent layers. What is absent (a bias, a state of zeros) is left out of them, not added as zeros.
#include "Recurrence.h"

#include "RolledSteps.h"

using namespace hyc;
using namespace hyc::onnx;
using llvm::StringRef;

namespace {
class RecurrenceImport {
public:
  RecurrenceImport(NodeImport &node, Expansion &e, Recurrence layer) : node(node), e(e), layer(std::move(layer)) {}

  bool fits();
  RecurrentStates run();

private:
  using Kind = Recurrence::Kind;
  Binding part(const Binding &x, int64_t dim, int64_t index, int64_t size) {
    Binding whole = x;
    return e.ok() ? *node.importer().slice(whole, dim, index * size, size, 1) : Binding();
  }
  /// The rows of a weight or a bias, or the columns of a product, that are a gate's.
  Binding gate(const Binding &x, int64_t which) {
    return part(x, x.type ? x.type.getRank() - 1 : 0, layer.gateAt[which], layer.hidden);
  }
  Binding gateOfWeight(const Binding &x, int64_t which) { return part(x, 0, layer.gateAt[which], layer.hidden); }
  /// What is absent adds nothing.
  Binding sum(const Binding &a, const Binding &b) { return a.isAbsent() ? b : b.isAbsent() ? a : e.add(a, b); }
  Binding product(const Binding &a, const Binding &b) { return a.isAbsent() || b.isAbsent() ? Binding() : e.mul(a, b); }
  /// x · wᵀ, `turned` being wᵀ.
  Binding linear(const Binding &x, const Binding &turned) {
    return x.isAbsent() ? Binding() : e("MatMul", {x, turned});
  }
  Binding activate(int64_t index, const Binding &x) { return e(layer.activations[index], {x}); }

  void forgetZeros(Binding &state);
  Binding earlyBias();
  /// Each replaces the state by that behind a step, given its part of the input's product.
  void stepPlain(const Binding &x);
  void stepGRU(const Binding &x);
  void stepLSTM(const Binding &x);
  void step(const Binding &x);
  Binding orZeros(const Binding &state, int64_t units);
  RecurrentStates writeOut(const Binding &all, int64_t steps);
  RecurrentStates roll(const Binding &all, int64_t steps);

  NodeImport &node;
  Expansion &e;
  Recurrence layer;
  Binding turned, turnedCandidate, turnedProjection, lateBias; // (S,G·H), (S,H), (H,S), (H)
};

/// A sentence for whatever does not fit; the caller's own checks find most of it before.
bool RecurrenceImport::fits() {
  const int64_t rows = layer.gateCount() * layer.hidden;
  auto has = [](const Binding &value, llvm::ArrayRef<int64_t> shape) {
    return value.isAbsent() || (value.type && value.type.getShape() == shape);
  };
  const int64_t rank = layer.timeDim < 0 ? 2 : 3;
  if (!layer.x.type || layer.x.type.getRank() != rank || !layer.inputWeight.type ||
      layer.inputWeight.type.getRank() != 2 || !layer.stateWeight.type || layer.stateWeight.type.getRank() != 2) {
    e.fail("runs over tensors of other ranks than a sequence of three dimensions and weights of two");
    return false;
  }
  const int64_t inputs = layer.x.type.getShape().back(), state = layer.stateWeight.type.getShape().back(),
                batch = layer.x.type.getDimSize(layer.timeDim == 0 ? 1 : 0);
  bool fit = has(layer.inputWeight, {rows, inputs}) && has(layer.stateWeight, {rows, state}) &&
             has(layer.inputBias, {rows}) && has(layer.stateBias, {rows}) && has(layer.peepholes, {3 * layer.hidden}) &&
             has(layer.projection, {state, layer.hidden}) && has(layer.h, {batch, state}) &&
             has(layer.c, {batch, layer.hidden}) && (state == layer.hidden || !layer.projection.isAbsent());
  if (!fit) {
    node.error() << "runs over " << layer.x.type << " with weights " << layer.inputWeight.type << " and "
                 << layer.stateWeight.type
                 << ", whose sizes, or those of its biases and states, do not agree; expected " << rows << " rows of "
                 << inputs << " and of " << state << " numbers";
    return false;
  }
  const int64_t steps = layer.timeDim < 0 ? 1 : layer.x.type.getDimSize(layer.timeDim);
  if (steps < 1 || steps > kMostRolled) {
    node.error() << "runs over " << steps << " steps, expected 1 to " << kMostRolled
                 << ": programs have a row for each; give it shorter sequences";
    return false;
  }
  return true;
}

/// A state of zeros has no part in the first step.
void RecurrenceImport::forgetZeros(Binding &state) {
  if (state.constant && state.constant->isSplat() && state.constant->getNumElements() > 0 &&
      state.constant->atFlat(0).real == 0)
    state = Binding();
}

/// The bias that the input's product takes for all steps: all of it, but for what a GRU's reset gate is applied to.
Binding RecurrenceImport::earlyBias() {
  if (layer.stateBias.isAbsent() || layer.kind != Kind::GRU || !layer.resetsProduct)
    return sum(layer.inputBias, layer.stateBias);
  lateBias = gate(layer.stateBias, Recurrence::kCandidate);
  llvm::SmallVector<Binding> parts(3);
  for (int64_t which : {Recurrence::kUpdate, Recurrence::kReset})
    parts[layer.gateAt[which]] = gate(layer.stateBias, which);
  if (e.ok())
    parts[layer.gateAt[Recurrence::kCandidate]] = e.broadcast(e.number(layer.stateBias, 0), {layer.hidden});
  return sum(layer.inputBias, e("Concat", parts, {{"axis", int64_t(0)}}));
}

/// h = f(x + h R)
void RecurrenceImport::stepPlain(const Binding &x) { layer.h = activate(0, sum(x, linear(layer.h, turned))); }

/// h = n + z (h - n), where n = g(x + r (h R + b)), or g(x + (r h) R).
void RecurrenceImport::stepGRU(const Binding &x) {
  Binding own = linear(layer.h, turned);
  auto gateOf = [&](int64_t which) {
    return activate(0, sum(gate(x, which), own.isAbsent() ? own : gate(own, which)));
  };
  Binding update = gateOf(Recurrence::kUpdate), reset = gateOf(Recurrence::kReset), candidate;
  if (layer.resetsProduct)
    candidate = product(reset, sum(own.isAbsent() ? own : gate(own, Recurrence::kCandidate), lateBias));
  else
    candidate = linear(product(reset, layer.h), turnedCandidate);
  candidate = activate(1, sum(gate(x, Recurrence::kCandidate), candidate));
  if (layer.h.isAbsent())
    layer.h = e.sub(candidate, e.mul(update, candidate));
  else
    layer.h = e.add(candidate, e.mul(update, e.sub(layer.h, candidate)));
}

/// c = f c + i g, h = o g(c), and what a projection makes of that.
void RecurrenceImport::stepLSTM(const Binding &x) {
  Binding all = sum(x, linear(layer.h, turned));
  auto gateOf = [&](int64_t which, int64_t peephole, const Binding &cell) {
    Binding own = gate(all, which);
    if (!layer.peepholes.isAbsent())
      own = sum(own, product(part(layer.peepholes, 0, peephole, layer.hidden), cell));
    return activate(0, own);
  };
  Binding input = gateOf(Recurrence::kInput, 0, layer.c), forget;
  if (!layer.c.isAbsent())
    forget = gateOf(Recurrence::kForget, 2, layer.c);
  Binding fresh = e.mul(input, activate(1, gate(all, Recurrence::kCell)));
  layer.c = sum(product(forget, layer.c), fresh);
  layer.h = e.mul(gateOf(Recurrence::kOutput, 1, layer.c), activate(2, layer.c));
  if (!layer.projection.isAbsent())
    layer.h = linear(layer.h, turnedProjection);
}

/// One step, given its part of the input's product.
void RecurrenceImport::step(const Binding &x) {
  if (layer.kind == Kind::Plain)
    stepPlain(x);
  else if (layer.kind == Kind::GRU)
    stepGRU(x);
  else
    stepLSTM(x);
}

RecurrentStates RecurrenceImport::writeOut(const Binding &all, int64_t steps) {
  const int64_t dim = layer.timeDim;
  llvm::SmallVector<Binding> states(steps);
  for (int64_t i = 0; i < steps && e.ok(); ++i) {
    const int64_t t = layer.isReverse ? steps - 1 - i : i;
    step(dim < 0 ? all : e("Squeeze", {part(all, dim, t, 1), e.integers({dim})}));
    states[t] = dim < 0 ? layer.h : e("Unsqueeze", {layer.h, e.integers({dim})});
  }
  return {dim < 0 || !e.ok() ? layer.h : e("Concat", states, {{"axis", dim}}), layer.h, layer.c};
}

/// A state of zeros where none is given: the first step is as all others are.
Binding RecurrenceImport::orZeros(const Binding &state, int64_t units) {
  if (!state.isAbsent())
    return state;
  return e.broadcast(e.number(layer.x, 0), {layer.x.type.getDimSize(1 - layer.timeDim), units});
}

RecurrentStates RecurrenceImport::roll(const Binding &all, int64_t steps) {
  const bool hasCell = layer.kind == Kind::LSTM;
  Repeated repeated;
  repeated.steps = steps;
  repeated.isReverse = layer.isReverse;
  repeated.init.push_back(orZeros(layer.h, layer.stateWeight.type.getShape().back()));
  if (hasCell)
    repeated.init.push_back(orZeros(layer.c, layer.hidden));
  repeated.sequences.push_back(layer.timeDim == 0 ? all : e.transpose(all, {1, 0, 2}));
  if (!e.ok())
    return {};
  auto made = node.importer().rollSteps(
      std::move(repeated), [&](llvm::ArrayRef<Binding> carried, llvm::ArrayRef<Binding> x) -> std::optional<Step> {
        layer.h = carried[0];
        if (hasCell)
          layer.c = carried[1];
        step(x[0]);
        if (!e.ok())
          return std::nullopt;
        return Step{hasCell ? std::vector<Binding>{layer.h, layer.c} : std::vector<Binding>{layer.h}, {layer.h}};
      });
  if (!made) {
    e.fail("carries a state whose type changes from step to step");
    return {};
  }
  Binding states = layer.timeDim == 0 ? made->given[0] : e.transpose(made->given[0], {1, 0, 2});
  return {states, made->carried[0], hasCell ? made->carried[1] : Binding()};
}

RecurrentStates RecurrenceImport::run() {
  forgetZeros(layer.h);
  forgetZeros(layer.c);
  turned = e.transpose(layer.stateWeight, {1, 0});
  if (layer.kind == Kind::GRU && !layer.resetsProduct)
    turnedCandidate = e.transpose(gateOfWeight(layer.stateWeight, Recurrence::kCandidate), {1, 0});
  if (!layer.projection.isAbsent())
    turnedProjection = e.transpose(layer.projection, {1, 0});
  Binding all = sum(linear(layer.x, e.transpose(layer.inputWeight, {1, 0})), earlyBias());
  const int64_t dim = layer.timeDim, steps = dim < 0 ? 1 : layer.x.type.getDimSize(dim);
  if (!e.ok())
    return {};
  return steps < kFewSteps ? writeOut(all, steps) : roll(all, steps);
}
} // namespace

mlir::FailureOr<RecurrentStates> hyc::onnx::importSteps(NodeImport &node, Expansion &e, Recurrence layer) {
  for (const std::string &activation : layer.activations)
    if (!activation.empty() && activation != "Tanh" && activation != "Sigmoid" && activation != "Relu")
      e.fail("has the activation '" + activation + "', expected Tanh, Sigmoid or Relu");
  RecurrenceImport import(node, e, std::move(layer));
  if (!e.ok() || !import.fits())
    return mlir::failure();
  RecurrentStates result = import.run();
  if (!e.ok())
    return mlir::failure();
  return result;
}
