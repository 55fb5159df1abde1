// config.json of a GPT-2: keys, defaults and ranges.
#include "hyc/Import/HuggingFace/Gpt2.h"
#include "hyc/Support/LocatedJson.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Location.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/STLExtras.h"

#include <cmath>

using namespace mlir;
using namespace hyc;

static constexpr int64_t kMaxLayers = 100000, kMaxWidth = int64_t(1) << 20, kMaxPositions = int64_t(1) << 31;

namespace {
class ConfigReader {
public:
  ConfigReader(MLIRContext &context, StringRef name) : context(context), name(name) {}

  InFlightDiagnostic error(TextPosition at = {0, 0}) {
    return emitError(FileLineColLoc::get(&context, name, at.line, at.column));
  }
  LogicalResult parse(StringRef text);
  LogicalResult readSize(StringRef key, int64_t &value, int64_t least, int64_t most);
  LogicalResult readNumber(StringRef key, double &value, bool mayBeZero);
  LogicalResult readShare(StringRef key, double &value);
  LogicalResult readBool(StringRef key, bool &value);
  LogicalResult readString(StringRef key, std::string &value, ArrayRef<StringRef> choices);

private:
  /// Null where the key is missing or null, which both stand for the default.
  const JsonValue *find(StringRef key) const {
    const JsonValue *value = root.get(key);
    return value && !value->isNull() ? value : nullptr;
  }
  LogicalResult wrong(StringRef key, const JsonValue &found, const Twine &expected) {
    return error(found.getPosition()) << "\"" << key << "\" is " << found.describe() << ", expected " << expected;
  }

  MLIRContext &context;
  StringRef name;
  JsonValue root;
};
} // namespace

LogicalResult ConfigReader::parse(StringRef text) {
  llvm::Expected<JsonValue> value = parseJson(text, name);
  if (!value) {
    // FILE:LINE:COLUMN: what
    std::string message = llvm::toString(value.takeError());
    StringRef rest = message;
    TextPosition at;
    bool located = rest.consume_front(name) && rest.consume_front(":") && !rest.consumeInteger(10, at.line) &&
                   rest.consume_front(":") && !rest.consumeInteger(10, at.column) && rest.consume_front(": ");
    return located ? error(at) << rest : error() << message;
  }
  root = std::move(*value);
  if (!root.getObject())
    return error(root.getPosition()) << "is no JSON object, expected the config of a model";
  return success();
}

LogicalResult ConfigReader::readSize(StringRef key, int64_t &value, int64_t least, int64_t most) {
  const JsonValue *found = find(key);
  if (!found)
    return success();
  std::optional<int64_t> number = found->getInteger();
  if (!number || *number < least || *number > most)
    return wrong(key, *found, "an integer from " + Twine(least) + " to " + Twine(most));
  value = *number;
  return success();
}

LogicalResult ConfigReader::readNumber(StringRef key, double &value, bool mayBeZero) {
  const JsonValue *found = find(key);
  if (!found)
    return success();
  std::optional<double> number = found->getNumber();
  if (!number || !std::isfinite(*number) || *number < 0 || (*number == 0 && !mayBeZero))
    return wrong(key, *found, mayBeZero ? "a number that is at least 0" : "a number above 0");
  value = *number;
  return success();
}

LogicalResult ConfigReader::readShare(StringRef key, double &value) {
  const JsonValue *found = find(key);
  if (!found)
    return success();
  std::optional<double> number = found->getNumber();
  if (!number || !(*number >= 0 && *number < 1))
    return wrong(key, *found, "a share that is at least 0 and less than 1");
  value = *number;
  return success();
}

LogicalResult ConfigReader::readBool(StringRef key, bool &value) {
  const JsonValue *found = find(key);
  if (!found)
    return success();
  std::optional<bool> flag = found->getBool();
  if (!flag)
    return wrong(key, *found, "true or false");
  value = *flag;
  return success();
}

LogicalResult ConfigReader::readString(StringRef key, std::string &value, ArrayRef<StringRef> choices) {
  const JsonValue *found = find(key);
  if (!found)
    return success();
  std::optional<StringRef> text = found->getString();
  if (!text || !llvm::is_contained(choices, *text)) {
    std::string expected;
    llvm::raw_string_ostream os(expected);
    llvm::interleave(
        choices, os, [&](StringRef choice) { os << '"' << choice << '"'; }, " or ");
    return wrong(key, *found, expected);
  }
  value = text->str();
  return success();
}

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
