// Program: everything the compiler decided about one pipeline stage, as plain tables. A generated executable is these
// tables, the functions that they point to, and
//
//   int main(int argc, char** argv) { return hycrt::runProgram(argc, argv, kProgram); }
//
// Nothing here depends on a rank's coordinates except through the splits of a state: all dp × tp ranks of a stage run
// the same executable. The surprise: gradients accumulate over the micro-batches of a step, but the first backward of
// a step overwrites them (Call::first), so that nothing is ever cleared.
#ifndef HYCRT_PROGRAM_H_
#define HYCRT_PROGRAM_H_

#include <cstdint>
#include <vector>

#include "hycrt/collective_kind.h"
#include "hycrt/mesh.h"
#include "hycrt/types.h"

namespace hycrt {

class Context;

// ---------------------------------------------------------------------------------------------------------- memory

// The runtime allocates each arena once, 64-byte aligned (page-aligned in fact) and zeroed, of exactly this size, and
// nothing else for tensors. Offsets inside are the compiler's. At most one arena is a file.
enum class Sharing : uint8_t {
  kPrivate,  // only this rank sees it
  kShared,   // peers map it: required for whatever takes part in a collective or is the source of a send
  kFile,     // no memory but a file of this rank's in --nvme-path: only states lie there, reached by offload.h alone
};

struct ArenaDesc {
  // "parameters", "gradients", "optimizer", "activations", "communication", "constants", "feeds", "workspace", "host",
  // "nvme"
  const char* name;
  int64_t bytes;
  Sharing sharing;
  // Of programs for GPUs: pinned memory of the host that kernels reach, too. What is offloaded lies there.
  bool onHost = false;
};

// ---------------------------------------------------------------------------------------------------------- states

enum class InitKind : uint8_t { kZeros, kConstant, kNormal, kUniform, kFile, kSinusoids };

// What is made of a linear layer's weight, a matrix of outputs × inputs, before training starts: the codes that are
// kept in its place, and what they are multiplied with (kernels/dequantize/codes.h has the formulas); or lengths.
enum class WeightPart : uint8_t {
  kInt8Codes,
  kInt8Absmax,
  kNf4Codes,
  kNf4Absmax,
  kNf4Scale,
  kNf4Mean,
  kRowNorms,      // √ of the sum of each row's squares, which a parameter may start from
  kInt8RowNorms,  // the same of what codes mean
  kNf4RowNorms,
  kWhole,  // nothing: the values themselves
};

// One of the tensors of files that a state's values are made of, under the name and of the shape that the file has.
struct FilePart {
  const char* name;
  Shape shape;
  int file;        // index into the manifest's model_files
  int64_t offset;  // where the tensor's first byte is; it lies there row-major, whole and unpadded
  DType dtype;
};

// The initial value of a state. Random values are Philox4x32-10 keyed by (run seed, key) and indexed by the element's
// GLOBAL row-major position (philox.h), so every layout starts from the same weights.
struct Initializer {
  InitKind kind = InitKind::kZeros;
  double first = 0;        // kConstant: the value; kNormal: mean; kUniform: lower bound; kSinusoids: ratio
  double second = 0;       // kNormal: standard deviation; kUniform: upper bound; kSinusoids: elements of a row, even
  uint64_t key = 0;        // kNormal, kUniform: stableKey("<parameter name>")
  int file = 0;            // kFile: index into the manifest's model_files
  int64_t fileOffset = 0;  // kFile: where the tensor's first byte is; it lies there row-major, whole and unpadded
  // kFile: f32, f64, f16 or bf16 for an f32, f16 or bf16 state, by way of f32; otherwise the state's own type. Values
  // by rule of an f16 or bf16 state are those of an f32 one, rounded.
  DType fileDType = DType::kF32;
  // What is said above are the values of a weight, and this is what is made of them for the state. Of outputs × inputs
  // numbers, row-major; with inputsFirst the transpose is what is stored.
  WeightPart part = WeightPart::kWhole;
  int64_t outputs = 0;
  int64_t inputs = 0;
  bool inputsFirst = false;
  // kFile, where not empty: the values are those of these tensors, one after another in the state's row-major order,
  // and file, fileOffset and fileDType say nothing. --save-weights writes the parameter as these tensors.
  Table<FilePart> parts = {};

  static constexpr Initializer zeros() { return {}; }
  static constexpr Initializer constant(double value) { return {InitKind::kConstant, value}; }
  static constexpr Initializer normal(double mean, double deviation, uint64_t key) {
    return {InitKind::kNormal, mean, deviation, key};
  }
  static constexpr Initializer uniform(double low, double high, uint64_t key) {
    return {InitKind::kUniform, low, high, key};
  }
  // Rows of `width`: of row r element k is sin(r · ratio^k), and element k of the second half the cosine.
  static constexpr Initializer sinusoids(double ratio, int64_t width) {
    return {InitKind::kSinusoids, ratio, static_cast<double>(width)};
  }
  static constexpr Initializer fromFile(int file, int64_t offset, DType dtype) {
    return {InitKind::kFile, 0, 0, 0, file, offset, dtype};
  }
  template <size_t N>
  static constexpr Initializer fromParts(const FilePart (&parts)[N]) {
    Initializer result;
    result.kind = InitKind::kFile;
    result.parts = parts;
    return result;
  }
  constexpr Initializer into(WeightPart made, int64_t rows, int64_t columns, bool columnsFirst) const {
    Initializer result = *this;
    result.part = made;
    result.outputs = rows;
    result.inputs = columns;
    result.inputsFirst = columnsFirst;
    return result;
  }
};

// Where values of kFile lie: the whole of them, or some that come after those before it.
struct FilePlace {
  int file;
  int64_t offset;
  DType dtype;
  int64_t count;  // values
};

constexpr int64_t placeCount(const Initializer& init) { return init.parts.size == 0 ? 1 : init.parts.size; }
// The place number `index` of a state of so many values.
constexpr FilePlace placeOf(const Initializer& init, int64_t index, int64_t values) {
  if (init.parts.size == 0) return {init.file, init.fileOffset, init.fileDType, values};
  const FilePart& part = init.parts[index];
  return {part.file, part.offset, part.dtype, elementCount(part.shape)};
}

// Dimension `dim` of StateDesc::global is cut over `axis`. Two splits of one dimension: the first listed is the major.
struct Split {
  int dim;
  Axis axis;
};

// How a state is further cut over the axes of StateDesc::flat, as flat shards (mesh.h) of the flattened local tensor.
enum class FlatStorage : uint8_t {
  kWhole,  // not at all
  kShard,  // `buffer` holds this rank's shard, padded to the size that all shards have
  kSlice,  // `buffer` holds the local tensor, but only this rank's shard of it counts once gradients are reduced
};

// One representation of a parameter on this rank (or of an optimizer quantity).
// Shard i of a split dimension holds global indices [i * local, min((i + 1) * local, global)); what is left of the
// local extent is padding, which holds zeros and must stay zero. Axes that are in no split hold replicas.
struct StateDesc {
  const char* name;  // logical name: "h.0.attn.c_attn.weight"
  const char* role;  // "parameter", "compute", "codes", "gradient", "adam.m", "adam.v", "momentum", "step"
  DType dtype;
  BufferRef buffer;  // row-major `local`, padding included; with kShard the flat shard of it
  Shape logical;     // as the model names it, whole: {768, 2304}; what --save-weights writes
  // Of nf4 codes, two of which share a byte, half of them: the last dimension's.
  Shape global;             // the same elements in the same order, dimensions factored for splitting: {768, 3, 12, 64}
  Shape local;              // one shard, padding included: {768, 3, 6, 64}
  ShortList<Split> splits;  // {{2, kTp}}, of an axis of that name
  Initializer init;
  FlatStorage storage = FlatStorage::kWhole;
  ShortList<Axis> flat = {};  // major to minor
  int64_t shardElements = 0;  // with kShard: elements of `buffer`
};

// Elements that `buffer` holds, padding included.
constexpr int64_t heldElements(const StateDesc& state) {
  return state.storage == FlatStorage::kShard ? state.shardElements : elementCount(state.local);
}

// ---------------------------------------------------------------------------------------------------------- inputs

enum class InputSource : uint8_t {
  kTokens,      // tokens [0, S) of the sample's window of S + 1
  kNextTokens,  // tokens [1, S + 1): the labels, one ahead
  kRandomKeys,  // no data: keys of what is random (philox.h), one a sample and stream
  kSamples,     // no tokens: a tensor of its name in the data, whose dimension 0 is the sample
  kOwnTokens,   // labels of a model that tells documents apart: as kTokens, but what begins a document is `uncounted`
  kNextOwnTokens,  // the same, one ahead
  kPositions,      // of each token, from where its document begins, or the window
  kPresence,       // 1 for each token
};

// How an input of a program of several sizes (Entry::size) tells the place up to which a sample reaches.
enum class LengthTeller : uint8_t {
  kNone,
  kLabels,    // the last number that is not `uncounted`
  kPresence,  // the last that is not 0
};

// A model input that this stage reads, in one entry or several. Before any forward or backward instruction of a
// micro-batch the runtime sees to it that `buffer` holds that micro-batch: B samples, row-major. Data that is given
// sample by sample feeds tokens and labels too, by their names.
struct InputDesc {
  const char* name;
  DType dtype;  // kI64, kI32 or kF32
  InputSource source;
  BufferRef buffer;  // B samples
  int64_t bound;     // an index must be less than this (the vocabulary's logical size); INT64_MAX: it indexes nothing
  Shape sample;      // of one sample: {S} of tokens; of kRandomKeys {N} with N streams
  const uint64_t* streams = nullptr;  // kRandomKeys: stableKey of the id of each op that draws
  int64_t streamCount = 0;
  int64_t uncounted = INT64_MIN;  // kSamples: what stands where `bound` says nothing, a label that no loss counts
  LengthTeller tells = LengthTeller::kNone;  // of one dimension then, that of the sizes
};

// Global batch = samples * microBatches * D, D being the size of Mesh::batch. Sample i of micro-batch m at the
// coordinate d along these axes is number
//   m * (D * samples) + d * samples + i
// of the step's global batch, so a step sees the same samples whatever the mesh. A run may give coordinates unequal
// shares of a step, as far as nothing meets in a micro-batch (hyc-run --batch-shares, run/batch_shares.h).
struct BatchDesc {
  int64_t samples;       // B: of one micro-batch on one rank
  int64_t microBatches;  // per step: gradient accumulation, and the pipeline's micro-batches
  int64_t sequence;      // S: tokens of one sample
};

// Scalars that the generated code leaves at fixed addresses. The runtime zeroes lossSum and tokenCount at begin_step;
// every forward of the last stage adds into them. When `reduce` returns, both hold the job-wide totals on every rank;
// when `apply` returns, gradientNorm holds the global norm before clipping of the gradient of the mean loss.
struct ScalarsDesc {
  BufferRef lossSum;       // f32
  BufferRef tokenCount;    // i64
  BufferRef gradientNorm;  // f32
  // Of loss scaling; arena -1 where there is none. All are equal on every rank. An update whose gradients overflowed
  // does not happen, and is not counted in appliedSteps; the learning rate follows appliedSteps. hysteresis is 0 when a
  // step overflowed at the least scale: training cannot go on.
  BufferRef lossScale = {-1, 0};     // f32: of the next step
  BufferRef hysteresis = {-1, 0};    // i64; none where the scale is fixed
  BufferRef appliedSteps = {-1, 0};  // i64
  // f64: this step's decay of the first moment, which the runtime sets where the manifest's rule cycles it. Arena -1:
  // the program takes none.
  BufferRef momentum = {-1, 0};
  // f32: what apply is called with, where recorded steps (of programs for GPUs) read it. Arena -1: there are none.
  BufferRef learningRate = {-1, 0};
  // i64: how many of tokenCount were predicted right; kept as tokenCount is. Arena -1: the program does not count them.
  BufferRef correctCount = {-1, 0};
};

// --------------------------------------------------------------------------------------------------- communication

// A set of ranks: all that differ from this one only in `axes`. `stages` empty: this rank's own stage (all stages if
// axes holds them); otherwise those stages. Members are ordered by world rank.
struct GroupDesc {
  const char* name;  // "tp", "dp", "tied wte.weight", "all"
  AxisSet axes;
  ShortList<int> stages;  // {0, 3}
};

struct CollectiveDesc {
  uint32_t id;       // equal in every program that takes part; part of what is matched
  const char* name;  // the op that asked for it: "h.0.mlp.c_proj (partial over tp)"
  CollectiveKind kind;
  int group;                  // index into Program::groups
  ShortList<Axis> flat = {};  // of a flat exchange: the axes by whose coordinate members have shards, major to minor
};

enum class Direction : uint8_t { kSend, kReceive };

// One tensor that crosses a cut. The peer is the rank at the same place of `peerStage`. The address
// in slot s is buffer.offset + s * slotStride. The source of a send lies in a shared arena.
struct TransferDesc {
  uint32_t tag;      // equal on both sides
  const char* name;  // the op whose result it is
  Direction direction;
  int peerStage;
  BufferRef buffer;
  int64_t slotStride;
  int64_t bytes;
  bool backward = false;  // a cotangent
};

struct TransferUse {
  int transfer;    // index into Program::transfers
  int microBatch;  // matched between the two sides, with the tag
  int slot;
};

// -------------------------------------------------------------------------------------------------------- schedule

enum class InstructionKind : uint8_t { kBeginStep, kForward, kBackward, kExchange, kReduce, kApply };

// One step of the stage. The transfers of one kExchange progress together; it ends when all of them are complete
// (a send: when its receiver has copied). Between two ranks, transfers of one direction match in order of issue.
struct Instruction {
  InstructionKind kind;
  int virtualStage = 0;   // kForward, kBackward
  int microBatch = 0;     // kForward, kBackward
  int slot = 0;           // kForward, kBackward: record of saved values
  int firstTransfer = 0;  // kExchange: rows [firstTransfer, firstTransfer + transferCount) of Entry::transferUses
  int transferCount = 0;
};

struct Call {
  int virtualStage;
  int microBatch;
  int slot;
  bool first;  // the step's first forward (or backward) of this virtual stage on this rank: gradients are overwritten
};

// --------------------------------------------------------------------------------------------------------- program

// A way to run a program. All entries share its states and arenas; what the functions of one make in the others is
// dead when it has run through its schedule, but for what states keep.
struct Entry {
  const char* name;   // kTrainEntry, kEvaluateEntry
  Table<int> inputs;  // indices into Program::inputs of what is filled for it
  Table<TransferUse> transferUses;
  Table<Instruction> schedule;  // one step

  // Failures inside are kept by the Context and end the run after the call returns: see Context::status().
  void (*forward)(Context&, const Call&);
  void (*backward)(Context&, const Call&);      // null, as apply, where the schedule has none
  void (*reduce)(Context&);                     // gradients to their totals, lossSum and tokenCount too
  void (*apply)(Context&, float learningRate);  // norm, clip, update

  // Of a program whose entries train several sizes of one dimension of its inputs: that dimension, and this entry's
  // size. The first entry is of the largest, and only those that train have one.
  const char* dim = nullptr;
  int64_t size = 0;
  // Of a smaller size, for each of `inputs`: what of a sample it reads, the beginning along each dimension. The input's
  // buffer then holds samples of this shape. Empty: all of each.
  Table<Shape> samples = {};
};

inline constexpr char kTrainEntry[] = "train", kEvaluateEntry[] = "evaluate";

struct Program {
  const char* name;   // "gpt2-tiny.stage0"
  uint64_t planHash;  // equal in all programs of a job and in its manifest
  Mesh mesh;
  int stage;
  int threads;         // that kernels' workspaces have room for; 0: they bring their own
  int64_t fixedBytes;  // declared beside the arenas: code, stacks, heap; 0: nothing is declared
  bool writesBuffers;  // training's forward changes parameters, such as running averages: --evaluate cannot run it
  bool poisons;        // buffers' lives end with a call of poison(), which hyc-run --poison lets act
  Table<int> architectures;  // of GPUs that it is compiled for, as in 90; none: it runs on CPUs
  BatchDesc batch;
  ScalarsDesc scalars;

  Table<ArenaDesc> arenas;
  Table<StateDesc> states;
  Table<InputDesc> inputs;
  Table<GroupDesc> groups;
  Table<CollectiveDesc> collectives;
  Table<TransferDesc> transfers;
  Table<Entry> entries;  // the first is what the program is for

  bool checksFinite = false;  // a call of checkFinite() follows each op

  // What checkpoints that are written while training goes on need beside the arenas: copies of states that lie in
  // memory, at most, and the buffers and tables of the thread that writes. 0: nothing is declared.
  int64_t snapshotBytes = 0;
  int64_t checkpointWriterBytes = 0;
  // Whether a forward or backward exchanges over Mesh::batch, so that all its coordinates make the same number of them.
  bool meetsInMicroBatches = false;
  // Writes what is the same in every step and lies in an arena for the run: called once, before the first one and
  // before anything is evaluated. Null: there is nothing of the kind.
  void (*prepare)(Context&) = nullptr;
};

// The entries that train, the smallest size first; of a program without sizes its first entry, whatever that does.
std::vector<const Entry*> sizesOf(const Program& program);

// Null: the program has no entry of that name.
const Entry* findEntry(const Program& program, const char* name);

}  // namespace hycrt

#endif  // HYCRT_PROGRAM_H_
