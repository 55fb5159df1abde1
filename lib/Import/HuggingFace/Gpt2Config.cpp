// config.json of a GPT-2: keys, defaults and ranges.
#include "ConfigReader.h"
#include "hyc/Import/HuggingFace/Gpt2.h"

using namespace mlir;
using namespace hyc;

FailureOr<Gpt2Config> hyc::readGpt2Config(MLIRContext &context, StringRef text, StringRef name) {
  ConfigReader reader(context, name);
  Gpt2Config config;
  std::string modelType;
  bool crossAttention = false;
  config.attentionDropout = config.embeddingDropout = config.residualDropout = 0.1;
  if (failed(reader.parse(text)) || failed(reader.readString("model_type", modelType, {"gpt2"})))
    return failure();
  if (modelType.empty())
    return reader.error() << "has no \"model_type\", expected \"gpt2\"", failure();
  if (failed(reader.readSize("n_layer", config.layers, 1, kMaxLayers)) ||
      failed(reader.readSize("n_head", config.heads, 1, kMaxWidth)) ||
      failed(reader.readSize("n_embd", config.width, 1, kMaxWidth)) ||
      failed(reader.readSize("n_inner", config.inner, 1, 4 * kMaxWidth)) ||
      failed(reader.readSize("n_positions", config.positions, 1, kMaxPositions)) ||
      failed(reader.readSize("vocab_size", config.vocabulary, 1, kMaxPositions)) ||
      failed(reader.readString("activation_function", config.activation,
                               {"gelu_new", "gelu", "gelu_pytorch_tanh", "relu"})) ||
      failed(reader.readNumber("layer_norm_epsilon", config.epsilon, /*mayBeZero=*/false)) ||
      failed(reader.readNumber("initializer_range", config.initializerRange, /*mayBeZero=*/true)) ||
      failed(reader.readBool("tie_word_embeddings", config.tiedEmbeddings)) ||
      failed(reader.readBool("scale_attn_weights", config.scaleByHeadSize)) ||
      failed(reader.readBool("scale_attn_by_inverse_layer_idx", config.scaleByInverseLayer)) ||
      failed(reader.readBool("add_cross_attention", crossAttention)) ||
      failed(reader.readShare("attn_pdrop", config.attentionDropout)) ||
      failed(reader.readShare("embd_pdrop", config.embeddingDropout)) ||
      failed(reader.readShare("resid_pdrop", config.residualDropout)))
    return failure();
  if (config.width % config.heads != 0)
    return reader.error() << "\"n_embd\" is " << config.width << ", expected a multiple of \"n_head\", which is "
                          << config.heads,
           failure();
  if (crossAttention)
    return reader.error() << "\"add_cross_attention\" is true, expected false: a decoder alone", failure();
  return config;
}
