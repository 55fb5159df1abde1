// Numbers that the model itself draws. They are made of what dropout draws, so that they have its keys: the same
// numbers on any mesh, in any order, whenever they are drawn again (docs/dropout.md). The surprise: a uniform number is
// 24 elements dropped at rate 1/2, its bits; where a model is evaluated, and nothing is dropped, it is therefore its
// mean.
#include "Expansion.h"

#include <cmath>

using namespace hyc;
using namespace hyc::onnx;
using namespace mlir;
using llvm::ArrayRef;

namespace {
constexpr int64_t kBits = 24; // as many as f32 has

/// k · 2^-24, 0 ≤ k < 2^24, f32.
Binding drawUniform(Expansion &e, NodeImport &node, ArrayRef<int64_t> shape) {
  Importer &importer = node.importer();
  Builder &builder = importer.getBuilder();
  llvm::SmallVector<int64_t> bits(shape);
  bits.push_back(kBits);
  if (!countElements(bits)) {
    e.fail("draws more numbers than 63 bits can count the bits of");
    return {};
  }
  Binding dropped = e.emit([&] {
    Binding ones = importer.splatLike(RankedTensorType::get(bits, builder.getF32Type()), 1);
    Value x = importer.materialise(ones);
    return importer.emit<DropoutOp>(x.getType(), x, Value(), builder.getF64FloatAttr(0.5));
  });
  // What is kept has been doubled.
  Binding weights = e.reals({kBits}, [](int64_t bit) { return std::ldexp(1.0, static_cast<int>(-2 - bit)); });
  return e.reduce("ReduceSum", e.mul(dropped, weights), {static_cast<int64_t>(shape.size())}, false);
}

/// Two uniform numbers as one normal one (Box and Muller 1958); of two means it is 0.
Binding drawNormal(Expansion &e, NodeImport &node, ArrayRef<int64_t> shape) {
  Binding first = drawUniform(e, node, shape), second = drawUniform(e, node, shape);
  Binding open = e.sub(e.number(first, 1), first); // not 0
  Binding radius = e("Sqrt", {e.mul(e("Log", {open}), e.number(first, -2))});
  return e.mul(radius, e("Sin", {e.mul(second, e.number(second, 2 * M_PI))}));
}

/// The type that `dtype` names; otherwise `like`'s, or f32.
Type drawnType(NodeImport &node, Type like) {
  MLIRContext *context = node.importer().getContext();
  if (!node.hasAttribute("dtype"))
    return like ? like : node.importer().getBuilder().getF32Type();
  auto number = static_cast<int32_t>(node.getInt("dtype", 1));
  Type type = OnnxFile::getElementType(context, number);
  if (!type)
    node.error() << "draws numbers of " << OnnxFile::describeDataType(number);
  return type;
}

/// `Like`: in the shape of the input.
template <bool Normal, bool Like> LogicalResult importRandom(NodeImport &node) {
  Expansion e(node);
  llvm::SmallVector<int64_t> shape;
  if (Like) {
    llvm::append_range(shape, node.shapeOf(0));
  } else {
    std::optional<llvm::SmallVector<int64_t>> given = node.getInts("shape");
    if (!given || !countElements(*given))
      return node.error() << "has no attribute 'shape', or one of more elements than 63 bits can count";
    shape = *given;
  }
  Type type = drawnType(node, Like ? node.input(0).type.getElementType() : Type());
  if (!type)
    return failure();
  double offset = node.getFloat(Normal ? "mean" : "low", 0);
  double scale = Normal ? node.getFloat("scale", 1) : node.getFloat("high", 1) - offset;
  Binding drawn = Normal ? drawNormal(e, node, shape) : drawUniform(e, node, shape);
  if (scale != 1)
    drawn = e.mul(drawn, e.number(drawn, scale));
  if (offset != 0)
    drawn = e.add(drawn, e.number(drawn, offset));
  return e.finish(e.cast(drawn, type));
}

/// 1 with the probability that the input says, else 0.
LogicalResult importBernoulli(NodeImport &node) {
  Expansion e(node);
  Type type = drawnType(node, node.input(0).type.getElementType());
  if (!type)
    return failure();
  Binding probability = e.cast(node.input(0), node.importer().getBuilder().getF32Type());
  return e.finish(e.cast(e("Less", {drawUniform(e, node, node.shapeOf(0)), probability}), type));
}
} // namespace

void hyc::onnx::addRandomOperators(OperatorTable &table) {
  table["RandomUniform"] = {importRandom<false, false>, {}};
  table["RandomUniformLike"] = {importRandom<false, true>, {tensor("input")}};
  table["RandomNormal"] = {importRandom<true, false>, {}};
  table["RandomNormalLike"] = {importRandom<true, true>, {tensor("input")}};
  table["Bernoulli"] = {importBernoulli, {tensor("input").real()}};
}
