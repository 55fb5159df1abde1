// The file, and what of the model the command line decides.
#include "hyc/Import/HuggingFace/Import.h"

#include "dialects/Hyc/HycDialect.h"
#include "hyc/Import/Checkpoint/Checkpoint.h"
#include "hyc/Import/HuggingFace/Gpt2.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace hyc;

static constexpr uint64_t kMaxConfigBytes = uint64_t(16) << 20;
/// Sizes of tensors must stay far from the limits of 64 bits.
static constexpr int64_t kMaxElements = int64_t(1) << 50;

static LogicalResult checkSizes(Location loc, const Gpt2Config &config, int64_t batch, int64_t sequence) {
  if (sequence > config.positions)
    return emitError(loc) << "dimension seq is " << sequence << ", expected at most \"n_positions\", which is "
                          << config.positions;
  double widest = std::max({config.vocabulary, config.innerWidth(), 3 * config.width});
  double tokens = static_cast<double>(batch) * static_cast<double>(sequence);
  double largest = std::max(tokens * widest, static_cast<double>(config.width) * widest);
  if (largest <= static_cast<double>(kMaxElements))
    return success();
  return emitError(loc) << "has a tensor of more than 2^50 elements: " << batch << " samples of " << sequence
                        << " tokens, width " << config.width << ", vocabulary " << config.vocabulary;
}

/// Older files of GPT-2 keep each layer's causal mask and the number that masks.
static bool isGpt2Mask(StringRef name) { return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias"); }

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
  start.ignored = isGpt2Mask;
  return startFromCheckpoint(module, *checkpoint, start);
}

FailureOr<OwningOpRef<ModuleOp>> hyc::importHuggingFace(MLIRContext &context, StringRef path,
                                                        const HuggingFaceOptions &options) {
  Location loc = FileLineColLoc::get(&context, path, 0, 0);
  llvm::sys::fs::file_status status;
  std::error_code error = llvm::sys::fs::status(path, status);
  if (!error && status.getSize() > kMaxConfigBytes)
    return emitError(loc) << "has " << status.getSize() << " bytes, which is no config.json", failure();
  llvm::ErrorOr<std::unique_ptr<llvm::MemoryBuffer>> buffer = error;
  if (!error)
    buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer)
    return emitError(loc) << "cannot be read: " << buffer.getError().message(), failure();
  FailureOr<Gpt2Config> config = readGpt2Config(context, (*buffer)->getBuffer(), path);
  if (failed(config))
    return failure();
  int64_t sequence = options.sequence.value_or(config->positions);
  if (failed(checkSizes(loc, *config, options.batch, sequence)))
    return failure();
  context.loadDialect<HycDialect>();
  OwningOpRef<ModuleOp> module = buildGpt2(context, *config, options.batch, sequence);
  StringRef folder = llvm::sys::path::parent_path(path);
  if (folder.empty())
    folder = ".";
  (*module)->setAttr("hyc.model_folder", StringAttr::get(&context, folder));
  if (failed(startFromFolder(*module, loc, folder, options)))
    return failure();
  return module;
}
