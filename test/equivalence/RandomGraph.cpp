// The blocks that random graphs are made of. Values of the pool are (samples, sequence, width); each block takes one or
// two and gives one back.
#include "RandomGraph.h"

#include "GraphText.h"
#include <cmath>
#include <map>
#include <random>

using namespace hyc::equivalence;
using hyc::interpreter::ElementKind;
using hyc::interpreter::NamedTensors;
using hyc::interpreter::Tensor;

namespace {
class Generator {
public:
  Generator(uint64_t seed, const RandomGraphOptions &options) : options(options), random(seed) {}
  RandomGraph make();

private:
  // Chance.
  int64_t below(int64_t bound) { return static_cast<int64_t>(random() % static_cast<uint64_t>(bound)); }
  int64_t oneOf(std::initializer_list<int64_t> choices) {
    return choices.begin()[below(static_cast<int64_t>(choices.size()))];
  }
  const char *oneOf(std::initializer_list<const char *> choices) {
    return choices.begin()[below(static_cast<int64_t>(choices.size()))];
  }
  bool chance(int64_t percent) { return below(100) < percent; }
  int64_t rounded(int64_t size) const {
    return (size + options.sizeMultiple - 1) / options.sizeMultiple * options.sizeMultiple;
  }

  // The pool.
  GraphValue take();
  void give(const GraphValue &value) { pool.push_back({value, 0}); }

  // Parts of blocks.
  GraphValue parameter(const std::string &name, const Shape &shape, double mean, double stddev);
  GraphValue weight(const std::string &name, const Shape &shape, int64_t fanIn) {
    return parameter(name, shape, 0, 1 / std::sqrt(static_cast<double>(fanIn)));
  }
  GraphValue linear(const std::string &name, const GraphValue &x, int64_t outWidth);
  GraphValue activation(const GraphValue &x);
  std::string probabilities() { return options.drops ? " dropout 3.0e-1" : ""; }
  GraphValue likeFirst(const GraphValue &first, const GraphValue &second);
  Shape tokens(int64_t width) const { return {options.samples, sequence, width}; }
  int64_t anyWidth() { return widths[below(static_cast<int64_t>(widths.size()))]; }

  // Blocks.
  GraphValue mlp();
  GraphValue attention();
  GraphValue fusedAttention();
  GraphValue norm();
  GraphValue combination();
  GraphValue shared();
  GraphValue reshapedHeads();
  GraphValue flatTokens();
  GraphValue tokenMixing();
  GraphValue pooled();
  GraphValue overSamples();
  GraphValue gated();
  GraphValue joined();
  GraphValue shifted();
  GraphValue similarity();
  GraphValue chosen();
  GraphValue computedWeight();
  GraphValue waves();
  GraphValue dropped();
  GraphValue convolved();
  GraphValue between(const GraphValue &t);
  GraphValue restored();
  GraphValue largest();
  GraphValue ordered();
  GraphValue running();
  GraphValue multiplied();
  GraphValue grouped();
  GraphValue recurrent();

  void makeInputs();
  void makeBlock(int64_t index);
  int64_t countDrawing() const;
  std::vector<GraphValue> makeLoss();

  struct Pooled {
    GraphValue value;
    int uses;
  };

  RandomGraphOptions options;
  std::mt19937_64 random;
  GraphText text;
  std::vector<Pooled> pool;
  std::vector<int64_t> widths;
  int64_t sequence = 0, vocabulary = 0;
  std::string table; ///< embedding table, empty where there is none
  int64_t tableWidth = 0;
  std::map<Shape, std::vector<std::string>> symbols; ///< parameters that may be tied, by shape
  RandomGraph graph;
};
} // namespace

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

GraphValue Generator::take() {
  // The latest value, so that graphs grow deep, or any.
  Pooled &entry = chance(60) ? pool.back() : pool[below(static_cast<int64_t>(pool.size()))];
  ++entry.uses;
  return entry.value;
}

GraphValue Generator::parameter(const std::string &name, const Shape &shape, double mean, double stddev) {
  std::vector<std::string> &known = symbols[shape];
  if (shape.size() > 1 && !known.empty() && chance(options.tiedPercent))
    return text.read(known[below(static_cast<int64_t>(known.size()))], shape);
  bool frozen = !graph.parameters.empty() && chance(8); // the first one trains, so that something does
  std::string symbol = text.parameter(name, shape, mean, stddev, frozen);
  known.push_back(symbol);
  graph.parameters.push_back(symbol);
  return text.read(symbol, shape);
}

GraphValue Generator::linear(const std::string &name, const GraphValue &x, int64_t outWidth) {
  GraphValue w = weight(name + ".weight", {x.shape[2], outWidth}, x.shape[2]);
  GraphValue y = text.einsum("bsk,kn->bsn", x, w);
  if (!chance(60))
    return y;
  GraphValue bias = parameter(name + ".bias", {outWidth}, 0, 0.3);
  return text.same("hyc.add", {y, text.broadcast(bias, "[2]", y.shape)});
}

GraphValue Generator::activation(const GraphValue &x) {
  return text.same(
      oneOf({"hyc.tanh", "hyc.sigmoid", "hyc.gelu", "hyc.gelu tanh", "hyc.relu", "hyc.sin", "hyc.cos", "hyc.erf"}),
      {x});
}

GraphValue Generator::likeFirst(const GraphValue &first, const GraphValue &second) {
  return first.shape == second.shape ? second : linear("match", second, first.shape[2]);
}

//===----------------------------------------------------------------------===//
// Blocks
//===----------------------------------------------------------------------===//

GraphValue Generator::mlp() {
  GraphValue x = take();
  GraphValue h = activation(linear("fc", x, rounded(anyWidth() + below(9))));
  GraphValue y = linear("proj", h, x.shape[2]);
  return chance(70) ? text.same("hyc.add", {x, y}) : y;
}

GraphValue Generator::attention() {
  GraphValue x = take();
  int64_t heads = options.headMultiple * oneOf({1, 2}), size = oneOf({3, 4}), width = x.shape[2];
  int64_t groups = heads % (2 * options.headMultiple) == 0 && chance(50) ? heads / 2 : heads;
  GraphValue q = text.einsum("bsk,khd->bshd", x, weight("q.weight", {width, heads, size}, width));
  GraphValue k = text.einsum("bsk,khd->bshd", x, weight("k.weight", {width, groups, size}, width));
  GraphValue v = text.einsum("bsk,khd->bshd", x, weight("v.weight", {width, groups, size}, width));
  Shape lse{options.samples, heads, sequence};
  GraphValue o = text.applyMany("hyc.attention",
                                std::string(chance(50) ? "causal " : "") + "$0, $1, $2 scale 5.0e-1" + probabilities(),
                                {q, k, v}, {{"", q.shape}, {"", lse}})[0];
  GraphValue y = text.einsum("bshd,hdk->bsk", o, weight("o.weight", {heads, size, width}, heads * size));
  return chance(70) ? text.same("hyc.add", {x, y}) : y;
}

GraphValue Generator::fusedAttention() {
  GraphValue x = take();
  int64_t heads = options.headMultiple * oneOf({1, 2}), size = 4, width = x.shape[2];
  GraphValue qkv = text.einsum("bsk,kchd->bschd", x, weight("qkv.weight", {width, 3, heads, size}, width));
  Shape part{options.samples, sequence, 1, heads, size}, whole{options.samples, sequence, heads, size};
  std::vector<GraphValue> parts = text.applyMany("hyc.split", "$0 dim 2", {qkv}, {{"", part}, {"", part}, {"", part}});
  for (GraphValue &value : parts)
    value = text.apply("hyc.reshape", "$0", {value}, whole);
  GraphValue o = text.applyMany("hyc.attention", "causal $0, $1, $2 scale 5.0e-1" + probabilities(), parts,
                                {{"", whole}, {"", {options.samples, heads, sequence}}})[0];
  GraphValue flat = text.apply("hyc.reshape", "$0", {o}, tokens(heads * size));
  return text.same("hyc.add", {x, linear("o", flat, width)});
}

GraphValue Generator::norm() {
  GraphValue x = take();
  int64_t width = x.shape[2];
  GraphValue scale = parameter("norm.scale", {width}, 1, 0.2), bias = parameter("norm.bias", {width}, 0, 0.2);
  Shape rows{options.samples, sequence};
  return text.applyMany("hyc.layer_norm", "$0, $1, $2 epsilon 1.0e-2", {x, scale, bias},
                        {{"", x.shape}, {"", rows}, {"", rows}})[0];
}

GraphValue Generator::combination() {
  GraphValue x = take();
  GraphValue y = likeFirst(x, take());
  return text.same(oneOf({"hyc.add", "hyc.sub", "hyc.mul", "hyc.max", "hyc.min"}), {x, text.same("hyc.tanh", {y})});
}

/// One value with three users, which meet again.
GraphValue Generator::shared() {
  GraphValue x = take();
  GraphValue a = activation(x), b = linear("b", x, x.shape[2]);
  return text.same("hyc.sub", {text.same("hyc.mul", {a, x}), b});
}

/// Splits the width in two factors, works per factor, and merges again.
GraphValue Generator::reshapedHeads() {
  GraphValue x = linear("in", take(), 6);
  Shape split{options.samples, sequence, 2, 3};
  GraphValue heads = text.apply("hyc.reshape", "$0", {x}, split);
  GraphValue y = text.einsum("bshd,hde->bshe", heads, weight("perhead.weight", {2, 3, 3}, 3));
  return text.apply("hyc.reshape", "$0", {text.same("hyc.tanh", {y})}, x.shape);
}

/// As exporters write a linear layer: samples and sequence merged into one dimension.
GraphValue Generator::flatTokens() {
  GraphValue x = take();
  int64_t out = anyWidth();
  GraphValue flat = text.apply("hyc.reshape", "$0", {x}, {options.samples * sequence, x.shape[2]});
  GraphValue y = text.einsum("tk,kn->tn", flat, weight("flat.weight", {x.shape[2], out}, x.shape[2]));
  return text.apply("hyc.reshape", "$0", {activation(y)}, tokens(out));
}

GraphValue Generator::tokenMixing() {
  GraphValue x = take();
  GraphValue t = text.apply("hyc.transpose", "$0 [0, 2, 1]", {x}, {options.samples, x.shape[2], sequence});
  GraphValue y = text.einsum("bfs,sr->bfr", t, weight("mix.weight", {sequence, sequence}, sequence));
  GraphValue back = text.apply("hyc.transpose", "$0 [0, 2, 1]", {y}, x.shape);
  return text.same("hyc.add", {x, back});
}

/// A summary of the sequence, given back to every token.
GraphValue Generator::pooled() {
  GraphValue x = take();
  const char *kind = oneOf({"sum", "max", "min"});
  GraphValue summary = text.scaled(text.reduce(kind, x, {1}), 1 / static_cast<double>(sequence));
  GraphValue spread = text.broadcast(text.same("hyc.tanh", {summary}), "[0, 2]", x.shape);
  return text.same("hyc.add", {x, spread});
}

/// Statistics over the samples of the whole global micro-batch, as batch normalization has them.
GraphValue Generator::overSamples() {
  GraphValue x = take();
  GraphValue mean = text.scaled(text.reduce("sum", x, {0, 1}), 1 / static_cast<double>(options.samples * sequence));
  return text.same("hyc.sub", {x, text.broadcast(mean, "[2]", x.shape)});
}

GraphValue Generator::gated() {
  GraphValue x = take();
  int64_t half = oneOf({3, 4, 5});
  std::vector<GraphValue> parts =
      text.applyMany("hyc.split", "$0 dim 2", {linear("gate", x, 2 * half)}, {{"", tokens(half)}, {"", tokens(half)}});
  return linear("down", text.same("hyc.mul", {parts[0], text.same("hyc.sigmoid", {parts[1]})}), x.shape[2]);
}

GraphValue Generator::joined() {
  GraphValue x = take(), y = take();
  GraphValue both = text.apply("hyc.concat", "$0, $1 dim 2", {x, y}, tokens(x.shape[2] + y.shape[2]));
  return linear("join", both, x.shape[2]);
}

/// Each token sees the one before it.
GraphValue Generator::shifted() {
  GraphValue x = take();
  Shape shorter{options.samples, sequence - 1, x.shape[2]};
  GraphValue head = text.apply("hyc.slice", "$0 offsets [0, 0, 0] strides [1, 1, 1]", {x}, shorter);
  GraphValue moved = text.apply("hyc.pad", "$0 offsets [0, 1, 0] strides [1, 1, 1]", {head}, x.shape);
  return text.same("hyc.add", {x, text.scaled(moved, 0.5)});
}

/// Attention written out, between two activations.
GraphValue Generator::similarity() {
  GraphValue x = take();
  GraphValue y = likeFirst(x, take());
  GraphValue scores = text.einsum("bsk,btk->bst", x, text.same("hyc.tanh", {y}));
  GraphValue p = text.same("hyc.softmax", {text.scaled(scores, 0.3)});
  return text.einsum("bst,btk->bsk", p, y);
}

GraphValue Generator::chosen() {
  GraphValue x = take();
  GraphValue y = likeFirst(x, take());
  GraphValue condition = text.apply("hyc.compare", std::string(oneOf({"gt", "le"})) + " $0, $1", {x, y}, x.shape, "i1");
  return text.apply("hyc.select", "$0, $1, $2", {condition, x, text.scaled(y, 0.5)}, x.shape);
}

/// A weight that is itself computed from parameters.
GraphValue Generator::computedWeight() {
  GraphValue x = take();
  int64_t in = x.shape[2], out = anyWidth();
  GraphValue w = weight("v.weight", {in, out}, in);
  GraphValue scale = parameter("g", {out}, 1, 0.2);
  GraphValue scaled = text.same("hyc.mul", {text.same("hyc.tanh", {w}), text.broadcast(scale, "[1]", w.shape)});
  return text.einsum("bsk,kn->bsn", x, scaled);
}

/// A position signal that is computed, not learnt.
GraphValue Generator::waves() {
  GraphValue x = take();
  GraphValue angle = text.scaled(text.iota(0, {sequence}), 0.7);
  return text.same("hyc.mul", {x, text.broadcast(text.same("hyc.cos", {angle}), "[1]", x.shape)});
}

/// Dropout as models have it: of tokens, of samples and tokens in one dimension, or with the samples second.
GraphValue Generator::dropped() {
  GraphValue x = take();
  GraphValue y = x;
  Shape flat{options.samples * sequence, x.shape[2]}, turned{sequence, options.samples, x.shape[2]};
  int64_t kind = below(3);
  if (kind == 1)
    y = text.apply("hyc.reshape", "$0", {x}, flat);
  if (kind == 2)
    y = text.apply("hyc.transpose", "$0 [1, 0, 2]", {x}, turned);
  y = text.apply("hyc.dropout", std::string("$0 rate ") + oneOf({"1.0e-1", "5.0e-1"}), {y}, y.shape);
  if (kind == 1)
    y = text.apply("hyc.reshape", "$0", {y}, x.shape);
  if (kind == 2)
    y = text.apply("hyc.transpose", "$0 [1, 0, 2]", {y}, x.shape);
  return text.same("hyc.add", {x, linear("drop", y, x.shape[2])});
}

/// A convolution over the sequence, the width being its channels.
GraphValue Generator::convolved() {
  GraphValue x = take();
  int64_t width = x.shape[2], out = anyWidth();
  GraphValue t = text.apply("hyc.transpose", "$0 [0, 2, 1]", {x}, {options.samples, width, sequence});
  GraphValue w = weight("conv.weight", {out, width, 3}, 3 * width);
  GraphValue y = text.apply("hyc.convolution", "$0, $1 strides [1] dilations [1] pads [1] [1]", {t, w},
                            {options.samples, out, sequence});
  GraphValue back = text.apply("hyc.transpose", "$0 [0, 2, 1]", {activation(y)}, tokens(out));
  return text.same("hyc.add", {x, linear("proj", back, width)});
}

/// Of each position and the next one, more of the former where their number is even; the last two give two.
GraphValue Generator::between(const GraphValue &t) {
  std::string firsts, weights;
  for (int64_t i = 0; i < sequence; ++i) {
    firsts += (i ? ", " : "") + std::to_string(std::min(i, sequence - 2));
    weights += std::string(i ? ", " : "") + (i % 2 ? "0.25, 0.5" : "0.75, 0.25");
  }
  std::string tables = "firsts [array<i64: " + firsts + ">] weights [array<f64: " + weights + ">]";
  return text.apply("hyc.resample", "$0 dim 2 " + tables, {t}, t.shape);
}

/// Every other position, and back to all of them, beside what is between them.
GraphValue Generator::restored() {
  GraphValue x = take();
  int64_t width = x.shape[2], out = anyWidth(), half = (sequence - 1) / 2 + 1;
  GraphValue t = text.apply("hyc.transpose", "$0 [0, 2, 1]", {x}, {options.samples, width, sequence});
  std::string windows = "$0, $1 strides [2] dilations [1] pads [1] [1]";
  GraphValue down = weight("down.weight", {out, width, 3}, 3 * width),
             up = weight("up.weight", {out, width, 3}, 3 * out);
  GraphValue y = text.apply("hyc.convolution", windows, {t, down}, {options.samples, out, half});
  GraphValue z = text.apply("hyc.convolution_transpose", windows, {text.same("hyc.tanh", {y}), up}, t.shape);
  return text.apply("hyc.transpose", "$0 [0, 2, 1]", {text.same("hyc.add", {z, between(t)})}, x.shape);
}

/// Group norm over the sequence, the width being the channels.
GraphValue Generator::grouped() {
  GraphValue x = take();
  int64_t width = x.shape[2], groups = width % 4 == 0 ? 4 : width % 2 == 0 ? 2 : 1;
  Shape vector{groups, width / groups}, apart{options.samples, groups, width / groups, sequence};
  Shape statistics{options.samples, groups};
  GraphValue t = text.apply("hyc.transpose", "$0 [0, 2, 1]", {x}, {options.samples, width, sequence});
  GraphValue scale = parameter("group_norm.scale", {width}, 1, 0.2),
             bias = parameter("group_norm.bias", {width}, 0, 0.2);
  GraphValue y =
      text.applyMany("hyc.group_norm", "$0, $1, $2 epsilon 1.0e-2",
                     {text.apply("hyc.reshape", "$0", {t}, apart), text.apply("hyc.reshape", "$0", {scale}, vector),
                      text.apply("hyc.reshape", "$0", {bias}, vector)},
                     {{"", apart}, {"", statistics}, {"", statistics}})[0];
  return text.apply("hyc.transpose", "$0 [0, 2, 1]", {text.apply("hyc.reshape", "$0", {y}, t.shape)}, x.shape);
}

/// Of each token and the one before it.
GraphValue Generator::largest() {
  GraphValue x = take();
  Shape turned{options.samples, x.shape[2], sequence};
  GraphValue t = text.apply("hyc.transpose", "$0 [0, 2, 1]", {x}, turned);
  GraphValue y = text.applyMany("hyc.max_pool", "$0 window [2] strides [1] dilations [1] pads [1] [0]", {t},
                                {{"", turned}, {"", turned, "i64"}})[0];
  return text.same("hyc.add", {x, text.apply("hyc.transpose", "$0 [0, 2, 1]", {y}, x.shape)});
}

/// The tokens of each sample in the order of what a projection gives them; or the first of that order, each once more.
GraphValue Generator::ordered() {
  GraphValue x = take();
  GraphValue scores = text.einsum("bsk,k->bs", x, weight("order.weight", {x.shape[2]}, x.shape[2]));
  std::string form = chance(50) ? "descending $0" : "$0";
  if (sequence % 2 != 0) {
    GraphValue order = text.apply("hyc.argsort", form, {scores}, scores.shape, "i64");
    return text.apply("hyc.gather", "$0, $1 dim 1 batch 1", {x, order}, x.shape);
  }
  int64_t half = sequence / 2;
  GraphValue order =
      text.apply("hyc.argsort", form + " first " + std::to_string(half), {scores}, {options.samples, half}, "i64");
  GraphValue best = text.apply("hyc.gather", "$0, $1 dim 1 batch 1", {x, order}, {options.samples, half, x.shape[2]});
  return text.apply("hyc.concat", "$0, $1 dim 1", {best, best}, x.shape);
}

GraphValue Generator::running() {
  GraphValue x = take();
  std::string form = std::string("$0 dim 1") + oneOf({"", " reverse", " exclusive", " reverse exclusive"});
  return text.same("hyc.add", {x, text.scaled(text.applySame("hyc.cumsum", form, x), 0.3)});
}

/// A product over the sequence, of numbers around 1.
GraphValue Generator::multiplied() {
  GraphValue x = take();
  GraphValue bent =
      text.same(oneOf({"hyc.asinh", "hyc.atan", "hyc.softplus", "hyc.sinh"}), {text.same("hyc.tanh", {x})});
  GraphValue near = text.same("hyc.add", {text.scaled(bent, 0.2), text.constant(1, x.shape)});
  GraphValue product = text.reduce("prod", near, {1});
  return text.same("hyc.add", {x, text.broadcast(product, "[0, 2]", x.shape)});
}

/// A recurrence over the sequence, in either direction. What a step carries on and what it gives is any of what it
/// knows and computes: a new value, one that it was given, the same twice, or what another value was carried as.
GraphValue Generator::recurrent() {
  GraphValue x = take();
  const int64_t width = x.shape[2], carried = 1 + below(3), stacked = 1 + below(2);
  GraphValue over = text.apply("hyc.transpose", "$0 [1, 0, 2]", {x}, {sequence, options.samples, width});
  std::vector<GraphValue> init;
  for (int64_t i = 0; i < carried; ++i)
    init.push_back(chance(50) ? text.constant(0, {options.samples, width})
                              : text.scaled(text.reduce("sum", x, {1}), 0.2));
  // The weight first: it always reaches the loss, and of a graph's parameters the first one trains.
  GraphValue weights = weight("recurrence.weight", {width, width}, width);
  GraphValue bias = parameter("recurrence.bias", {width}, 0, 0.3);
  std::vector<GraphValue> known = text.beginScan(init, {over}, {weights, bias});
  GraphValue offset = known.back(), matrix = *(known.end() - 2);
  known.resize(known.size() - 2);
  GraphValue element = known.back();
  // The same in every step, one made of the other.
  GraphValue product = text.einsum("bk,kn->bn", known[below(carried)], matrix);
  for (int64_t more = below(3); more > 0; --more) {
    matrix = text.same("hyc.tanh", {matrix});
    product = text.same("hyc.add", {product, text.einsum("bk,kn->bn", known[below(carried)], matrix)});
  }
  if (chance(50))
    product = text.same("hyc.add", {product, text.broadcast(offset, "[1]", product.shape)});
  known.push_back(text.same("hyc.tanh", {text.same("hyc.add", {product, element})}));
  known.push_back(text.scaled(text.same("hyc.mul", {element, known[below(carried)]}), 0.5));
  std::vector<GraphValue> yielded{*(known.end() - 2)};
  while (static_cast<int64_t>(yielded.size()) < carried + stacked)
    yielded.push_back(known[below(static_cast<int64_t>(known.size()))]);
  std::vector<GraphValue> results = text.endScan(chance(50), yielded);
  GraphValue sum = x;
  for (size_t index = 0; index < results.size(); ++index)
    sum = text.same("hyc.add", {sum, index < static_cast<size_t>(carried)
                                         ? text.broadcast(results[index], "[0, 2]", x.shape)
                                         : text.apply("hyc.transpose", "$0 [1, 0, 2]", {results[index]}, x.shape)});
  return text.scaled(sum, 0.5);
}

//===----------------------------------------------------------------------===//
// The graph
//===----------------------------------------------------------------------===//

void Generator::makeInputs() {
  bool embeds = chance(70);
  if (embeds) {
    text.setScope("embedding");
    tableWidth = anyWidth();
    GraphValue ids = text.argument("ids", {options.samples, sequence}, "i64");
    graph.inputs.push_back({"ids", ids.shape, vocabulary});
    table = text.parameter("table", {vocabulary, tableWidth}, 0, 1, false);
    graph.parameters.push_back(table);
    GraphValue rows = text.read(table, {vocabulary, tableWidth});
    GraphValue x = text.apply("hyc.embedding", "$0, $1", {ids, rows}, tokens(tableWidth));
    GraphValue positions = parameter("positions", {sequence, tableWidth}, 0, 0.5);
    give(text.same("hyc.add", {x, text.broadcast(positions, "[1, 2]", x.shape)}));
  }
  if (!embeds || chance(20)) {
    GraphValue x = text.argument("x", tokens(anyWidth()), "f32");
    graph.inputs.push_back({"x", x.shape});
    give(x);
  }
}

void Generator::makeBlock(int64_t index) {
  using Block = GraphValue (Generator::*)();
  static const Block kBlocks[] = {&Generator::mlp,         &Generator::mlp,           &Generator::mlp,
                                  &Generator::attention,   &Generator::attention,     &Generator::fusedAttention,
                                  &Generator::norm,        &Generator::norm,          &Generator::combination,
                                  &Generator::shared,      &Generator::reshapedHeads, &Generator::flatTokens,
                                  &Generator::tokenMixing, &Generator::pooled,        &Generator::overSamples,
                                  &Generator::gated,       &Generator::joined,        &Generator::shifted,
                                  &Generator::similarity,  &Generator::chosen,        &Generator::computedWeight,
                                  &Generator::waves};
  text.setScope("blocks." + std::to_string(index));
  Block block = kBlocks[below(std::size(kBlocks))];
  if (options.drops && chance(40))
    block = &Generator::dropped;
  static const Block kSliding[] = {&Generator::convolved,  &Generator::convolved, &Generator::restored,
                                   &Generator::largest,    &Generator::ordered,   &Generator::running,
                                   &Generator::multiplied, &Generator::grouped};
  if (options.slides && chance(50))
    block = kSliding[below(std::size(kSliding))];
  if (options.recurs && chance(50))
    block = &Generator::recurrent;
  give((this->*block)());
}

/// What nothing has used, and the latest value, feed the loss: squares, or cross entropy, or both.
std::vector<GraphValue> Generator::makeLoss() {
  text.setScope("loss");
  if (graph.parameters.empty()) // something has to train
    give(linear("last", take(), anyWidth()));
  GraphValue last = pool.back().value, total, count;
  bool classifies = chance(60);
  if (classifies) {
    GraphValue labels = text.argument("labels", {options.samples, sequence}, "i64");
    graph.inputs.push_back({"labels", labels.shape, vocabulary, true});
    GraphValue logits =
        !table.empty() && chance(60)
            ? text.einsum("bsk,vk->bsv", last.shape[2] == tableWidth ? last : linear("head", last, tableWidth),
                          text.read(table, {vocabulary, tableWidth}))
            : linear("head", last, vocabulary);
    std::vector<GraphValue> results = text.applyMany("hyc.cross_entropy", "$0, $1", {logits, labels},
                                                     {{"", {}}, {"", {}, "i64"}, {"", labels.shape}});
    total = results[0];
    count = results[1];
    ++pool.back().uses;
  }
  for (const Pooled &entry : pool) {
    if (entry.uses > 0)
      continue;
    GraphValue square = text.same("hyc.mul", {entry.value, entry.value});
    GraphValue sum = text.scaled(text.reduce("sum", square, {0, 1, 2}), 0.1);
    total = total.name.empty() ? sum : text.same("hyc.add", {total, sum});
  }
  if (count.name.empty())
    count = text.constant(static_cast<double>(options.samples), {}, "i64");
  return {total, count};
}

/// The ops that hyc-key-random-ops gives keys: what drops says its rate.
int64_t Generator::countDrawing() const {
  int64_t count = 0;
  for (const char *mark : {"= hyc.dropout ", " dropout 3.0e-1"})
    for (size_t at = graph.module.find(mark); at != std::string::npos; at = graph.module.find(mark, at + 1))
      ++count;
  return count;
}

RandomGraph Generator::make() {
  sequence = rounded(oneOf({3, 4, 5, 7}));
  vocabulary = rounded(options.widthFactor * oneOf({7, 11, 16, 13}));
  for (int i = 0; i < 3; ++i)
    widths.push_back(rounded(options.widthFactor * oneOf({5, 6, 7, 8, 12})));
  makeInputs();
  for (int64_t block = 0; block < options.blocks; ++block)
    makeBlock(block);
  std::vector<GraphValue> results = makeLoss();
  graph.module = text.finish(results);
  if (int64_t drawing = countDrawing(); drawing > 0)
    graph.inputs.push_back({"random_keys", {options.samples, drawing}, int64_t{1} << 40});
  return graph;
}

RandomGraph hyc::equivalence::makeRandomGraph(uint64_t seed, const RandomGraphOptions &options) {
  return Generator(seed, options).make();
}

NamedTensors hyc::equivalence::makeRandomBatch(const RandomGraph &graph, uint64_t seed, int64_t microBatches) {
  std::mt19937_64 random(seed);
  NamedTensors batch;
  for (const GraphInput &input : graph.inputs) {
    std::vector<int64_t> shape = input.shape;
    shape[0] *= microBatches;
    Tensor tensor(input.bound ? ElementKind::I64 : ElementKind::F32, shape);
    for (int64_t i = 0; i < tensor.getNumElements(); ++i) {
      double uniform = static_cast<double>(random() >> 11) * 0x1p-53;
      bool ignored = input.mayBeIgnored && random() % 5 == 0;
      tensor.set(i, ignored       ? -100
                    : input.bound ? std::floor(uniform * static_cast<double>(input.bound))
                                  : 2 * uniform - 1);
    }
    batch[input.name] = tensor;
  }
  return batch;
}
