// Blocks of towers.
#include "TowerBuilder.h"

#include <cmath>

using namespace mlir;
using namespace hyc;

static constexpr StringRef kActivations[] = {"gelu", "gelu_new", "quick_gelu", "relu", "silu"};

ArrayRef<StringRef> hyc::towerActivations() { return kActivations; }

Value TowerBuilder::norm(const std::string &path, Value x, double epsilon) {
  const int64_t width = shapeOf(x).back();
  Value scale = param(path + ".weight", {width}, fill(1)), bias = param(path + ".bias", {width}, fill(0));
  return make<LayerNormOp>(path, x, scale, bias, params.getF64FloatAttr(epsilon)).getY();
}

Value TowerBuilder::dropout(const std::string &path, Value x, double rate) {
  return rate == 0 ? x : make<DropoutOp>(path, x.getType(), x, Value(), params.getF64FloatAttr(rate));
}

Value TowerBuilder::linear(const std::string &path, Value x, ArrayRef<int64_t> inputs, ArrayRef<int64_t> outputs,
                           bool bias, double stddev) {
  const std::string kept = std::string("bs").substr(0, shapeOf(x).size() - inputs.size()),
                    in = std::string("kl").substr(0, inputs.size()), out = std::string("no").substr(0, outputs.size());
  SmallVector<int64_t> shape(outputs), logical;
  llvm::append_range(shape, inputs);
  if (shape.size() > 2)
    logical = {llvm::product_of(outputs), llvm::product_of(inputs)};
  Value weight = param(path + ".weight", shape, normal(stddev), logical);
  Value y = einsum(path, kept + in + "," + out + in + "->" + kept + out, x, weight);
  if (!bias)
    return y;
  return addBias(path, y,
                 param(path + ".bias", outputs, fill(0),
                       outputs.size() > 1 ? ArrayRef<int64_t>(llvm::product_of(outputs)) : ArrayRef<int64_t>()));
}

Value TowerBuilder::activate(const std::string &path, Value x, StringRef kind) {
  if (kind == "relu")
    return make<ReluOp>(path, x);
  if (kind == "silu" || kind == "quick_gelu")
    return make<MulOp>(path, x, make<SigmoidOp>(path, scaled(path, x, kind == "silu" ? 1 : 1.702)));
  return make<GeluOp>(path, x.getType(), x, kind == "gelu" ? UnitAttr() : params.getUnitAttr());
}

Value TowerBuilder::attention(const std::string &path, const Tower &tower, Value x, Value rows, bool causal) {
  const int64_t heads = tower.heads, size = tower.width / heads;
  const double scale = 1 / std::sqrt(static_cast<double>(size));
  auto project = [&](const char *name, Value from, bool bias) {
    return linear(path + name, from, {tower.width}, {heads, size}, bias, tower.intoStddev);
  };
  Value q = project(".q_proj", x, /*bias=*/true);
  if (tower.scalesQueries)
    q = scaled(path, q, scale);
  Value k = project(".k_proj", rows, tower.keyBias), v = project(".v_proj", rows, /*bias=*/true);
  FloatAttr dropout = tower.attentionDropout > 0 ? params.getF64FloatAttr(tower.attentionDropout) : FloatAttr();
  Value mixed = make<AttentionOp>(path, q, k, v, params.getF64FloatAttr(tower.scalesQueries ? 1 : scale),
                                  causal ? params.getUnitAttr() : UnitAttr(), dropout)
                    .getResult();
  return linear(path + ".out_proj", mixed, {heads, size}, {tower.width}, /*bias=*/true, tower.outStddev);
}

Value TowerBuilder::addTo(const std::string &around, const Tower &tower, Value x, const std::string &normPath,
                          llvm::function_ref<Value(Value)> compute) {
  Value own = compute(norm(normPath, x, tower.epsilon));
  return make<AddOp>(around, x, dropout(around, own, tower.dropout));
}

Value TowerBuilder::mlp(const std::string &path, const Tower &tower, Value x) {
  Value hidden = linear(path + ".fc1", x, {tower.width}, {tower.inner}, /*bias=*/true, tower.upStddev);
  hidden = dropout(path, activate(path + ".activation_fn", hidden, tower.activation), tower.innerDropout);
  return linear(path + ".fc2", hidden, {tower.inner}, {tower.width}, /*bias=*/true, tower.downStddev);
}
