// ONNX's recurrent layers, and the direction of one that other front ends write.
#include "AssembledModel.h"
#include "Recurrence.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace hyc;
using namespace hyc::onnx;
using namespace mlir;
using llvm::StringRef;

namespace {
using Kind = Recurrence::Kind;

//===----------------------------------------------------------------------===//
// ONNX's
//===----------------------------------------------------------------------===//

/// What all three kinds share: x (T,B,I), weights of each direction (G·H, I) and (G·H, H).
class Layer {
public:
  Layer(NodeImport &node, Expansion &e, Kind kind) : node(node), e(e), kind(kind) { common.kind = kind; }

  bool read();
  LogicalResult run();

private:
  bool readGates();
  bool checkShapes(StringRef direction);
  bool checkLengths();
  Binding part(const Binding &x, int64_t dim, int64_t index, int64_t size) {
    Binding whole = x;
    return e.ok() ? *node.importer().slice(whole, dim, index * size, size, 1) : Binding();
  }
  /// The tensor of one direction, without the dimension of directions; absent where the layer has none.
  Binding ofDirection(int input, int64_t direction) {
    return node.has(input) ? e("Squeeze", {part(node.input(input), 0, direction, 1), e.integers({0})}) : Binding();
  }
  Binding stateOf(int input, int64_t direction);
  Recurrence directionOf(int64_t direction);

  NodeImport &node;
  Expansion &e;
  Kind kind;
  int64_t directions = 1;
  bool isBatchFirst = false;
  std::vector<std::string> activations;
  Recurrence common;
};

/// ONNX has the gates of a GRU in the order z, r, h, of an LSTM in the order i, o, f, c.
bool Layer::readGates() {
  common.activations = {"Sigmoid", "Tanh", "Tanh"};
  if (kind == Kind::Plain)
    common.activations = {"Tanh", "", ""};
  common.gateAt = {0, 1, 2, 0};
  if (kind == Kind::LSTM)
    common.gateAt = {0, 2, 3, 1};
  common.resetsProduct = node.getInt("linear_before_reset", 0) != 0;
  if (const onnxfile::Attribute *names = node.find("activations"))
    for (const std::string &name : names->strings())
      activations.push_back(name);
  return !node.failed();
}

bool Layer::checkShapes(StringRef direction) {
  RankedTensorType x = node.input(0).type, weights = node.input(1).type, recurrent = node.input(2).type;
  const int64_t hidden = common.hidden, rows = common.gateCount() * hidden;
  auto agree = [&](RankedTensorType type, int64_t last) {
    return type.getDimSize(0) == directions && type.getDimSize(1) == rows && type.getDimSize(2) == last;
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
  if (!agree(weights, x.getShape().back()) || !agree(recurrent, hidden)) {
    node.error() << "runs over " << x << " with " << weights << " and " << recurrent << ", expected weights of "
                 << directions << " × " << rows << " × " << x.getShape().back() << " and " << directions << " × "
                 << rows << " × " << hidden;
    return false;
  }
  return true;
}

/// Sequences of different lengths would need a mask; equal ones are the whole.
bool Layer::checkLengths() {
  if (!node.has(4))
    return true;
  const HostTensor *lengths = node.constant(4);
  const int64_t steps = common.x.type ? common.x.type.getDimSize(common.timeDim) : 0;
  for (int64_t i = 0; lengths && i < lengths->getNumElements(); ++i)
    if (lengths->atFlat(i).integer != steps) {
      node.error() << "has sequences of different lengths, expected all of " << steps;
      return false;
    }
  return lengths != nullptr;
}

bool Layer::read() {
  std::string direction = node.getString("direction", "forward");
  isBatchFirst = node.getInt("layout", 0) != 0;
  common.isReverse = direction == "reverse";
  directions = direction == "bidirectional" ? 2 : 1;
  RankedTensorType x = node.input(0).type, weights = node.input(1).type, recurrent = node.input(2).type;
  if (x.getRank() != 3 || weights.getRank() != 3 || recurrent.getRank() != 3 || node.hasAttribute("clip")) {
    node.error() << "runs over " << x << " with " << weights << " and " << recurrent
                 << ", expected three dimensions each, and no clipping";
    return false;
  }
  common.hidden = recurrent.getShape().back();
  common.timeDim = isBatchFirst ? 1 : 0;
  common.x = node.input(0);
  return readGates() && checkShapes(direction) && checkLengths();
}

/// (D,B,H), or with the batch first (B,D,H).
Binding Layer::stateOf(int input, int64_t direction) {
  if (!node.has(input))
    return {};
  const int64_t dim = isBatchFirst ? 1 : 0;
  return e("Squeeze", {part(node.input(input), dim, direction, 1), e.integers({dim})});
}

Recurrence Layer::directionOf(int64_t direction) {
  Recurrence result = common;
  const int64_t rows = common.gateCount() * common.hidden;
  result.isReverse |= direction == 1;
  result.inputWeight = ofDirection(1, direction);
  result.stateWeight = ofDirection(2, direction);
  if (Binding bias = ofDirection(3, direction); !bias.isAbsent()) {
    result.inputBias = part(bias, 0, 0, rows);
    result.stateBias = part(bias, 0, 1, rows);
  }
  result.h = stateOf(5, direction);
  if (kind == Kind::LSTM) {
    result.c = stateOf(6, direction);
    result.peepholes = ofDirection(7, direction);
  }
  const size_t each = activations.size() / directions;
  for (size_t i = 0; i < std::min(each, result.activations.size()); ++i)
    if (!result.activations[i].empty())
      result.activations[i] = activations[direction * each + i];
  return result;
}

LogicalResult Layer::run() {
  llvm::SmallVector<Binding> states, lastHidden, lastCell;
  const int64_t dim = isBatchFirst ? 1 : 0; // of directions, among those of a state
  for (int64_t direction = 0; direction < directions; ++direction) {
    FailureOr<RecurrentStates> made = importSteps(node, e, directionOf(direction));
    if (failed(made))
      return failure();
    auto apart = [&](const Binding &value, int64_t at) {
      return value.isAbsent() ? value : e("Unsqueeze", {value, e.integers({at})});
    };
    states.push_back(apart(made->states, isBatchFirst ? 2 : 1));
    lastHidden.push_back(apart(made->h, dim));
    lastCell.push_back(apart(made->c, dim));
  }
  auto joined = [&](llvm::ArrayRef<Binding> parts, int64_t at) { return e("Concat", parts, {{"axis", at}}); };
  // Y (T,D,B,H), Y_h and Y_c (D,B,H); with the batch first (B,T,D,H) and (B,D,H).
  std::vector<Binding> results{joined(states, isBatchFirst ? 2 : 1), joined(lastHidden, dim)};
  if (kind == Kind::LSTM)
    results.push_back(joined(lastCell, dim));
  return e.finish(results);
}

template <Kind Of> LogicalResult importLayer(NodeImport &node) {
  Expansion e(node);
  Layer layer(node, e, Of);
  return layer.read() ? layer.run() : failure();
}

//===----------------------------------------------------------------------===//
// hyc's own
//===----------------------------------------------------------------------===//

/// One direction of one layer as torch has its weights: the gates of a GRU in the order r, z, n, of an LSTM in the
/// order i, f, g, o.
LogicalResult importRecurrence(NodeImport &node) {
  Expansion e(node);
  Recurrence layer;
  const std::string kind = node.getString("kind", "lstm");
  layer.kind = kind == "lstm" ? Kind::LSTM : kind == "gru" ? Kind::GRU : Kind::Plain;
  layer.activations = {"Sigmoid", "Tanh", "Tanh"};
  if (layer.kind == Kind::Plain)
    layer.activations = {kind == "rnn_relu" ? "Relu" : "Tanh", "", ""};
  if (layer.kind == Kind::LSTM)
    layer.gateAt = {0, 1, 2, 3};
  else if (layer.kind == Kind::GRU)
    layer.gateAt = {1, 0, 2, 0}; // update, reset, candidate
  layer.timeDim = std::clamp<int64_t>(node.getInt("time", 0), -1, 1);
  layer.isReverse = node.getInt("reverse", 0) != 0;
  auto given = [&](int index) { return node.has(index) ? node.input(index) : Binding(); };
  layer.x = given(0);
  layer.inputWeight = given(1);
  layer.stateWeight = given(2);
  layer.inputBias = given(3);
  layer.stateBias = given(4);
  layer.h = given(5);
  layer.c = given(6);
  layer.projection = given(7);
  layer.hidden = layer.inputWeight.type.getDimSize(0) / layer.gateCount();
  FailureOr<RecurrentStates> made = importSteps(node, e, std::move(layer));
  return failed(made) ? failure() : e.finish({made->states, made->h, made->c});
}

OperandRules rulesOf(Kind kind) {
  OperandRules result{tensor("X").real().rank(3),
                      tensor("W").real().rank(3),
                      tensor("R").real().rank(3),
                      tensor("B").real().rank(2).optional(),
                      tensor("sequence_lens").integer().rank(1).optional(),
                      tensor("initial_h").real().rank(3).optional()};
  if (kind == Kind::LSTM) {
    result.rules.push_back(tensor("initial_c").real().rank(3).optional());
    result.rules.push_back(tensor("P").real().rank(2).optional());
  }
  return result;
}
} // namespace

void hyc::onnx::addRecurrentOperators(OperatorTable &table) {
  table["RNN"] = {importLayer<Kind::Plain>, rulesOf(Kind::Plain)};
  table["GRU"] = {importLayer<Kind::GRU>, rulesOf(Kind::GRU)};
  table["LSTM"] = {importLayer<Kind::LSTM>, rulesOf(Kind::LSTM)};
  auto maybe = [](StringRef name, int64_t rank) { return tensor(name).real().rank(rank).optional(); };
  table[kRecurrence] = {importRecurrence,
                        {tensor("x").real().ranks(2, 3), tensor("w").real().rank(2), tensor("r").real().rank(2),
                         maybe("wb", 1), maybe("rb", 1), maybe("h", 2), maybe("c", 2), maybe("p", 2)}};
}
