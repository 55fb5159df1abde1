// The graph of GPT2LMHeadModel (transformers, modeling_gpt2), after Radford et al. 2019: pre-norm blocks, learned
// positions, Conv1D weights as (in, out).
#include "dialects/Hyc/HycDialect.h"
#include "hyc/Import/HuggingFace/Gpt2.h"
#include "hyc/Support/OpIds.h"

#include "mlir/IR/Builders.h"

#include <cmath>

using namespace mlir;
using namespace hyc;

namespace {

/// Builds ops at the end of @train; `path` is the module that an op belongs to, which gives it its id.
class Gpt2Builder {
public:
  Gpt2Builder(ModuleOp module, const Gpt2Config &config, int64_t batch, int64_t sequence)
      : module(module), config(config), batch(batch), sequence(sequence), params(module.getBodyRegion()),
        ops(module.getContext()), f32(params.getF32Type()) {}

  void build();

private:
  RankedTensorType type(ArrayRef<int64_t> shape) { return RankedTensorType::get(shape, f32); }
  Attribute normal(double stddev);
  Attribute fill(double value) { return FillAttr::get(params.getContext(), params.getF64FloatAttr(value)); }
  /// Declares the parameter `path.name` and reads it. `logical`: its shape for the model, where `shape` factors it.
  Value param(const Twine &name, ArrayRef<int64_t> shape, Attribute init, ArrayRef<int64_t> logical = {});
  Value read(StringRef name);

  /// The op's first result; gives it an id.
  template <typename OpType, typename... Args> OpType make(StringRef path, Args &&...args) {
    auto op = OpType::create(ops, NameLoc::get(params.getStringAttr(path)), std::forward<Args>(args)...);
    ids.assign(op, path);
    return op;
  }
  Value addBias(StringRef path, Value x, Value bias);
  Value layerNorm(const std::string &path, Value x);
  Value linear(const std::string &path, StringRef spec, Value x, ArrayRef<int64_t> weight, ArrayRef<int64_t> logical,
               ArrayRef<int64_t> bias, double stddev, ArrayRef<int64_t> result);
  Value attention(const std::string &path, Value x, int64_t layer);
  Value mlp(const std::string &path, Value x);
  Value activate(const std::string &path, Value x);
  Value dropout(const std::string &path, Value x, double rate);
  Value embed(Value ids);

  ModuleOp module;
  const Gpt2Config &config;
  int64_t batch, sequence;
  OpBuilder params, ops;
  Type f32;
  OpIds ids;
};

Attribute Gpt2Builder::normal(double stddev) {
  return NormalAttr::get(params.getContext(), params.getF64FloatAttr(0.0), params.getF64FloatAttr(stddev));
}

Value Gpt2Builder::param(const Twine &name, ArrayRef<int64_t> shape, Attribute init, ArrayRef<int64_t> logical) {
  std::string text = name.str();
  Location loc = NameLoc::get(params.getStringAttr(text));
  ParamOp::create(params, loc, text, type(shape), init,
                  logical.empty() ? DenseI64ArrayAttr() : params.getDenseI64ArrayAttr(logical), /*frozen=*/false,
                  TypeAttr());
  return read(text);
}

Value Gpt2Builder::read(StringRef name) {
  auto param = module.lookupSymbol<ParamOp>(name);
  return ReadOp::create(ops, param.getLoc(), param.getTensorType(), name);
}

/// The bias runs along the last dimensions.
Value Gpt2Builder::addBias(StringRef path, Value x, Value bias) {
  auto xType = cast<RankedTensorType>(x.getType());
  int64_t count = cast<RankedTensorType>(bias.getType()).getRank();
  auto dims = llvm::to_vector(llvm::seq<int64_t>(xType.getRank() - count, xType.getRank()));
  Value wide = make<BroadcastOp>(path, xType, bias, dims);
  return make<AddOp>(path, x, wide);
}

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
  Value words = make<EmbeddingOp>("transformer.wte", result, tokens, table, Value());
  Value positions = param("transformer.wpe.weight", {config.positions, config.width}, normal(config.initializerRange));
  if (sequence < config.positions)
    positions = make<SliceOp>("transformer.wpe", type({sequence, config.width}), positions, ArrayRef<int64_t>{0, 0},
                              ArrayRef<int64_t>{1, 1});
  return dropout("transformer.drop", addBias("transformer", words, positions), config.embeddingDropout);
}

void Gpt2Builder::build() {
  auto tokens = RankedTensorType::get({batch, sequence}, params.getI64Type());
  RankedTensorType logits = type({batch, sequence, config.vocabulary});
  auto func = FuncOp::create(params, module.getLoc(), "train", params.getFunctionType(tokens, logits));
  func.setArgAttr(0, "hyc.input", params.getStringAttr("input_ids"));
  func.setResultAttr(0, "hyc.output", params.getStringAttr("logits"));
  params.setInsertionPoint(func); // parameters stand before what reads them
  Block &block = func.getBody().empty() ? *func.addEntryBlock() : func.getBody().front();
  ops.setInsertionPointToEnd(&block);

  Value x = embed(block.getArgument(0));
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    std::string path = "transformer.h." + std::to_string(layer);
    x = make<AddOp>(path, attention(path + ".attn", layerNorm(path + ".ln_1", x), layer), x);
    x = make<AddOp>(path, x, mlp(path + ".mlp", layerNorm(path + ".ln_2", x)));
  }
  x = layerNorm("transformer.ln_f", x);
  Value head = config.tiedEmbeddings
                   ? read("transformer.wte.weight")
                   : param("lm_head.weight", {config.vocabulary, config.width}, normal(config.initializerRange));
  Value result = make<EinsumOp>("lm_head", logits, "bsk,vk->bsv", x, head);
  ReturnOp::create(ops, module.getLoc(), result);
}

} // namespace

OwningOpRef<ModuleOp> hyc::buildGpt2(MLIRContext &context, const Gpt2Config &config, int64_t batch, int64_t sequence) {
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  Gpt2Builder(*module, config, batch, sequence).build();
  return module;
}
