// The graph of LlamaForCausalLM (transformers), after Touvron et al. 2023, and of the families that differ from it by a
// row: pre-norm blocks by root mean square, rotary positions, grouped key heads, gated MLP. Linear weights are (out,
// in).
#include "GraphBuilder.h"
#include "hyc/Import/HuggingFace/Llama.h"

#include <cmath>

using namespace mlir;
using namespace hyc;

namespace {

class LlamaBuilder : GraphBuilder {
public:
  LlamaBuilder(ModuleOp module, const LlamaConfig &config, int64_t batch, int64_t sequence)
      : GraphBuilder(module), config(config), batch(batch), sequence(sequence) {}

  void build();

private:
  Value norm(const std::string &path, Value x) { return norm(path, x, config.width); }
  Value norm(const std::string &path, Value x, int64_t width);
  Value scaled(const std::string &path, Value x, double factor);
  Value linear(const std::string &path, Value x, int64_t inputs, int64_t outputs, bool bias);
  Value toHeads(const std::string &path, Value x, int64_t heads);
  Value attention(const std::string &path, Value x);
  Value activate(const std::string &path, Value x);
  Value mlp(const std::string &path, Value x);
  void makeTables();
  void noteTensorPlan();

  const LlamaConfig &config;
  int64_t batch, sequence;
  Value cos, sin;
};

Value LlamaBuilder::norm(const std::string &path, Value x, int64_t width) {
  Value scale = param(path + ".weight", {width}, fill(1));
  return make<RmsNormOp>(path, x, scale, params.getF64FloatAttr(config.epsilon)).getY();
}

/// As a model multiplies: by a number of f32.
Value LlamaBuilder::scaled(const std::string &path, Value x, double factor) {
  if (factor == 1)
    return x;
  auto number = FloatAttr::get(f32, factor);
  auto values = DenseElementsAttr::get(cast<RankedTensorType>(x.getType()), Attribute(number));
  return make<MulOp>(path, x, ConstantOp::create(ops, ops.getUnknownLoc(), x.getType(), cast<ElementsAttr>(values)));
}

Value LlamaBuilder::linear(const std::string &path, Value x, int64_t inputs, int64_t outputs, bool bias) {
  Value weight = param(path + ".weight", {outputs, inputs}, normal(config.initializerRange));
  Value y = make<EinsumOp>(path, type({batch, sequence, outputs}), "bsk,nk->bsn", x, weight);
  return bias ? addBias(path, y, param(path + ".bias", {outputs}, fill(0))) : y;
}

/// A projection to (batch, sequence, heads, size): heads are a dimension of the weight.
Value LlamaBuilder::toHeads(const std::string &path, Value x, int64_t heads) {
  int64_t size = config.headSize;
  Value weight = param(path + ".weight", {heads, size, config.width}, normal(config.initializerRange),
                       {heads * size, config.width});
  Value y = make<EinsumOp>(path, type({batch, sequence, heads, size}), "bsk,hdk->bshd", x, weight);
  return config.queryBias ? addBias(path, y, param(path + ".bias", {heads, size}, fill(0), {heads * size})) : y;
}

Value LlamaBuilder::attention(const std::string &path, Value x) {
  int64_t size = config.headSize, heads = config.heads;
  Value q = toHeads(path + ".q_proj", x, heads), k = toHeads(path + ".k_proj", x, config.keyHeads);
  Value v = toHeads(path + ".v_proj", x, config.keyHeads);
  if (config.headNorms) {
    q = norm(path + ".q_norm", q, size);
    k = norm(path + ".k_norm", k, size);
  }
  q = make<RopeOp>(path, q.getType(), q, cos, sin, UnitAttr());
  k = make<RopeOp>(path, k.getType(), k, cos, sin, UnitAttr());
  FloatAttr dropout = config.attentionDropout > 0 ? params.getF64FloatAttr(config.attentionDropout) : FloatAttr();
  FloatAttr scale = params.getF64FloatAttr(config.scoreFactor.value_or(1 / std::sqrt(static_cast<double>(size))));
  Value mixed = make<AttentionOp>(path, q, k, v, scale, params.getUnitAttr(), dropout).getResult();
  std::string output = path + ".o_proj";
  Value weight = param(output + ".weight", {config.width, heads, size}, normal(config.initializerRange),
                       {config.width, heads * size});
  Value y = make<EinsumOp>(output, type({batch, sequence, config.width}), "bshd,nhd->bsn", mixed, weight);
  return config.outputBias ? addBias(output, y, param(output + ".bias", {config.width}, fill(0))) : y;
}

Value LlamaBuilder::activate(const std::string &path, Value x) {
  if (config.activation == "silu" || config.activation == "swish")
    return make<MulOp>(path, x, make<SigmoidOp>(path, x));
  if (config.activation == "relu")
    return make<ReluOp>(path, x);
  return make<GeluOp>(path, x.getType(), x, config.activation == "gelu" ? UnitAttr() : params.getUnitAttr());
}

Value LlamaBuilder::mlp(const std::string &path, Value x) {
  Value gate = linear(path + ".gate_proj", x, config.width, config.inner, config.innerBias);
  Value opened = activate(path + ".act_fn", gate);
  Value up = linear(path + ".up_proj", x, config.width, config.inner, config.innerBias);
  return linear(path + ".down_proj", make<MulOp>(path, opened, up), config.inner, config.width, config.innerBias);
}

void LlamaBuilder::makeTables() {
  RopeFrequencies rope = computeFrequencies(config.rope, config.headSize);
  RankedTensorType table = type({sequence, config.headSize / 2});
  // What models compute with is the factor in f32.
  double factor = static_cast<double>(static_cast<float>(rope.factor));
  auto op = make<RotaryTableOp>("", table, table, params.getDenseF32ArrayAttr(rope.frequencies),
                                params.getF64FloatAttr(rope.factor == 1 ? 1 : factor));
  cos = op.getCos();
  sin = op.getSin();
}

/// Names of modules as parameters have them: the base model is `model`.
void LlamaBuilder::noteTensorPlan() {
  SmallVector<Attribute> entries;
  for (const auto &[name, style] : config.tensorPlan)
    entries.push_back(params.getStringAttr("model." + name + "=" + style));
  if (!entries.empty())
    module->setAttr("hyc.tensor_plan", params.getArrayAttr(entries));
}

void LlamaBuilder::build() {
  noteTensorPlan();
  Value tokens = beginTrain({batch, sequence}, {batch, sequence, config.vocabulary});
  const std::string embedding = "model.embed_tokens";
  Value words = param(embedding + ".weight", {config.vocabulary, config.width}, normal(config.initializerRange));
  Value x = make<EmbeddingOp>(embedding, type({batch, sequence, config.width}), tokens, words, Value(),
                              config.paddingRow ? params.getI64IntegerAttr(*config.paddingRow) : IntegerAttr());
  x = scaled("model", x, config.embeddingFactor);
  makeTables();
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    std::string path = "model.layers." + std::to_string(layer);
    auto addTo = [&](Value own, Value part) {
      return make<AddOp>(path, own, scaled(path, part, config.residualFactor));
    };
    x = addTo(x, attention(path + ".self_attn", norm(path + ".input_layernorm", x)));
    x = addTo(x, mlp(path + ".mlp", norm(path + ".post_attention_layernorm", x)));
  }
  x = norm("model.norm", x);
  Value head = config.tiedEmbeddings
                   ? read(embedding + ".weight")
                   : param("lm_head.weight", {config.vocabulary, config.width}, normal(config.initializerRange));
  Value logits = make<EinsumOp>("lm_head", type({batch, sequence, config.vocabulary}), "bsk,vk->bsv", x, head);
  if (config.logitsDivisor != 1) {
    auto divisor = DenseElementsAttr::get(cast<RankedTensorType>(logits.getType()),
                                          Attribute(FloatAttr::get(f32, config.logitsDivisor)));
    Value constant = ConstantOp::create(ops, ops.getUnknownLoc(), logits.getType(), cast<ElementsAttr>(divisor));
    logits = make<DivOp>("lm_head", logits, constant);
  }
  endTrain(logits);
}

} // namespace

OwningOpRef<ModuleOp> hyc::buildLlama(MLIRContext &context, const LlamaConfig &config, int64_t batch,
                                      int64_t sequence) {
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  LlamaBuilder(*module, config, batch, sequence).build();
  return module;
}
