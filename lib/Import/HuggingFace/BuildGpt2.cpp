// The graph of GPT2LMHeadModel (transformers, modeling_gpt2), after Radford et al. 2019: pre-norm blocks, learned
// positions, Conv1D weights as (in, out).
#include "GraphBuilder.h"
#include "hyc/Import/HuggingFace/Gpt2.h"

#include <cmath>

using namespace mlir;
using namespace hyc;

namespace {

class Gpt2Builder : GraphBuilder {
public:
  Gpt2Builder(ModuleOp module, const Gpt2Config &config, int64_t batch, int64_t sequence)
      : GraphBuilder(module), config(config), batch(batch), sequence(sequence) {}

  void build();

private:
  Value layerNorm(const std::string &path, Value x);
  Value linear(const std::string &path, StringRef spec, Value x, ArrayRef<int64_t> weight, ArrayRef<int64_t> logical,
               ArrayRef<int64_t> bias, double stddev, ArrayRef<int64_t> result);
  Value attention(const std::string &path, Value x, int64_t layer);
  Value mlp(const std::string &path, Value x);
  Value activate(const std::string &path, Value x);
  Value dropout(const std::string &path, Value x, double rate);
  Value embed(Value ids);

  const Gpt2Config &config;
  int64_t batch, sequence;
};

Value Gpt2Builder::layerNorm(const std::string &path, Value x) {
  Value scale = param(path + ".weight", {config.width}, fill(1)), bias = param(path + ".bias", {config.width}, fill(0));
  return make<LayerNormOp>(path, x, scale, bias, params.getF64FloatAttr(config.epsilon)).getY();
}

Value Gpt2Builder::linear(const std::string &path, StringRef spec, Value x, ArrayRef<int64_t> weight,
                          ArrayRef<int64_t> logical, ArrayRef<int64_t> bias, double stddev, ArrayRef<int64_t> result) {
  bool factored = weight.size() != logical.size();
  int64_t outputs = logical[1];
  Value w = param(path + ".weight", weight, normal(stddev), factored ? logical : ArrayRef<int64_t>());
  Value b = param(path + ".bias", bias, fill(0), bias.size() > 1 ? ArrayRef<int64_t>(outputs) : ArrayRef<int64_t>());
  return addBias(path, make<EinsumOp>(path, type(result), spec, x, w), b);
}

/// transformers scales the weights of the projections into the residual stream by 1/sqrt(2 · layers).
static double residualStddev(const Gpt2Config &config) {
  return config.initializerRange / std::sqrt(2.0 * static_cast<double>(config.layers));
}

Value Gpt2Builder::attention(const std::string &path, Value x, int64_t layer) {
  int64_t width = config.width, heads = config.heads, size = width / heads;
  Value qkv = linear(path + ".c_attn", "bsk,knhd->bsnhd", x, {width, 3, heads, size}, {width, 3 * width},
                     {3, heads, size}, config.initializerRange, {batch, sequence, 3, heads, size});
  RankedTensorType part = type({batch, sequence, 1, heads, size});
  auto split = make<SplitOp>(path + ".c_attn", TypeRange{part, part, part}, qkv, params.getI64IntegerAttr(2));
  Value operands[3];
  for (auto [operand, result] : llvm::zip_equal(operands, split.getParts()))
    operand = make<ReshapeOp>(path, type({batch, sequence, heads, size}), result);
  double scale = config.scaleByHeadSize ? 1 / std::sqrt(static_cast<double>(size)) : 1;
  if (config.scaleByInverseLayer)
    scale /= static_cast<double>(layer + 1);
  Value mixed = make<AttentionOp>(
                    path, operands[0], operands[1], operands[2], params.getF64FloatAttr(scale), params.getUnitAttr(),
                    config.attentionDropout > 0 ? params.getF64FloatAttr(config.attentionDropout) : FloatAttr())
                    .getResult();
  Value result = linear(path + ".c_proj", "bshd,hdn->bsn", mixed, {heads, size, width}, {width, width}, {width},
                        residualStddev(config), {batch, sequence, width});
  return dropout(path + ".resid_dropout", result, config.residualDropout);
}

Value Gpt2Builder::activate(const std::string &path, Value x) {
  if (config.activation == "relu")
    return make<ReluOp>(path, x);
  return make<GeluOp>(path, x.getType(), x, config.activation == "gelu" ? UnitAttr() : params.getUnitAttr());
}

Value Gpt2Builder::mlp(const std::string &path, Value x) {
  int64_t width = config.width, inner = config.innerWidth();
  Value hidden = linear(path + ".c_fc", "bsk,kn->bsn", x, {width, inner}, {width, inner}, {inner},
                        config.initializerRange, {batch, sequence, inner});
  Value result = linear(path + ".c_proj", "bsk,kn->bsn", activate(path + ".act", hidden), {inner, width},
                        {inner, width}, {width}, residualStddev(config), {batch, sequence, width});
  return dropout(path + ".dropout", result, config.residualDropout);
}

/// As transformers' modules of that name do it in training.
Value Gpt2Builder::dropout(const std::string &path, Value x, double rate) {
  return rate > 0 ? make<DropoutOp>(path, x.getType(), x, Value(), params.getF64FloatAttr(rate)) : x;
}

/// Token and position embeddings.
Value Gpt2Builder::embed(Value tokens) {
  RankedTensorType result = type({batch, sequence, config.width});
  Value table = param("transformer.wte.weight", {config.vocabulary, config.width}, normal(config.initializerRange));
  Value words = make<EmbeddingOp>("transformer.wte", result, tokens, table, Value(), IntegerAttr());
  Value positions = param("transformer.wpe.weight", {config.positions, config.width}, normal(config.initializerRange));
  if (sequence < config.positions)
    positions = make<SliceOp>("transformer.wpe", type({sequence, config.width}), positions, ArrayRef<int64_t>{0, 0},
                              ArrayRef<int64_t>{1, 1});
  return dropout("transformer.drop", addBias("transformer", words, positions), config.embeddingDropout);
}

void Gpt2Builder::build() {
  Value x = embed(beginTrain({batch, sequence}, {batch, sequence, config.vocabulary}));
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    std::string path = "transformer.h." + std::to_string(layer);
    x = make<AddOp>(path, attention(path + ".attn", layerNorm(path + ".ln_1", x), layer), x);
    x = make<AddOp>(path, x, mlp(path + ".mlp", layerNorm(path + ".ln_2", x)));
  }
  x = layerNorm("transformer.ln_f", x);
  Value head = config.tiedEmbeddings
                   ? read("transformer.wte.weight")
                   : param("lm_head.weight", {config.vocabulary, config.width}, normal(config.initializerRange));
  endTrain(make<EinsumOp>("lm_head", type({batch, sequence, config.vocabulary}), "bsk,vk->bsv", x, head));
}

} // namespace

OwningOpRef<ModuleOp> hyc::buildGpt2(MLIRContext &context, const Gpt2Config &config, int64_t batch, int64_t sequence) {
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  Gpt2Builder(*module, config, batch, sequence).build();
  return module;
}
