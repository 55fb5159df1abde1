// The file, and what of the model the command line decides.
#include "hyc/Import/HuggingFace/Import.h"

#include "ConfigReader.h"
#include "dialects/Hyc/HycDialect.h"
#include "hyc/Import/Checkpoint/Checkpoint.h"
#include "hyc/Import/HuggingFace/Gpt2.h"
#include "hyc/Import/HuggingFace/Llama.h"
#include "hyc/Support/InputFile.h"
#include "llvm/ADT/FunctionExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace hyc;

static constexpr uint64_t kMaxConfigBytes = uint64_t(16) << 20;
/// Sizes of tensors must stay far from the limits of 64 bits.
static constexpr int64_t kMaxElements = int64_t(1) << 50;

namespace {
/// What the import asks of every architecture.
struct Architecture {
  int64_t positions, vocabulary, width, widest; ///< widest: of all vectors but the logits
  StringRef positionsKey;
  llvm::unique_function<OwningOpRef<ModuleOp>(int64_t batch, int64_t sequence)> build;
};
} // namespace

static LogicalResult checkSizes(Location loc, const Architecture &model, int64_t batch, int64_t sequence) {
  if (sequence > model.positions)
    return emitError(loc) << "dimension seq is " << sequence << ", expected at most \"" << model.positionsKey
                          << "\", which is " << model.positions;
  double widest = static_cast<double>(std::max(model.vocabulary, model.widest));
  double tokens = static_cast<double>(batch) * static_cast<double>(sequence);
  double largest = std::max(tokens * widest, static_cast<double>(model.width) * widest);
  if (largest <= static_cast<double>(kMaxElements))
    return success();
  return emitError(loc) << "has a tensor of more than 2^50 elements: " << batch << " samples of " << sequence
                        << " tokens, width " << model.width << ", vocabulary " << model.vocabulary;
}

static FailureOr<Architecture> readGpt2(MLIRContext &context, StringRef text, StringRef path) {
  FailureOr<Gpt2Config> config = readGpt2Config(context, text, path);
  if (failed(config))
    return failure();
  int64_t widest = std::max(config->innerWidth(), 3 * config->width);
  return Architecture{config->positions,
                      config->vocabulary,
                      config->width,
                      widest,
                      "n_positions",
                      [&context, config = *config](int64_t batch, int64_t sequence) {
                        return buildGpt2(context, config, batch, sequence);
                      }};
}

/// With a window, a query sees only so many keys: all of them in sequences that are no longer.
static FailureOr<Architecture> readLlama(MLIRContext &context, StringRef text, StringRef path) {
  FailureOr<LlamaConfig> config = readLlamaConfig(context, text, path);
  if (failed(config))
    return failure();
  bool slides = config->window > 0 && config->window < config->positions;
  int64_t widest = std::max(config->inner, config->heads * config->headSize);
  return Architecture{slides ? config->window : config->positions,
                      config->vocabulary,
                      config->width,
                      widest,
                      slides ? "sliding_window" : "max_position_embeddings",
                      [&context, config = *config](int64_t batch, int64_t sequence) {
                        return buildLlama(context, config, batch, sequence);
                      }};
}

static FailureOr<Architecture> readArchitecture(MLIRContext &context, StringRef text, StringRef path) {
  ConfigReader reader(context, path);
  std::string type;
  SmallVector<StringRef> types{"gpt2"};
  llvm::append_range(types, decoderTypes());
  if (failed(reader.parse(text)) || failed(reader.readString("model_type", type, types)))
    return failure();
  if (type.empty())
    return reader.error() << "has no \"model_type\", expected \"" << llvm::join(types, "\" or \"") << "\"", failure();
  if (reader.has("quantization_config"))
    return reader.wrong("quantization_config", "none: hyc starts from weights that are not quantized"), failure();
  return (type == "gpt2" ? readGpt2 : readLlama)(context, text, path);
}

/// Older files of GPT-2 keep each layer's causal mask and the number that masks, those of Llama its rotary frequencies.
static bool isComputed(StringRef name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") || name.ends_with(".rotary_emb.inv_freq");
}

static LogicalResult startFromFolder(ModuleOp module, Location loc, StringRef folder,
                                     const HuggingFaceOptions &options) {
  if (options.weights == FolderWeights::Initialise || !Checkpoint::isIn(folder))
    return success();
  llvm::Expected<Checkpoint> checkpoint = Checkpoint::open(folder);
  if (!checkpoint)
    return emitError(loc) << "its weights cannot be read: " << llvm::toString(checkpoint.takeError());
  StartOptions start;
  start.relative = true;
  start.mayMiss = options.weights == FolderWeights::InitialiseMissing;
  start.ignored = isComputed;
  return startFromCheckpoint(module, *checkpoint, start);
}

FailureOr<OwningOpRef<ModuleOp>> hyc::importHuggingFace(MLIRContext &context, StringRef path,
                                                        const HuggingFaceOptions &options) {
  Location loc = FileLineColLoc::get(&context, path, 0, 0);
  auto buffer = openInputFile(path, kMaxConfigBytes);
  if (!buffer)
    return emitError(loc) << "cannot be read as a config.json: " << llvm::toString(buffer.takeError()), failure();
  FailureOr<Architecture> model = readArchitecture(context, (*buffer)->getBuffer(), path);
  if (failed(model))
    return failure();
  int64_t sequence = options.sequence.value_or(model->positions);
  if (failed(checkSizes(loc, *model, options.batch, sequence)))
    return failure();
  context.loadDialect<HycDialect>();
  OwningOpRef<ModuleOp> module = model->build(options.batch, sequence);
  StringRef folder = llvm::sys::path::parent_path(path);
  if (folder.empty())
    folder = ".";
  (*module)->setAttr("hyc.model_folder", StringAttr::get(&context, folder));
  if (failed(startFromFolder(*module, loc, folder, options)))
    return failure();
  return module;
}
