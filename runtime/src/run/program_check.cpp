// Every table of a program looked at once, before anything is allocated by its numbers.
#include "run/program_check.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "io/block_file.h"
#include "io/float_convert.h"
#include "io/weight_parts.h"

namespace hycrt {
namespace {

// Products of sizes, with -1 for what overflows or is negative.
int64_t checkedCount(const Shape& shape) {
  int64_t count = 1;
  for (int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(count, size, &count)) return -1;
  }
  return count;
}

class Checker {
 public:
  explicit Checker(const Program& program) : program_(program) {}

  Status run() {
    HYCRT_RETURN_IF_ERROR(checkHead());
    for (const StateDesc& state : program_.states) HYCRT_RETURN_IF_ERROR(checkState(state));
    for (const InputDesc& input : program_.inputs) HYCRT_RETURN_IF_ERROR(checkInput(input));
    for (const GroupDesc& group : program_.groups) HYCRT_RETURN_IF_ERROR(checkGroup(group));
    for (const CollectiveDesc& row : program_.collectives) {
      if (row.group < 0 || row.group >= program_.groups.size) return wrong(row.name, "its group is out of range");
      HYCRT_RETURN_IF_ERROR(checkAxes(row.name, row.flat));
    }
    for (const TransferDesc& transfer : program_.transfers) HYCRT_RETURN_IF_ERROR(checkTransfer(transfer));
    if (program_.entries.size == 0) return wrong("entries", "there is none");
    for (const Entry& entry : program_.entries) HYCRT_RETURN_IF_ERROR(checkEntry(entry));
    return {};
  }

 private:
  Status wrong(const std::string& row, const std::string& what) const {
    return internalError("program '" + std::string(program_.name) + "', " + row + ": " + what);
  }

  Status checkBuffer(const std::string& row, BufferRef buffer, int64_t bytes, int64_t alignment) const {
    if (buffer.arena < 0 || buffer.arena >= program_.arenas.size) return wrong(row, "its arena is out of range");
    const ArenaDesc& arena = program_.arenas[buffer.arena];
    if (buffer.offset < 0 || bytes < 0 || bytes > arena.bytes || buffer.offset > arena.bytes - bytes) {
      return wrong(row, std::to_string(bytes) + " bytes at " + std::to_string(buffer.offset) + " leave arena '" +
                            arena.name + "' of " + std::to_string(arena.bytes) + " bytes");
    }
    if (buffer.offset % alignment != 0) {
      return wrong(row, "offset " + std::to_string(buffer.offset) + " is no multiple of " + std::to_string(alignment));
    }
    return {};
  }

  bool isFile(BufferRef buffer) const { return program_.arenas[buffer.arena].sharing == Sharing::kFile; }

  Status checkMemoryBuffer(const std::string& row, BufferRef buffer, int64_t bytes, int64_t alignment) const {
    HYCRT_RETURN_IF_ERROR(checkBuffer(row, buffer, bytes, alignment));
    return isFile(buffer) ? wrong(row, "lies in a file, where only states may be") : Status();
  }

  Status checkAxes(const std::string& row, const ShortList<Axis>& axes) const {
    for (Axis axis : axes) {
      if (static_cast<int>(axis) >= program_.mesh.axes.size)
        return wrong(row, "names an axis that the mesh does not have");
    }
    return {};
  }

  Status checkHead() const {
    const Mesh& mesh = program_.mesh;
    for (const MeshAxis& axis : mesh.axes) {
      if (axis.size < 1) return wrong("mesh", "a size is less than 1");
    }
    if (mesh.stages < 1) return wrong("mesh", "a size is less than 1");
    HYCRT_RETURN_IF_ERROR(checkAxes("mesh", mesh.batch));
    if (program_.stage < 0 || program_.stage >= mesh.stages) return wrong("stage", "is out of range");
    const BatchDesc& batch = program_.batch;
    if (batch.samples < 1 || batch.microBatches < 1 || batch.sequence < 1) return wrong("batch", "a size is below 1");
    int files = 0;
    for (const ArenaDesc& arena : program_.arenas) {
      if (arena.bytes < 0) return wrong(std::string("arena ") + arena.name, "has a negative size");
      files += arena.sharing == Sharing::kFile;
    }
    if (files > 1) return wrong("arenas", std::to_string(files) + " of them are files, expected at most one");
    HYCRT_RETURN_IF_ERROR(checkMemoryBuffer("loss sum", program_.scalars.lossSum, 4, 4));
    HYCRT_RETURN_IF_ERROR(checkMemoryBuffer("token count", program_.scalars.tokenCount, 8, 8));
    HYCRT_RETURN_IF_ERROR(checkMemoryBuffer("gradient norm", program_.scalars.gradientNorm, 4, 4));
    const ScalarsDesc& scalars = program_.scalars;
    if (scalars.lossScale.arena >= 0) {
      HYCRT_RETURN_IF_ERROR(checkMemoryBuffer("loss scale", scalars.lossScale, 4, 4));
      HYCRT_RETURN_IF_ERROR(checkMemoryBuffer("applied steps", scalars.appliedSteps, 8, 8));
      if (scalars.hysteresis.arena >= 0)
        HYCRT_RETURN_IF_ERROR(checkMemoryBuffer("hysteresis", scalars.hysteresis, 8, 8));
    }
    if (scalars.momentum.arena >= 0) {
      HYCRT_RETURN_IF_ERROR(checkMemoryBuffer("momentum", scalars.momentum, 8, 8));
    }
    if (scalars.correctCount.arena >= 0) {
      HYCRT_RETURN_IF_ERROR(checkMemoryBuffer("count of what is right", scalars.correctCount, 8, 8));
    }
    return {};
  }

  Status checkEntry(const Entry& entry) const {
    for (int input : entry.inputs) {
      if (input < 0 || input >= program_.inputs.size) return wrong(rowOf(entry), "an input is out of range");
    }
    HYCRT_RETURN_IF_ERROR(checkSize(entry));
    for (const TransferUse& use : entry.transferUses) HYCRT_RETURN_IF_ERROR(checkUse(use));
    for (const Instruction& instruction : entry.schedule) HYCRT_RETURN_IF_ERROR(checkInstruction(entry, instruction));
    return {};
  }
  // What a smaller size reads is the beginning of what the largest does.
  Status checkSize(const Entry& entry) const {
    const Entry& first = program_.entries[0];
    if (entry.size == 0) return entry.samples.size == 0 ? Status() : wrong(rowOf(entry), "has samples but no size");
    const bool isFirst = &entry == &first;
    if (entry.size < 0 || !entry.dim || (!isFirst && (entry.size >= first.size || !entry.backward || !entry.apply))) {
      return wrong(rowOf(entry), "is no smaller size of the first entry's dimension");
    }
    if (entry.samples.size != (isFirst ? 0 : entry.inputs.size) || entry.inputs.size != first.inputs.size) {
      return wrong(rowOf(entry), "has not a sample for each of the first entry's inputs");
    }
    for (int64_t i = 0; i < entry.samples.size; ++i) {
      const Shape& whole = program_.inputs[entry.inputs[i]].sample;
      bool fits = entry.inputs[i] == first.inputs[i] && entry.samples[i].size == whole.size;
      for (int dim = 0; fits && dim < whole.size; ++dim) {
        fits = entry.samples[i][dim] >= 0 && entry.samples[i][dim] <= whole[dim];
      }
      if (!fits) return wrong(rowOf(entry), "a sample is no part of the first entry's");
    }
    return {};
  }
  static std::string rowOf(const Entry& entry) { return std::string("entry ") + entry.name; }

  // Of what is made of a weight: type and size are those that its values make.
  Status checkPart(const std::string& row, const StateDesc& state, int64_t count) const {
    const Initializer& init = state.init;
    if (init.part > WeightPart::kWhole || init.outputs < 1 || init.inputs < 1 ||
        init.outputs > (INT64_MAX / 16) / init.inputs) {
      return wrong(row, "is made of a weight of an impossible size");
    }
    for (int64_t i = 0; init.kind == InitKind::kFile && i < placeCount(init); ++i) {
      const DType stored = placeOf(init, i, count).dtype;
      if (canConvert(stored, DType::kF32)) continue;
      return wrong(row, std::string("is made of a weight of ") + nameOf(stored) + ", expected floats");
    }
    const bool isCopy = isNorms(init.part) && canConvert(DType::kF32, state.dtype);
    if ((isCopy || state.dtype == typeOfPart(init.part)) && count == sizeOfPart(init)) return {};
    return wrong(row, "is no part of a weight of " + std::to_string(init.outputs) + " × " +
                          std::to_string(init.inputs) + ": it has " + std::to_string(count) + " elements of " +
                          nameOf(state.dtype) + ", expected " + std::to_string(sizeOfPart(init)) + " of " +
                          nameOf(typeOfPart(init.part)));
  }

  // Of what lies in files as it is: types that can be read as the state's, and of parts as many values as it has.
  Status checkPlaces(const std::string& row, const StateDesc& state, int64_t count) const {
    const bool takesFloats = state.dtype == DType::kF32 || state.dtype == DType::kF16 || state.dtype == DType::kBF16;
    const bool isWhole = state.init.part == WeightPart::kWhole;
    int64_t values = 0;
    for (int64_t i = 0; i < placeCount(state.init); ++i) {
      const FilePlace place = placeOf(state.init, i, count);
      const bool isFloat = place.dtype != DType::kI32 && place.dtype != DType::kI64 && place.dtype != DType::kU8;
      if (isWhole && place.dtype != state.dtype && !(takesFloats && isFloat)) {
        return wrong(row, std::string("cannot be read from ") + nameOf(place.dtype) + " as " + nameOf(state.dtype));
      }
      if (state.init.parts.size != 0 && checkedCount(state.init.parts[i].shape) < 0) {
        return wrong(row, std::string("its part ") + state.init.parts[i].name + " has an impossible size");
      }
      if (place.count > INT64_MAX / 16 - values) return wrong(row, "its parts have more values than can be counted");
      values += place.count;
    }
    const int64_t expected = isWhole ? count : state.init.outputs * state.init.inputs;
    if (state.init.parts.size == 0 || values == expected) return {};
    return wrong(row,
                 "has parts of " + std::to_string(values) + " values together, expected " + std::to_string(expected));
  }

  Status checkState(const StateDesc& state) const {
    const std::string row = std::string("state ") + state.name + " (" + state.role + ")";
    const int64_t count = checkedCount(state.global);
    const int64_t localCount = checkedCount(state.local);
    if (count < 0 || localCount < 0 || localCount > INT64_MAX / 8) return wrong(row, "a size is negative or too large");
    const int64_t perElement = state.init.part == WeightPart::kNf4Codes ? 2 : 1;
    if (count > INT64_MAX / 2 || count * perElement != checkedCount(state.logical))
      return wrong(row, "logical and global have different element counts");
    if (state.global.size != state.local.size) return wrong(row, "global and local have different ranks");
    for (const Split& split : state.splits) {
      if (split.dim < 0 || split.dim >= state.global.size) return wrong(row, "splits a dimension that is not there");
      HYCRT_RETURN_IF_ERROR(checkAxes(row, {split.axis}));
    }
    for (int dim = 0; dim < state.global.size; ++dim) {
      int64_t shards = 1;
      for (const Split& split : state.splits) shards *= split.dim == dim ? sizeOf(program_.mesh, split.axis) : 1;
      const bool covered = shards == 1 ? state.local[dim] == state.global[dim]
                                       : state.local[dim] >= (state.global[dim] + shards - 1) / shards;
      if (!covered) return wrong(row, "dim " + std::to_string(dim) + " of its shards does not cover the whole");
    }
    const Initializer& init = state.init;
    const bool narrow = state.dtype == DType::kF16 || state.dtype == DType::kBF16;
    const bool real = state.dtype == DType::kF32 || state.dtype == DType::kF64 || narrow;
    const bool constant = init.kind == InitKind::kConstant && state.dtype == DType::kI64;
    if (init.part != WeightPart::kWhole) {
      HYCRT_RETURN_IF_ERROR(checkPart(row, state, count));
    } else if (!real && !constant && init.kind != InitKind::kZeros && init.kind != InitKind::kFile) {
      return wrong(row, "only floats are initialised by rule, and only floats and i64 by a constant");
    }
    if (init.kind == InitKind::kFile) HYCRT_RETURN_IF_ERROR(checkPlaces(row, state, count));
    if (init.kind == InitKind::kSinusoids && !(init.second >= 2 && init.second <= 0x1p50 && init.first > 0)) {
      return wrong(row, "starts as sinusoids of an impossible width or ratio");
    }
    int64_t held = localCount;
    if (state.storage != FlatStorage::kWhole) {
      HYCRT_RETURN_IF_ERROR(checkAxes(row, state.flat));
      const int64_t parts = sizeOf(program_.mesh, state.flat);
      if (state.flat.size == 0) return wrong(row, "is flat over no axis");
      if (state.storage == FlatStorage::kShard) held = flatShardSize(localCount, parts);
      if (state.storage == FlatStorage::kShard && state.shardElements != held) {
        return wrong(row, "has a flat shard of " + std::to_string(state.shardElements) + " elements, expected " +
                              std::to_string(held));
      }
    }
    HYCRT_RETURN_IF_ERROR(checkBuffer(row, state.buffer, held * sizeOf(state.dtype), sizeOf(state.dtype)));
    if (isFile(state.buffer) && state.buffer.offset % kBlockBytes != 0) {
      return wrong(row, "offset " + std::to_string(state.buffer.offset) + " of a file is no multiple of " +
                            std::to_string(kBlockBytes));
    }
    return {};
  }

  Status checkInput(const InputDesc& input) const {
    const std::string row = std::string("input ") + input.name;
    if (input.dtype != DType::kI64 && input.dtype != DType::kI32 && input.dtype != DType::kF32) {
      return wrong(row, std::string("has type ") + nameOf(input.dtype) + ", expected i64, i32 or f32");
    }
    const bool isRandom = input.source == InputSource::kRandomKeys;
    if (isRandom && (input.dtype != DType::kI64 || input.streamCount < 1 || !input.streams)) {
      return wrong(row, "is to hold random keys, expected type i64 and at least one stream");
    }
    const bool isTokens = input.source == InputSource::kTokens || input.source == InputSource::kNextTokens;
    int64_t bytes = program_.batch.samples * sizeOf(input.dtype), perSample = 1;
    for (int64_t size : input.sample) {
      if (size < 1 || __builtin_mul_overflow(perSample, size, &perSample)) return wrong(row, "has an impossible shape");
    }
    if (__builtin_mul_overflow(bytes, perSample, &bytes)) return wrong(row, "is too large");
    const int64_t wanted = isRandom ? input.streamCount : isTokens ? program_.batch.sequence : perSample;
    if (perSample != wanted) {
      return wrong(row,
                   "has samples of " + std::to_string(perSample) + " elements, expected " + std::to_string(wanted));
    }
    return checkMemoryBuffer(row, input.buffer, bytes, sizeOf(input.dtype));
  }

  Status checkGroup(const GroupDesc& group) const {
    for (int stage : group.stages) {
      if (stage < 0 || stage >= program_.mesh.stages)
        return wrong(std::string("group ") + group.name, "names no stage");
    }
    return {};
  }

  Status checkTransfer(const TransferDesc& transfer) const {
    const std::string row = std::string("transfer ") + transfer.name;
    if (transfer.peerStage < 0 || transfer.peerStage >= program_.mesh.stages || transfer.peerStage == program_.stage) {
      return wrong(row, "its peer stage is this stage or out of range");
    }
    return checkMemoryBuffer(row, transfer.buffer, transfer.bytes, 1);
  }

  Status checkUse(const TransferUse& use) const {
    if (use.transfer < 0 || use.transfer >= program_.transfers.size) return wrong("schedule", "uses no known transfer");
    const TransferDesc& transfer = program_.transfers[use.transfer];
    const std::string row = std::string("transfer ") + transfer.name;
    int64_t offset = 0;
    if (use.slot < 0 || __builtin_mul_overflow(transfer.slotStride, int64_t{use.slot}, &offset) ||
        __builtin_add_overflow(offset, transfer.buffer.offset, &offset)) {
      return wrong(row, "slot " + std::to_string(use.slot) + " is out of range");
    }
    const bool source = transfer.direction == Direction::kSend;
    if (source && program_.arenas[transfer.buffer.arena].sharing != Sharing::kShared) {
      return wrong(row, "is sent from an arena that is not shared");
    }
    return checkMemoryBuffer(row, {transfer.buffer.arena, offset}, transfer.bytes, 1);
  }

  static bool isThere(const Entry& entry, InstructionKind kind) {
    switch (kind) {
      case InstructionKind::kForward:
        return entry.forward;
      case InstructionKind::kBackward:
        return entry.backward;
      case InstructionKind::kReduce:
        return entry.reduce;
      case InstructionKind::kApply:
        return entry.apply;
      case InstructionKind::kBeginStep:
      case InstructionKind::kExchange:
        return true;
    }
    return false;
  }

  Status checkInstruction(const Entry& entry, const Instruction& instruction) const {
    if (!isThere(entry, instruction.kind)) {
      return wrong(rowOf(entry), "one of forward, backward, reduce, apply is missing that its schedule runs");
    }
    if (instruction.kind == InstructionKind::kExchange &&
        (instruction.firstTransfer < 0 || instruction.transferCount < 0 ||
         instruction.firstTransfer > entry.transferUses.size - instruction.transferCount)) {
      return wrong(rowOf(entry), "an exchange uses transfers out of range");
    }
    const bool compute =
        instruction.kind == InstructionKind::kForward || instruction.kind == InstructionKind::kBackward;
    if (compute && (instruction.microBatch < 0 || instruction.microBatch >= program_.batch.microBatches)) {
      return wrong(rowOf(entry), "micro-batch " + std::to_string(instruction.microBatch) + " is out of range");
    }
    return {};
  }

  const Program& program_;
};

}  // namespace

const Entry* findEntry(const Program& program, const char* name) {
  for (const Entry& entry : program.entries) {
    if (std::strcmp(entry.name, name) == 0) return &entry;
  }
  return nullptr;
}

std::vector<const Entry*> sizesOf(const Program& program) {
  std::vector<const Entry*> sizes{&program.entries[0]};
  for (const Entry& entry : program.entries) {
    if (&entry != &program.entries[0] && entry.size > 0) sizes.push_back(&entry);
  }
  std::sort(sizes.begin(), sizes.end(), [](const Entry* a, const Entry* b) { return a->size < b->size; });
  return sizes;
}

Status checkProgram(const Program& program) { return Checker(program).run(); }

Status checkThreads(const Program& program, int threads) {
  if (program.threads == 0 || threads <= program.threads) return {};
  return usageError("--threads is " + std::to_string(threads) + ", but the workspaces of program '" + program.name +
                    "' were planned for " + std::to_string(program.threads) +
                    "; run with so many at most, or compile with --threads " + std::to_string(threads));
}

Status checkPoison(const Program& program, const RunOptions& options) {
  if (!options.poison || program.poisons) return {};
  return usageError(std::string("--poison is given, but program '") + program.name +
                    "' does not tell where lives end; compile with --poison");
}

// It grows without bound after its cycle; at 1 a moment forgets nothing, and correcting it divides by zero.
Status checkMomentum(const Manifest& manifest, const RunOptions& options) {
  const LearningRateRule& rule = manifest.learningRate;
  const int64_t last = options.steps - 1;
  if (!rule.cyclesMomentum() || options.steps == 0 || rule.momentumAt(last) < 1) return {};
  return dataError(manifest.folder + "/manifest.json: /learning_rate/decay_mom_rate: gives step " +
                   std::to_string(last + 1) + " a momentum of " + std::to_string(rule.momentumAt(last)) +
                   ", expected less than 1; take fewer --steps or a smaller rate");
}

// What forward draws at random would be drawn there too, and batch norm would be by the batch.
Status checkEvaluation(const Program& program) {
  if (findEntry(program, kEvaluateEntry)) return {};
  if (program.writesBuffers) {
    return usageError(
        "--evaluate: the model was compiled as it trains, and updates buffers such as running averages; save its "
        "weights, and compile it with --entry evaluate --weights SAVED, or compile with --entry train,evaluate");
  }
  for (const InputDesc& input : program.inputs) {
    if (input.source == InputSource::kRandomKeys) {
      return usageError(
          "--evaluate: the model was compiled with dropout; compile it with --entry evaluate, or train,evaluate");
    }
  }
  return {};
}

Status checkAgainstManifest(const Program& program, const Manifest& manifest) {
  const std::string who = "'" + manifest.folder + "/manifest.json' and program '" + program.name + "'";
  const std::string advice = "; compile again, or run the program from its own folder";
  if (manifest.planHash != program.planHash) return dataError(who + " come from different plans" + advice);
  const bool sameMesh = describe(manifest.mesh) == describe(program.mesh);
  const bool sameBatch = manifest.batch.samples == program.batch.samples &&
                         manifest.batch.microBatches == program.batch.microBatches &&
                         manifest.batch.sequence == program.batch.sequence;
  if (!sameMesh) return dataError(who + " have different meshes" + advice);
  if (!sameBatch) return dataError(who + " have different batch sizes" + advice);
  std::vector<int64_t> sizes;
  for (const Entry* entry : sizesOf(program)) {
    if (entry->size > 0) sizes.push_back(entry->size);
  }
  if (manifest.sizes != sizes || (!sizes.empty() && manifest.dim != program.entries[0].dim)) {
    return dataError(who + " are of different sizes (--dim)" + advice);
  }
  if (manifest.learningRate.cyclesMomentum() != (program.scalars.momentum.arena >= 0)) {
    return dataError(who + ": only one of them cycles the momentum" + advice);
  }
  for (const StateDesc& state : program.states) {
    for (int64_t i = 0; state.init.kind == InitKind::kFile && i < placeCount(state.init); ++i) {
      const int file = placeOf(state.init, i, 0).file;
      if (file >= 0 && file < static_cast<int>(manifest.modelFiles.size())) continue;
      return dataError(who + ": parameter " + state.name + " is in model file " + std::to_string(file) +
                       ", but model_files has " + std::to_string(manifest.modelFiles.size()) + " rows" + advice);
    }
  }
  return {};
}

}  // namespace hycrt
