// Numbers that the model itself draws. torch's generator is not followed, only what it draws from: hyc's numbers come
// by counter, as dropout's do.
#include "Translator.h"

#include <algorithm>
#include <cmath>

using namespace hyc::torchexport;

namespace {
/// The most whole numbers that a drawn one can tell apart: it has 24 bits.
constexpr double kMostChoices = 1 << 24;

/// A tensor of the shape that is drawn: that of `self`, or what `size` says.
Name shaped(NodeTranslation &node, bool isLike) {
  Name shape = isLike ? node.emit("Shape", {node.tensor("self")}) : node.shape("size");
  return node.filled(ScalarType::F32, shape, 0);
}

Name uniform(NodeTranslation &node, const Name &like, double low = 0, double high = 1) {
  return node.emit("RandomUniformLike", {like}, {{}, {{"low", low}, {"high", high}}});
}

Name normal(NodeTranslation &node, const Name &like) { return node.emit("RandomNormalLike", {like}); }

void finishAs(NodeTranslation &node, const Name &drawn) { node.finish(node.cast(drawn, node.resultMeta().type)); }

template <bool IsLike> void drawUniform(NodeTranslation &node) { finishAs(node, uniform(node, shaped(node, IsLike))); }
template <bool IsLike> void drawNormal(NodeTranslation &node) { finishAs(node, normal(node, shaped(node, IsLike))); }

/// Whole numbers from `low` to one less than `high`.
template <bool IsLike> void drawIntegers(NodeTranslation &node) {
  double low = node.number("low", 0), count = node.number("high") - low;
  if (!node.failed() && !(count >= 1 && count <= kMostChoices)) {
    node.error() << "draws one of " << count << " whole numbers, expected at least 1 and at most " << kMostChoices;
    return;
  }
  Name drawn = node.emit("Floor", {uniform(node, shaped(node, IsLike), 0, count)});
  finishAs(node, node.emit("Add", {drawn, node.constant(ScalarType::F32, low)}));
}

/// The whole numbers below n, in an order that is drawn.
void drawOrder(NodeTranslation &node) {
  Name count = node.size("n", 0), like = node.filled(ScalarType::F32, count, 0);
  finishAs(node, node.emitAll("TopK", {uniform(node, like), count}, {{{"axis", 0}, {"largest", 0}}}, 2)[1]);
}

/// Whether each is 1: with its own probability, or that of all.
template <bool OfAll> void drawTruth(NodeTranslation &node) {
  Name like = shaped(node, true);
  Name probability =
      OfAll ? node.constant(ScalarType::F32, node.number("p", 0.5)) : node.operand("self", ScalarType::F32);
  finishAs(node, node.emit("Less", {uniform(node, like), probability}));
}

/// mean + std · a normal number; either may be a tensor.
void drawAround(NodeTranslation &node) {
  ScalarType type = node.resultMeta().type;
  auto part = [&](llvm::StringRef name, double otherwise) {
    return node.has(name) ? node.operand(name, type) : node.constant(type, otherwise);
  };
  Name mean = part("mean", 0), deviation = part("std", 1), like;
  if (node.has("self") || node.has("size")) {
    like = shaped(node, node.has("self"));
  } else {
    Name zero = node.constant(type, 0);
    Name both = node.emit("Add", {node.emit("Mul", {mean, zero}), node.emit("Mul", {deviation, zero})});
    like = node.filled(ScalarType::F32, node.emit("Shape", {both}), 0);
  }
  Name drawn = node.cast(normal(node, like), type);
  node.finish(node.emit("Add", {node.emit("Mul", {drawn, deviation}), mean}));
}

/// -log(1 - u) / lambd
Name exponential(NodeTranslation &node) {
  Name open = node.emit("Sub", {node.constant(ScalarType::F32, 1), uniform(node, shaped(node, true))});
  return node.emit(
      "Div", {node.emit("Neg", {node.emit("Log", {open})}), node.constant(ScalarType::F32, node.number("lambd", 1))});
}

// What torch only has as writing into its operand.

Name uniformWithin(NodeTranslation &node) {
  return uniform(node, shaped(node, true), node.number("from", 0), node.number("to", 1));
}

Name truthOfAll(NodeTranslation &node) {
  return node.emit("Less", {uniform(node, shaped(node, true)), node.constant(ScalarType::F32, node.number("p", 0.5))});
}

Name normalAround(NodeTranslation &node) {
  Name scaled =
      node.emit("Mul", {normal(node, shaped(node, true)), node.constant(ScalarType::F32, node.number("std", 1))});
  return node.emit("Add", {scaled, node.constant(ScalarType::F32, node.number("mean", 0))});
}

template <Name (*Draw)(NodeTranslation &)> void fillDrawn(NodeTranslation &node) {
  finishAs(node, Draw(node));
  node.writeResult();
}
template <Name (*Draw)(NodeTranslation &)> void giveDrawn(NodeTranslation &node) { finishAs(node, Draw(node)); }

/// What is kept of ones, scaled by 1 / (1 - rate): of each element, or of whole channels, all of a sample's elements at
/// one place together.
Name scaledOnes(NodeTranslation &node, const Name &value, int64_t tensorRank, double rate, bool byChannel) {
  const auto rank = std::max<int64_t>(tensorRank, 2);
  Name shape = node.emit("Shape", {value});
  if (byChannel) {
    Name lead = node.emit("Slice", {shape, node.constant({0}), node.constant({2})});
    shape = rank == 2 ? lead
                      : node.emit("Concat", {lead, node.constant(std::vector<int64_t>(rank - 2, 1))}, {{{"axis", 0}}});
  }
  return node.emit("Dropout", {node.filled(node.resultMeta().type, shape, 1), node.constant(ScalarType::F32, rate),
                               node.constant(ScalarType::Bool, 1)});
}

void dropChannels(NodeTranslation &node) {
  const double rate = node.number("p", 0.5);
  Name value = node.tensor("input");
  if (node.boolean("train", false) && rate != 0)
    value = node.emit("Mul", {value, scaledOnes(node, value, node.tensorRank("input"), rate, /*byChannel=*/true)});
  node.finish(value);
}

/// What is dropped becomes the least that selu gives, and all is scaled and shifted so that mean and deviation stay.
template <bool ByChannel> void dropToLeast(NodeTranslation &node) {
  constexpr double kLeast = 1.7580993408473766; // of selu: its scale times its alpha
  const double rate = node.number("p", 0.5);
  ScalarType type = node.resultMeta().type;
  const char *argument = node.has("input") ? "input" : "self"; // the latter where it writes in place
  Name value = node.tensor(argument);
  auto number = [&](double of) { return node.constant(type, of); };
  if (!node.boolean("train", false) || rate == 0)
    return node.finish(value);
  if (rate == 1)
    return node.finish(node.emit("Mul", {value, number(0)}));
  const double scale = 1 / std::sqrt((kLeast * kLeast * rate + 1) * (1 - rate));
  Name kept = node.emit("Sign", {scaledOnes(node, value, node.tensorRank(argument), rate, ByChannel)}); // 0 or 1
  Name shift = node.emit("Mul", {node.emit("Sub", {kept, number(1 - rate)}), number(kLeast * scale)});
  node.finish(node.emit("Add", {node.emit("Mul", {value, node.emit("Mul", {kept, number(scale)})}), shift}));
}

/// Below 0 a slope that is drawn for each element, or when the model is not trained the middle one.
void randomSlope(NodeTranslation &node) {
  ScalarType type = node.resultMeta().type;
  const double lower = node.number("lower", 1.0 / 8), upper = node.number("upper", 1.0 / 3);
  Name self = node.operand("self", type), slope = node.constant(type, (lower + upper) / 2);
  if (node.boolean("training", false))
    slope = node.cast(uniform(node, shaped(node, true), lower, upper), type);
  Name isPositive = node.emit("Greater", {self, node.constant(type, 0)});
  Name factor = node.emit("Where", {isPositive, node.constant(type, 1), slope});
  node.finish(node.emit("Mul", {self, factor}));
  node.finish(factor, 1); // what the functional form calls its noise
}

/// Of each row's classes as many as asked for, by their weights: the largest of weight / e, where each e is drawn from
/// an exponential distribution.
void drawClasses(NodeTranslation &node) {
  const int64_t rank = node.tensorRank("self"), count = node.integer("num_samples");
  Name weights = node.operand("self", ScalarType::F32), like = weights;
  const bool replaces = node.boolean("replacement", false);
  if (count < 1 || count > kMostChoices || rank < 1) {
    if (!node.failed())
      node.error() << "draws " << count << " classes, expected at least one, of rows of weights";
    return;
  }
  if (replaces) { // (…, draws, classes)
    weights = node.emit("Unsqueeze", {weights, node.constant({-2})});
    std::vector<int64_t> shape(rank + 1, 1);
    shape[rank - 1] = count;
    like = node.emit("Expand", {weights, node.constant(shape)});
  }
  like = node.filled(ScalarType::F32, node.emit("Shape", {like}), 0);
  Name open = node.emit("Sub", {node.constant(ScalarType::F32, 1), uniform(node, like)});
  // No 0: a weight of 0 over it would be no number.
  Name drawn = node.emit("Max", {node.emit("Neg", {node.emit("Log", {open})}), node.constant(ScalarType::F32, 1e-30)});
  Name chances = node.emit("Div", {weights, drawn});
  node.finish(replaces ? node.emit("ArgMax", {chances}, {{{"axis", -1}, {"keepdims", 0}}})
                       : node.emitAll("TopK", {chances, node.constant({count})}, {{{"axis", -1}}}, 2)[1]);
}
} // namespace

void hyc::torchexport::addRandom(TranslationTable &table) {
  table["aten.rand.default"] = drawUniform<false>;
  table["aten.rand_like.default"] = drawUniform<true>;
  table["aten.randn.default"] = drawNormal<false>;
  table["aten.randn_like.default"] = drawNormal<true>;
  for (const char *overload : {"default", "low"})
    table[std::string("aten.randint.") + overload] = drawIntegers<false>;
  for (const char *overload : {"default", "low_dtype"})
    table[std::string("aten.randint_like.") + overload] = drawIntegers<true>;
  table["aten.randperm.default"] = drawOrder;
  table["aten.bernoulli.default"] = drawTruth<false>;
  table["aten.bernoulli.p"] = drawTruth<true>;
  for (const char *overload : {"Tensor_Tensor", "Tensor_float", "float_Tensor", "float_float"})
    table[std::string("aten.normal.") + overload] = drawAround;
  table["aten.normal_functional.default"] = giveDrawn<normalAround>;
  table["aten.uniform.default"] = giveDrawn<uniformWithin>;
  table["aten.exponential.default"] = giveDrawn<exponential>;
  table["aten.normal_.default"] = fillDrawn<normalAround>;
  table["aten.bernoulli_.float"] = fillDrawn<truthOfAll>;
  table["aten.feature_dropout.default"] = dropChannels;
  table["aten.alpha_dropout.default"] = dropToLeast<false>;
  table["aten.feature_alpha_dropout.default"] = dropToLeast<true>;
  table["aten.rrelu.default"] = randomSlope;
  table["aten.rrelu_with_noise.default"] = randomSlope;
  table["aten.rrelu_with_noise_functional.default"] = randomSlope;
  table["aten.multinomial.default"] = drawClasses;
}
