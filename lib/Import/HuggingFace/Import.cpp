// The file, and what of the model the command line decides.
#include "hyc/Import/HuggingFace/Import.h"
#include "hyc/Analysis/Entry.h"

#include "Clip.h"
#include "EncoderDecoder.h"
#include "OwnArchitectures.h"
#include "Whisper.h"
#include "dialects/Hyc/HycDialect.h"
#include "dialects/Hyc/PhaseNames.h"
#include "hyc/Import/Checkpoint/Checkpoint.h"
#include "hyc/Import/HuggingFace/Decoder.h"
#include "hyc/Support/InputFile.h"
#include "llvm/ADT/FunctionExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace hyc;

static constexpr uint64_t kMaxConfigBytes = uint64_t(16) << 20;
/// Sizes of tensors must stay far from the limits of 64 bits.
static constexpr int64_t kMaxElements = int64_t(1) << 50;
/// Tokens of a model whose positions are distances: a table has one row for each.
static constexpr int64_t kMostDistant = int64_t(1) << 20;

/// Samples of a micro-batch, where each is compared with each: a plan's own bound.
static constexpr int64_t kMostCompared = 65536;

/// Older files of GPT-2 keep each layer's causal mask and the number that masks, those of Llama its rotary frequencies.
static bool isComputed(StringRef name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") || name.ends_with(".rotary_emb.inv_freq");
}

namespace {
/// What the import asks of every architecture.
struct Architecture {
  int64_t positions, vocabulary, width, widest; ///< widest: of all vectors but the logits
  bool isOfImages;
  StringRef positionsKey;
  llvm::unique_function<OwningOpRef<ModuleOp>(int64_t batch, int64_t sequence)> build;
  std::function<std::string(StringRef)> storedName;
  std::function<StoredParts(StringRef, ArrayRef<int64_t>)> storedParts;
  bool (*ignored)(StringRef stored) = isComputed;
  int64_t otherRows = 0;        ///< of a sample besides its tokens: frames of sound, patches of an image
  bool isCausal = false;        ///< no place sees one behind it
  bool comparesSamples = false; ///< each with each, so that one product is of samples by samples
};
} // namespace

static LogicalResult checkSizes(Location loc, const Architecture &model, int64_t batch, int64_t sequence) {
  if (sequence > model.positions && model.positionsKey.empty())
    return emitError(loc) << "dimension seq is " << sequence << ", expected at most " << model.positions;
  if (sequence > model.positions)
    return emitError(loc) << "dimension seq is " << sequence << ", expected at most \"" << model.positionsKey
                          << "\", which is " << model.positions;
  double widest = static_cast<double>(std::max(model.vocabulary, model.widest));
  double tokens = static_cast<double>(batch) * static_cast<double>(std::max(sequence, model.otherRows));
  if (model.comparesSamples && batch > kMostCompared)
    return emitError(loc) << "dimension batch is " << batch << ", expected at most " << kMostCompared
                          << " samples, each of which is compared with each";
  double largest = std::max(tokens * widest, static_cast<double>(model.width) * widest);
  if (largest <= static_cast<double>(kMaxElements))
    return success();
  return emitError(loc) << "has a tensor of more than 2^50 elements: " << batch << " samples of "
                        << std::max(sequence, model.otherRows)
                        << (model.otherRows > sequence ? " rows, width " : " tokens, width ") << model.width
                        << ", vocabulary " << model.vocabulary;
}

/// T5, whose samples are of as many tokens as it is told.
static FailureOr<Architecture> readT5(MLIRContext &context, ConfigReader &reader) {
  FailureOr<EncoderDecoderConfig> config = readEncoderDecoder(reader);
  if (failed(config))
    return failure();
  return Architecture{kMostDistant,
                      config->vocabulary,
                      config->width,
                      std::max(config->inner, config->heads * config->headSize),
                      /*isOfImages=*/false,
                      /*positionsKey=*/"",
                      [&context, config = *config](int64_t batch, int64_t sequence) {
                        return buildEncoderDecoder(context, config, batch, sequence);
                      },
                      {},
                      {},
                      isRepeated};
}

static FailureOr<Architecture> readWhisper(MLIRContext &context, ConfigReader &reader) {
  FailureOr<WhisperConfig> config = readWhisper(reader);
  if (failed(config))
    return failure();
  return Architecture{config->targetPositions,
                      config->vocabulary,
                      config->width,
                      std::max({config->encoder.inner, config->decoder.inner, 3 * config->width, config->bins}),
                      /*isOfImages=*/false,
                      /*positionsKey=*/"max_target_positions",
                      [&context, config = *config](int64_t batch, int64_t sequence) {
                        return buildWhisper(context, config, batch, sequence);
                      },
                      {},
                      {},
                      isComputed,
                      config->frames()};
}

static FailureOr<Architecture> readClip(MLIRContext &context, ConfigReader &reader) {
  FailureOr<ClipConfig> config = readClip(reader);
  if (failed(config))
    return failure();
  return Architecture{config->positions,
                      config->vocabulary,
                      std::max(config->text.width, config->vision.width),
                      std::max({config->text.inner, config->vision.inner, 3 * config->text.width,
                                3 * config->vision.width, config->channels * config->patchSize * config->patchSize}),
                      /*isOfImages=*/false,
                      /*positionsKey=*/"max_position_embeddings",
                      [&context, config = *config](int64_t batch, int64_t sequence) {
                        return buildClip(context, config, batch, sequence);
                      },
                      {},
                      {},
                      isClipsCount,
                      config->imageRows(),
                      /*isCausal=*/false,
                      /*comparesSamples=*/true};
}

static constexpr struct {
  StringRef type;
  FailureOr<Architecture> (*read)(MLIRContext &context, ConfigReader &reader);
} kOwnArchitectures[] = {{"t5", readT5}, {"whisper", readWhisper}, {"clip", readClip}};

SmallVector<StringRef> hyc::ownArchitectureTypes() {
  return llvm::map_to_vector(kOwnArchitectures, [](const auto &own) { return own.type; });
}

/// Has the model take an input that tells tokens from padding.
static LogicalResult addMask(ConfigReader &reader, DecoderConfig &config) {
  if (!config.has(kSeesAll) || config.has(kPatches))
    return reader.wrong("model_type", "an encoder of text for --padding-mask: of others samples fill their length");
  if (config.averagesRows)
    return reader.wrong("classifier_pooling", "\"cls\" for --padding-mask");
  config.parts |= kTakesMask;
  return success();
}

static FailureOr<Architecture> readArchitecture(MLIRContext &context, StringRef text, StringRef path,
                                                bool paddingMask) {
  ConfigReader reader(context, path);
  std::string type;
  if (failed(reader.parse(text)) || failed(reader.readString("model_type", type, {})))
    return failure();
  for (const auto &own : kOwnArchitectures) {
    if (own.type == type && paddingMask)
      return reader.wrong("model_type", "an encoder of text alone for --padding-mask");
    if (own.type == type)
      return own.read(context, reader);
  }
  FailureOr<DecoderConfig> config = readDecoder(context, text, path);
  if (failed(config) || (paddingMask && failed(addMask(reader, *config))))
    return failure();
  int64_t widest = std::max({config->innerWidth(), 3 * config->width, config->heads * config->headSize});
  return Architecture{config->positions,
                      config->vocabulary,
                      config->width,
                      widest,
                      config->has(kPatches),
                      positionsKeyOf(*config),
                      [&context, config = *config](int64_t batch, int64_t sequence) {
                        return buildDecoder(context, config, batch, sequence);
                      },
                      [config = *config](StringRef parameter) { return storedNameOf(config, parameter); },
                      [config = *config](StringRef parameter, ArrayRef<int64_t> shape) {
                        return storedPartsOf(config, parameter, shape);
                      },
                      isComputed,
                      /*otherRows=*/0,
                      /*isCausal=*/!config->has(kSeesAll) && !config->has(kPatches)};
}

static StartOptions namesOf(const Architecture &model) {
  StartOptions start;
  start.storedName = model.storedName;
  start.storedParts = model.storedParts;
  start.ignored = model.ignored;
  return start;
}

static LogicalResult startFromFolder(ModuleOp module, Location loc, StringRef folder, const Architecture &model,
                                     const HuggingFaceOptions &options) {
  if (options.weights == FolderWeights::Initialise || !Checkpoint::isIn(folder))
    return success();
  llvm::Expected<Checkpoint> checkpoint = Checkpoint::open(folder);
  if (!checkpoint)
    return emitError(loc) << "its weights cannot be read: " << llvm::toString(checkpoint.takeError());
  StartOptions start = namesOf(model);
  start.relative = true;
  start.mayMiss = options.weights == FolderWeights::InitialiseMissing;
  return startFromCheckpoint(module, *checkpoint, start);
}

FailureOr<OwningOpRef<ModuleOp>> hyc::importHuggingFace(MLIRContext &context, StringRef path,
                                                        const HuggingFaceOptions &options, StartOptions *names) {
  Location loc = FileLineColLoc::get(&context, path, 0, 0);
  auto buffer = openInputFile(path, kMaxConfigBytes);
  if (!buffer)
    return emitError(loc) << "cannot be read as a config.json: " << llvm::toString(buffer.takeError()), failure();
  FailureOr<Architecture> model = readArchitecture(context, (*buffer)->getBuffer(), path, options.paddingMask);
  if (failed(model))
    return failure();
  if (options.sequence && model->isOfImages)
    return emitError(loc)
               << "is a model of images, whose patches are as many as \"image_size\" and \"patch_size\" say, "
                  "expected no --dim seq",
           failure();
  if (!options.sequence && model->positionsKey.empty() && !model->isOfImages)
    return emitError(loc) << "says nothing of how long samples are, expected --dim seq=N", failure();
  int64_t sequence = options.sequence.value_or(model->positions);
  if (failed(checkSizes(loc, *model, options.batch, sequence)))
    return failure();
  context.loadDialect<HycDialect>();
  if (names)
    *names = namesOf(*model);
  OwningOpRef<ModuleOp> module = model->build(options.batch, sequence);
  StringRef folder = llvm::sys::path::parent_path(path);
  if (folder.empty())
    folder = ".";
  (*module)->setAttr(kModelFolder, StringAttr::get(&context, folder));
  if (options.saysCausal && model->isCausal)
    (*module)->setAttr(kCausalAttribute, UnitAttr::get(&context));
  if (failed(startFromFolder(*module, loc, folder, *model, options)))
    return failure();
  return module;
}
