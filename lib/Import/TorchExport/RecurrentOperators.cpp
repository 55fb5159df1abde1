// aten's recurrent layers and cells, which torch.export leaves whole. Each direction of each layer is one node of hyc's
// own (onnx::kRecurrence).
#include "Translator.h"

#include "llvm/ADT/STLExtras.h"

using namespace hyc;
using namespace hyc::torchexport;
using llvm::StringRef;

namespace {
constexpr char kLstm[] = "lstm", kGru[] = "gru", kTanh[] = "rnn_tanh", kRelu[] = "rnn_relu";

/// A layer's states before its first step and behind its last.
struct States {
  Name h, c; ///< empty for none
};

/// The weights of one direction: two matrices, two biases where the layer has any, a projection where it has one.
struct Weights {
  Name input, state, inputBias, stateBias, projection;
};

/// All of a layer's parameters, of which each direction of each layer has as many.
std::vector<Weights> weightsOf(NodeTranslation &node, int64_t directions) {
  std::vector<Name> all = node.tensors("params");
  const bool hasBiases = node.boolean("has_biases", true);
  const int64_t count = static_cast<int64_t>(all.size()), plain = hasBiases ? 4 : 2;
  const int64_t each = directions > 0 ? count / directions : 0;
  if (directions < 1 || count % directions != 0 || (each != plain && each != plain + 1)) {
    if (!node.failed())
      node.error() << "has " << count << " parameters for " << directions << " directions of all its layers, expected "
                   << plain << " or " << plain + 1 << " for each";
    return {};
  }
  std::vector<Weights> result;
  for (int64_t first = 0; first < count; first += each) {
    Weights weights{all[first], all[first + 1], "", "", each > plain ? all[first + plain] : ""};
    if (hasBiases) {
      weights.inputBias = all[first + 2];
      weights.stateBias = all[first + 3];
    }
    result.push_back(std::move(weights));
  }
  return result;
}

States statesBefore(NodeTranslation &node, bool isLstm) {
  if (!isLstm)
    return {node.tensor("hx"), ""};
  std::vector<Name> given = node.tensors("hx");
  if (given.size() != 2 && !node.failed())
    node.error() << "has " << given.size() << " initial states, expected two";
  given.resize(2);
  return {given[0], given[1]};
}

/// The layer's own entry of the states of all: (layers · directions, B, H).
Name entryOf(NodeTranslation &node, const Name &states, int64_t index) {
  if (states.empty())
    return "";
  return node.emit("Gather", {states, node.constant(ScalarType::I64, static_cast<double>(index))}, {{{"axis", 0}}});
}

std::vector<Name> direction(NodeTranslation &node, StringRef kind, const Name &x, const Weights &weights,
                            const States &before, int64_t time, bool isReverse) {
  return node.emitAll(
      onnx::kRecurrence,
      {x, weights.input, weights.state, weights.inputBias, weights.stateBias, before.h, before.c, weights.projection},
      {{{"time", time}, {"reverse", isReverse}}, {}, {}, {{"kind", kind.str()}}}, 3);
}

/// All layers, each over what both directions of the one before give.
template <const char *Kind> void layers(NodeTranslation &node) {
  const bool isLstm = StringRef(Kind) == kLstm, isBatchFirst = node.boolean("batch_first", false);
  const int64_t count = node.integer("num_layers"), directions = node.boolean("bidirectional", false) ? 2 : 1;
  const double rate = node.number("dropout", 0);
  constexpr int64_t kMostLayers = 1 << 16;
  if (node.failed() || count < 1 || count > kMostLayers) {
    if (!node.failed())
      node.error() << "has " << count << " layers, expected 1 to " << kMostLayers;
    return;
  }
  std::vector<Weights> weights = weightsOf(node, count * directions);
  const States before = statesBefore(node, isLstm);
  Name x = node.tensor("input");
  if (node.failed())
    return;
  std::vector<Name> lastHidden, lastCell;
  for (int64_t layer = 0; layer < count; ++layer) {
    std::vector<Name> both;
    for (int64_t way = 0; way < directions; ++way) {
      const int64_t index = layer * directions + way;
      std::vector<Name> made =
          direction(node, Kind, x, weights[index], {entryOf(node, before.h, index), entryOf(node, before.c, index)},
                    isBatchFirst ? 1 : 0, way == 1);
      both.push_back(made[0]);
      lastHidden.push_back(node.emit("Unsqueeze", {made[1], node.constant({0})}));
      if (isLstm)
        lastCell.push_back(node.emit("Unsqueeze", {made[2], node.constant({0})}));
    }
    x = directions == 1 ? both.front() : node.emit("Concat", both, {{{"axis", -1}}});
    if (rate != 0 && node.boolean("train", false) && layer + 1 < count)
      x = node.emit("Dropout", {x, node.constant(ScalarType::F32, rate), node.constant(ScalarType::Bool, 1)});
  }
  node.finish(x);
  node.finish(node.emit("Concat", lastHidden, {{{"axis", 0}}}), 1);
  if (isLstm)
    node.finish(node.emit("Concat", lastCell, {{{"axis", 0}}}), 2);
}

/// One step.
template <const char *Kind> void cell(NodeTranslation &node) {
  const bool isLstm = StringRef(Kind) == kLstm;
  auto maybe = [&](StringRef name) { return node.has(name) ? node.tensor(name) : Name(); };
  const States before = statesBefore(node, isLstm);
  Weights weights{node.tensor("w_ih"), node.tensor("w_hh"), maybe("b_ih"), maybe("b_hh"), ""};
  Name x = node.tensor("input");
  if (node.failed())
    return;
  std::vector<Name> made = direction(node, Kind, x, weights, before, /*time=*/-1, /*isReverse=*/false);
  node.finish(made[1]);
  if (isLstm)
    node.finish(made[2], 1);
}
} // namespace

void hyc::torchexport::addRecurrent(TranslationTable &table) {
  table["aten.lstm.input"] = layers<kLstm>;
  table["aten.gru.input"] = layers<kGru>;
  table["aten.rnn_tanh.input"] = layers<kTanh>;
  table["aten.rnn_relu.input"] = layers<kRelu>;
  table["aten.lstm_cell.default"] = cell<kLstm>;
  table["aten.gru_cell.default"] = cell<kGru>;
  table["aten.rnn_tanh_cell.default"] = cell<kTanh>;
  table["aten.rnn_relu_cell.default"] = cell<kRelu>;
}
