// Recurrent layers, unrolled over their sequence: products, slices and activations.
#include "Expansion.h"

#include "llvm/ADT/STLExtras.h"

using namespace hyc;
using namespace hyc::onnx;
using namespace mlir;
using llvm::StringRef;

namespace {
constexpr int64_t kMostSteps = 4096;

/// What all three kinds share: x (T,B,I), weights of each direction (G·H, I) and (G·H, H).
class Layer {
public:
  Layer(NodeImport &node, Expansion &e, int64_t gates) : node(node), e(e), gates(gates) {}

  bool read();
  LogicalResult run();

private:
  Binding part(const Binding &x, int64_t dim, int64_t index, int64_t size) {
    Binding whole = x;
    return e.ok() ? *node.importer().slice(whole, dim, index * size, size, 1) : Binding();
  }
  /// The tensor of one direction, without the dimension of directions.
  Binding ofDirection(int input, int64_t direction) {
    return e("Squeeze", {part(node.input(input), 0, direction, 1), e.integers({0})});
  }
  Binding product(const Binding &x, const Binding &w) { return e("MatMul", {x, e.transpose(w, {1, 0})}); }
  Binding activate(int64_t direction, int64_t index, StringRef otherwise, const Binding &x);
  /// One step: the state is replaced.
  void stepRNN(int64_t direction, const Binding &x);
  void stepGRU(int64_t direction, const Binding &x);
  void stepLSTM(int64_t direction, const Binding &x);
  /// Hidden states of all steps, in the order of the sequence; (B,H) each.
  llvm::SmallVector<Binding> runDirection(int64_t direction);

  NodeImport &node;
  Expansion &e;
  int64_t gates, steps = 0, batch = 0, hidden = 0, directions = 1;
  bool isBatchFirst = false, isReverse = false;
  std::vector<std::string> activations;
  Binding sequence, w, r, wBias, rBias, peepholes, h, c;
};

bool Layer::read() {
  std::string direction = node.getString("direction", "forward");
  isBatchFirst = node.getInt("layout", 0) != 0;
  isReverse = direction == "reverse";
  directions = direction == "bidirectional" ? 2 : 1;
  if (const onnxfile::Attribute *names = node.find("activations"))
    for (const std::string &name : names->strings())
      activations.push_back(name);
  RankedTensorType x = node.input(0).type, weights = node.input(1).type, recurrent = node.input(2).type;
  if (x.getRank() != 3 || weights.getRank() != 3 || recurrent.getRank() != 3 || node.hasAttribute("clip")) {
    node.error() << "runs over " << x << " with " << weights << " and " << recurrent
                 << ", expected three dimensions each, and no clipping";
    return false;
  }
  hidden = recurrent.getShape().back();
  sequence = isBatchFirst ? e.transpose(node.input(0), {1, 0, 2}) : node.input(0);
  steps = sequence.type.getDimSize(0), batch = sequence.type.getDimSize(1);
  auto agree = [&](RankedTensorType type, int64_t last) {
    return type.getDimSize(0) == directions && type.getDimSize(1) == gates * hidden && type.getDimSize(2) == last;
  };
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional") {
    node.error() << "has the direction '" << direction << "', expected forward, reverse or bidirectional";
    return false;
  }
  if (int64_t given = node.getInt("hidden_size", hidden); given != hidden && !node.failed()) {
    node.error() << "has the hidden size " << given << ", expected " << hidden << " as its weights " << recurrent
                 << " have it";
    return false;
  }
  if (steps < 1 || steps > kMostSteps) {
    node.error() << "runs over " << steps << " steps, expected 1 to " << kMostSteps << ": hyc writes each of them out";
    return false;
  }
  if (!agree(weights, x.getShape().back()) || !agree(recurrent, hidden)) {
    node.error() << "runs over " << x << " with " << weights << " and " << recurrent << ", expected weights of "
                 << directions << " × " << gates * hidden << " × " << x.getShape().back() << " and " << directions
                 << " × " << gates * hidden << " × " << hidden;
    return false;
  }
  // Sequences of different lengths would need a mask; equal ones are the whole.
  if (node.has(4)) {
    const HostTensor *lengths = node.constant(4);
    for (int64_t i = 0; lengths && i < lengths->getNumElements(); ++i)
      if (lengths->atFlat(i).integer != steps) {
        node.error() << "has sequences of different lengths, expected all of " << steps;
        return false;
      }
    return lengths != nullptr;
  }
  return true;
}

Binding Layer::activate(int64_t direction, int64_t index, StringRef otherwise, const Binding &x) {
  size_t perDirection = activations.size() / directions, at = direction * perDirection + index;
  StringRef name = perDirection > static_cast<size_t>(index) ? StringRef(activations[at]) : otherwise;
  if (name != "Tanh" && name != "Sigmoid" && name != "Relu") {
    e.fail("has the activation '" + name + "', expected Tanh, Sigmoid or Relu");
    return {};
  }
  return e(name, {x});
}

/// h = f(x W + h R + b)
void Layer::stepRNN(int64_t direction, const Binding &x) {
  h = activate(direction, 0, "Tanh", e.add(e.add(product(x, w), wBias), e.add(product(h, r), rBias)));
}

/// Gates z, r, h: h = (1 - z) g(…) + z h
void Layer::stepGRU(int64_t direction, const Binding &x) {
  Binding in = e.add(product(x, w), wBias);
  auto gate = [&](int64_t i) {
    Binding own = e.add(product(h, part(r, 0, i, hidden)), part(rBias, 0, i, hidden));
    return activate(direction, 0, "Sigmoid", e.add(part(in, 1, i, hidden), own));
  };
  Binding update = gate(0), reset = gate(1), candidate;
  Binding weights = part(r, 0, 2, hidden), bias = part(rBias, 0, 2, hidden);
  if (node.getInt("linear_before_reset", 0) != 0)
    candidate = e.mul(reset, e.add(product(h, weights), bias));
  else
    candidate = e.add(product(e.mul(reset, h), weights), bias);
  candidate = activate(direction, 1, "Tanh", e.add(part(in, 1, 2, hidden), candidate));
  h = e.add(e.mul(e.sub(e.number(update, 1), update), candidate), e.mul(update, h));
}

/// Gates i, o, f, c, with peepholes to the cell.
void Layer::stepLSTM(int64_t direction, const Binding &x) {
  Binding all = e.add(e.add(product(x, w), wBias), e.add(product(h, r), rBias));
  auto gate = [&](int64_t i, const Binding &cell) {
    Binding own = part(all, 1, i, hidden);
    if (node.has(7)) // in the order i, o, f
      own = e.add(own, e.mul(part(peepholes, 0, i, hidden), cell));
    return activate(direction, 0, "Sigmoid", own);
  };
  Binding input = gate(0, c), forget = gate(2, c);
  c = e.add(e.mul(forget, c), e.mul(input, activate(direction, 1, "Tanh", part(all, 1, 3, hidden))));
  h = e.mul(gate(1, c), activate(direction, 2, "Tanh", c));
}

llvm::SmallVector<Binding> Layer::runDirection(int64_t direction) {
  w = ofDirection(1, direction), r = ofDirection(2, direction);
  Binding zeros = e.broadcast(e.number(sequence, 0), {2 * gates * hidden});
  Binding bias = node.has(3) ? ofDirection(3, direction) : zeros;
  wBias = part(bias, 0, 0, gates * hidden), rBias = part(bias, 0, 1, gates * hidden);
  auto initial = [&](int index) {
    Binding none = e.broadcast(e.number(sequence, 0), {batch, hidden});
    if (!node.has(index))
      return none;
    Binding given = isBatchFirst ? e.transpose(node.input(index), {1, 0, 2}) : node.input(index);
    return e("Squeeze", {part(given, 0, direction, 1), e.integers({0})});
  };
  h = initial(5);
  if (gates == 4)
    c = initial(6);
  if (gates == 4 && node.has(7))
    peepholes = ofDirection(7, direction);
  bool backwards = isReverse || direction == 1;
  llvm::SmallVector<Binding> states(steps);
  for (int64_t i = 0; i < steps && e.ok(); ++i) {
    int64_t t = backwards ? steps - 1 - i : i;
    Binding x = e("Squeeze", {part(sequence, 0, t, 1), e.integers({0})});
    if (gates == 1)
      stepRNN(direction, x);
    else if (gates == 3)
      stepGRU(direction, x);
    else
      stepLSTM(direction, x);
    states[t] = h;
  }
  return states;
}

LogicalResult Layer::run() {
  llvm::SmallVector<llvm::SmallVector<Binding>> states;
  llvm::SmallVector<Binding> lastHidden, lastCell;
  for (int64_t d = 0; d < directions; ++d) {
    states.push_back(runDirection(d));
    lastHidden.push_back(h);
    lastCell.push_back(c);
  }
  if (!e.ok())
    return failure();
  auto stacked = [&](llvm::ArrayRef<Binding> tensors) {
    llvm::SmallVector<Binding> parts;
    for (const Binding &tensor : tensors)
      parts.push_back(e("Unsqueeze", {tensor, e.integers({0})}));
    return e("Concat", parts, {{"axis", int64_t(0)}});
  };
  llvm::SmallVector<Binding> ofSteps;
  for (int64_t t = 0; t < steps; ++t) {
    llvm::SmallVector<Binding> ofStep;
    for (int64_t d = 0; d < directions; ++d)
      ofStep.push_back(states[d][t]);
    ofSteps.push_back(stacked(ofStep));
  }
  // Y (T,D,B,H), Y_h and Y_c (D,B,H); with the batch first (B,T,D,H) and (B,D,H).
  Binding y = stacked(ofSteps), yHidden = stacked(lastHidden);
  Binding yCell = gates == 4 ? stacked(lastCell) : Binding();
  if (isBatchFirst) {
    y = e.transpose(y, {2, 0, 1, 3});
    yHidden = e.transpose(yHidden, {1, 0, 2});
    yCell = gates == 4 ? e.transpose(yCell, {1, 0, 2}) : Binding();
  }
  std::vector<Binding> results{y, yHidden, yCell};
  results.resize(gates == 4 ? 3 : 2);
  return e.finish(results);
}

template <int64_t Gates> LogicalResult importLayer(NodeImport &node) {
  Expansion e(node);
  Layer layer(node, e, Gates);
  return layer.read() ? layer.run() : failure();
}
} // namespace

void hyc::onnx::addRecurrentOperators(OperatorTable &table) {
  table["RNN"] = {importLayer<1>,
                  {tensor("X").real().rank(3), tensor("W").real().rank(3), tensor("R").real().rank(3),
                   tensor("B").real().rank(2).optional(), tensor("sequence_lens").integer().rank(1).optional(),
                   tensor("initial_h").real().rank(3).optional()}};
  table["GRU"] = {importLayer<3>,
                  {tensor("X").real().rank(3), tensor("W").real().rank(3), tensor("R").real().rank(3),
                   tensor("B").real().rank(2).optional(), tensor("sequence_lens").integer().rank(1).optional(),
                   tensor("initial_h").real().rank(3).optional()}};
  table["LSTM"] = {importLayer<4>,
                   {tensor("X").real().rank(3), tensor("W").real().rank(3), tensor("R").real().rank(3),
                    tensor("B").real().rank(2).optional(), tensor("sequence_lens").integer().rank(1).optional(),
                    tensor("initial_h").real().rank(3).optional(), tensor("initial_c").real().rank(3).optional(),
                    tensor("P").real().rank(2).optional()}};
}
