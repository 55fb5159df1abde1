// Numbers that the model itself draws. torch's generator is not followed, only what it draws from: hyc's numbers come
// by counter, as dropout's do.
#include "Translator.h"

#include <algorithm>

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

/// Whole channels, or all of a sample's elements at one place, are kept or dropped together.
void dropChannels(NodeTranslation &node) {
  const double rate = node.number("p", 0.5);
  Name value = node.tensor("input");
  if (node.boolean("train", false) && rate != 0) {
    const auto rank = std::max<int64_t>(node.tensorRank("input"), 2);
    Name lead = node.emit("Slice", {node.emit("Shape", {value}), node.constant({0}), node.constant({2})});
    Name shape = node.emit("Concat", {lead, node.constant(std::vector<int64_t>(rank - 2, 1))}, {{{"axis", 0}}});
    ScalarType type = node.resultMeta().type;
    Name kept = node.emit("Dropout", {node.filled(type, rank > 2 ? shape : lead, 1),
                                      node.constant(ScalarType::F32, rate), node.constant(ScalarType::Bool, 1)});
    value = node.emit("Mul", {value, kept});
  }
  node.finish(value);
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
}
