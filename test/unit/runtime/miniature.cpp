// A stage program written by hand, as small as one can be that still does everything: tensor parallelism with padding,
// two stages with opposing transfers, data parallelism, clipping's norm. Compiled for several meshes:
//   TP, PP, DP   the mesh;  STAGE  which stage;  MICRO_BATCHES  per step, so that the global batch stays the same
//
// Per token x (a byte / 256) with the next one as target t, over j < 3:
//   stage 0:  h[j] = x · a[j]                stage 1:  y = Σ b[j] · h[j],  loss = (y - t)² / 2
// a and b are split over tp, two elements a rank, so that with tp 2 the last is padding.
//
// MINIATURE_FAULT="RANK STEP exit|abort|hang|flip" makes one rank misbehave at the start of a step (flip: a bit of a
// parameter changes); MINIATURE_PAUSE makes steps that many milliseconds longer, MINIATURE_SLOW="RANK MILLISECONDS"
// each forward of one rank.
#include <omp.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "hycrt/collectives.h"
#include "hycrt/philox.h"
#include "hycrt/run.h"
#include "test_mesh.h"

using namespace hycrt;

namespace {

constexpr bool kIsFirst = STAGE == 0;
constexpr bool kIsLast = STAGE == PP - 1;

constexpr int64_t kSamples = 2, kSequence = 8, kTokens = kSamples * kSequence;
constexpr int64_t kWidth = 3, kLocal = TP == 1 ? 3 : 2;
constexpr int kSlots = 2;

enum Arena { kParameters, kGradients, kActivations, kCommunication, kHost };
constexpr int64_t kA = 0, kB = 64;                 // parameters, and their gradients
constexpr int64_t kHidden = 0, kHiddenGrad = 512;  // of a slot
constexpr int64_t kSlotBytes = 2048, kError = 1024;
constexpr int64_t kLossSum = 0, kCount = 8, kNorm = 16, kSquares = 24, kOutput = 64;
constexpr int64_t kInputTokens = 0, kLabels = 1024;

constexpr ArenaDesc kArenas[] = {{"parameters", 128, Sharing::kPrivate},
                                 {"gradients", 128, Sharing::kShared},
                                 {"activations", kSlots * kSlotBytes, Sharing::kShared},
                                 {"communication", 1024, Sharing::kShared},
                                 {"host", 2048, Sharing::kPrivate}};

constexpr StateDesc parameter(const char* name, int64_t offset) {
  return {name,
          "parameter",
          DType::kF32,
          {kParameters, offset},
          {kWidth},
          {kWidth},
          {kLocal},
          {{0, kTp}},
          Initializer::normal(0.3, 0.1, stableKey(name))};
}
constexpr StateDesc gradient(const char* name, int64_t offset) {
  return {name, "gradient", DType::kF32, {kGradients, offset}, {kWidth}, {kWidth}, {kLocal}, {{0, kTp}}, {}};
}

#if PP == 1
constexpr StateDesc kStates[] = {parameter("first.weight", kA), gradient("first.weight", kA),
                                 parameter("second.weight", kB), gradient("second.weight", kB)};
constexpr InputDesc kInputs[] = {
    {"input_ids", DType::kI64, InputSource::kTokens, {kHost, kInputTokens}, 128, {kSequence}},
    {"labels", DType::kI32, InputSource::kNextTokens, {kHost, kLabels}, 128, {kSequence}}};
#elif STAGE == 0
constexpr StateDesc kStates[] = {parameter("first.weight", kA), gradient("first.weight", kA)};
constexpr InputDesc kInputs[] = {
    {"input_ids", DType::kI64, InputSource::kTokens, {kHost, kInputTokens}, 128, {kSequence}}};
#else
constexpr StateDesc kStates[] = {parameter("second.weight", kB), gradient("second.weight", kB)};
constexpr InputDesc kInputs[] = {{"labels", DType::kI32, InputSource::kNextTokens, {kHost, kLabels}, 128, {kSequence}}};
#endif

constexpr GroupDesc kGroups[] = {
    {"tp", kTp, {}}, {"dp", kDp, {}}, {"dp × pp", kDp | kPp, {}}, {"tp × pp", kTp | kPp, {}}};
enum Collective { kOutputPartial, kFirstGrad, kSecondGrad, kLossTotal, kCountTotal, kNormTotal };
constexpr CollectiveDesc kCollectives[] = {{0, "second (partial over tp)", CollectiveKind::kAllReduce, 0},
                                           {1, "first.weight.grad", CollectiveKind::kAllReduce, 1},
                                           {2, "second.weight.grad", CollectiveKind::kAllReduce, 1},
                                           {3, "loss sum", CollectiveKind::kAllReduce, 2},
                                           {4, "token count", CollectiveKind::kAllReduce, 2},
                                           {5, "gradient norm", CollectiveKind::kAllReduce, 3}};

using K = InstructionKind;
#if PP == 1
constexpr Table<TransferDesc> kTransfers;
constexpr Table<TransferUse> kUses;
constexpr Instruction kSchedule[] = {{K::kBeginStep},
                                     {K::kForward, 0, 0, 0},
                                     {K::kBackward, 0, 0, 0},
                                     {K::kForward, 0, 1, 0},
                                     {K::kBackward, 0, 1, 0},
#if MICRO_BATCHES == 4
                                     {K::kForward, 0, 2, 0},
                                     {K::kBackward, 0, 2, 0},
                                     {K::kForward, 0, 3, 0},
                                     {K::kBackward, 0, 3, 0},
#endif
                                     {K::kReduce},
                                     {K::kApply}};
#else
constexpr int64_t kHiddenBytes = kTokens * kLocal * 4;
constexpr Direction kForwards = STAGE == 0 ? Direction::kSend : Direction::kReceive;
constexpr Direction kBackwards = STAGE == 0 ? Direction::kReceive : Direction::kSend;
constexpr TransferDesc kTransferRows[] = {
    {10, "first", kForwards, 1 - STAGE, {kActivations, kHidden}, kSlotBytes, kHiddenBytes},
    {11, "first.grad", kBackwards, 1 - STAGE, {kActivations, kHiddenGrad}, kSlotBytes, kHiddenBytes}};
constexpr Table<TransferDesc> kTransfers(kTransferRows);
#if STAGE == 0
constexpr TransferUse kUseRows[] = {{0, 0, 0}, {0, 1, 1}, {1, 0, 0}, {1, 1, 1}};
constexpr Instruction kSchedule[] = {{K::kBeginStep},
                                     {K::kForward, 0, 0, 0},
                                     {K::kExchange, 0, 0, 0, 0, 1},
                                     {K::kForward, 0, 1, 1},
                                     {K::kExchange, 0, 0, 0, 1, 1},
                                     {K::kExchange, 0, 0, 0, 2, 1},
                                     {K::kBackward, 0, 0, 0},
                                     {K::kExchange, 0, 0, 0, 3, 1},
                                     {K::kBackward, 0, 1, 1},
                                     {K::kReduce},
                                     {K::kApply}};
#else
constexpr TransferUse kUseRows[] = {{0, 0, 0}, {1, 0, 0}, {0, 1, 1}, {1, 1, 1}};
constexpr Instruction kSchedule[] = {{K::kBeginStep},
                                     {K::kExchange, 0, 0, 0, 0, 1},  // activation of 0
                                     {K::kForward, 0, 0, 0},
                                     {K::kBackward, 0, 0, 0},
                                     {K::kExchange, 0, 0, 0, 1, 2},  // gradient of 0 and activation of 1: opposing
                                     {K::kForward, 0, 1, 1},
                                     {K::kBackward, 0, 1, 1},
                                     {K::kExchange, 0, 0, 0, 3, 1},
                                     {K::kReduce},
                                     {K::kApply}};
#endif
constexpr Table<TransferUse> kUses(kUseRows);
#endif

// (tokens) and (tokens, width / tp), of one slot
float* hiddenOf(Context& ctx, int slot) { return ctx.ptr<float>(kActivations, slot * kSlotBytes + kHidden); }
float* hiddenGradOf(Context& ctx, int slot) { return ctx.ptr<float>(kActivations, slot * kSlotBytes + kHiddenGrad); }
float* errorOf(Context& ctx, int slot) { return ctx.ptr<float>(kActivations, slot * kSlotBytes + kError); }

void misbehave(const Context& ctx) {
  const char* fault = std::getenv("MINIATURE_FAULT");
  int rank = 0;
  long long step = 0;
  char kind[16] = "";
  if (!fault || std::sscanf(fault, "%d %lld %15s", &rank, &step, kind) != 3) return;
  if (rank != rankOf(ctx.mesh(), ctx.at()) || step != ctx.step()) return;
  std::fprintf(stderr, "about to %s\n", kind);
  if (std::strcmp(kind, "flip") == 0) {
    *ctx.ptr<uint32_t>(kParameters, kIsFirst ? kA : kB) ^= 1u << 12;
    unsetenv("MINIATURE_FAULT");
    return;
  }
  if (std::strcmp(kind, "exit") == 0) _exit(3);
  if (std::strcmp(kind, "abort") == 0) std::abort();
  for (;;) pause();
}

void slowDown(const Context& ctx) {
  const char* slow = std::getenv("MINIATURE_SLOW");
  int rank = 0, milliseconds = 0;
  if (!slow || std::sscanf(slow, "%d %d", &rank, &milliseconds) != 2) return;
  if (rank == rankOf(ctx.mesh(), ctx.at())) usleep(static_cast<useconds_t>(milliseconds) * 1000);
}

void forwardFirst(Context& ctx, int slot) {
  const int64_t* tokens = ctx.ptr<int64_t>(kHost, kInputTokens);
  const float* a = ctx.ptr<float>(kParameters, kA);
  float* h = hiddenOf(ctx, slot);
  for (int64_t t = 0; t < kTokens; ++t) {
    for (int64_t j = 0; j < kLocal; ++j) h[t * kLocal + j] = static_cast<float>(tokens[t]) / 256 * a[j];
  }
  mark(ctx);
}

void forwardLast(Context& ctx, int slot) {
  const float* b = ctx.ptr<float>(kParameters, kB);
  const float* h = hiddenOf(ctx, slot);
  float* y = ctx.ptr<float>(kCommunication, kOutput);
  for (int64_t t = 0; t < kTokens; ++t) {
    y[t] = 0;
    for (int64_t j = 0; j < kLocal; ++j) y[t] += b[j] * h[t * kLocal + j];
  }
  mark(ctx);
  const Ticket partial = allReduceStart(ctx, kOutputPartial, {kCommunication, kOutput}, kTokens, DType::kF32);
  mark(ctx);
  wait(ctx, partial);
  mark(ctx);
  const int32_t* labels = ctx.ptr<int32_t>(kHost, kLabels);
  float* error = errorOf(ctx, slot);
  float* lossSum = ctx.ptr<float>(kCommunication, kLossSum);
  for (int64_t t = 0; t < kTokens; ++t) {
    error[t] = y[t] - static_cast<float>(labels[t]) / 256;
    *lossSum += error[t] * error[t] / 2;
  }
  *ctx.ptr<int64_t>(kCommunication, kCount) += kTokens;
  mark(ctx, 2);
}

void forward(Context& ctx, const Call& call) {
  misbehave(ctx);
  slowDown(ctx);
  if (kIsFirst) forwardFirst(ctx, call.slot);
  if (kIsLast) forwardLast(ctx, call.slot);
}

// Overwrites in the first micro-batch, adds in the others.
void accumulate(float* gradient, const float* sum, bool first) {
  for (int64_t j = 0; j < kLocal; ++j) gradient[j] = first ? sum[j] : gradient[j] + sum[j];
}

void backwardLast(Context& ctx, const Call& call) {
  const float* b = ctx.ptr<float>(kParameters, kB);
  const float* h = hiddenOf(ctx, call.slot);
  const float* error = errorOf(ctx, call.slot);
  float* dh = hiddenGradOf(ctx, call.slot);
  float sum[kLocal] = {};
  for (int64_t t = 0; t < kTokens; ++t) {
    for (int64_t j = 0; j < kLocal; ++j) {
      sum[j] += error[t] * h[t * kLocal + j];
      dh[t * kLocal + j] = error[t] * b[j];
    }
  }
  accumulate(ctx.ptr<float>(kGradients, kB), sum, call.first);
  mark(ctx);
}

void backwardFirst(Context& ctx, const Call& call) {
  const int64_t* tokens = ctx.ptr<int64_t>(kHost, kInputTokens);
  const float* dh = hiddenGradOf(ctx, call.slot);
  float sum[kLocal] = {};
  for (int64_t t = 0; t < kTokens; ++t) {
    for (int64_t j = 0; j < kLocal; ++j) sum[j] += dh[t * kLocal + j] * static_cast<float>(tokens[t]) / 256;
  }
  accumulate(ctx.ptr<float>(kGradients, kA), sum, call.first);
  mark(ctx);
}

void backward(Context& ctx, const Call& call) {
  if (kIsLast) backwardLast(ctx, call);
  if (kIsFirst) backwardFirst(ctx, call);
}

void reduce(Context& ctx) {
  if (const char* pause = std::getenv("MINIATURE_PAUSE")) usleep(static_cast<useconds_t>(std::atoi(pause)) * 1000);
  Ticket first, second;
  if (kIsFirst) first = allReduceStart(ctx, kFirstGrad, {kGradients, kA}, kLocal, DType::kF32);
  if (kIsLast) second = allReduceStart(ctx, kSecondGrad, {kGradients, kB}, kLocal, DType::kF32);
  const Ticket loss = allReduceStart(ctx, kLossTotal, {kCommunication, kLossSum}, 1, DType::kF32);
  const Ticket count = allReduceStart(ctx, kCountTotal, {kCommunication, kCount}, 1, DType::kI64);
  wait(ctx, first);
  wait(ctx, second);
  wait(ctx, loss);
  wait(ctx, count);
}

void apply(Context& ctx, float learningRate) {
  const int64_t begin = kIsFirst ? 0 : 16, end = kIsLast ? 16 + kLocal : kLocal;
  float* weights = ctx.ptr<float>(kParameters, 0);
  const float* gradients = ctx.ptr<float>(kGradients, 0);
  double* squares = ctx.ptr<double>(kCommunication, kSquares);
  *squares = 0;
  for (int64_t i = begin; i < end; ++i) *squares += double{gradients[i]} * gradients[i];
  wait(ctx, allReduceStart(ctx, kNormTotal, {kCommunication, kSquares}, 1, DType::kF64));
  const float count = static_cast<float>(*ctx.ptr<int64_t>(kCommunication, kCount));
  *ctx.ptr<float>(kCommunication, kNorm) = static_cast<float>(std::sqrt(*squares)) / count;
  for (int64_t i = begin; i < end; ++i) weights[i] -= learningRate * gradients[i] / count;
}

#if PP == 1
constexpr int kInputsOfEntry[] = {0, 1};
#else
constexpr int kInputsOfEntry[] = {0};
#endif
constexpr Entry kEntries[] = {{kTrainEntry, kInputsOfEntry, kUses, kSchedule, forward, backward, reduce, apply}};

// Room for copies of all states, each from a multiple of 64 on.
constexpr int64_t bytesOfCopies() {
  int64_t bytes = 0;
  for (const StateDesc& state : kStates) bytes += (heldElements(state) * 4 + 63) / 64 * 64;
  return bytes;
}

constexpr Program kProgram = {"miniature",
                              0x1234,
                              meshOf(TP, PP, DP),
                              STAGE,
                              0,      // threads
                              0,      // fixed bytes
                              false,  // writes no buffers
                              false,  // poisons nothing
                              {},     // no GPUs
                              {kSamples, MICRO_BATCHES, kSequence},
                              {{kCommunication, kLossSum}, {kCommunication, kCount}, {kCommunication, kNorm}},
                              kArenas,
                              kStates,
                              kInputs,
                              kGroups,
                              kCollectives,
                              kTransfers,
                              kEntries,
                              false,  // checks nothing for infinities
                              bytesOfCopies(),
                              3 << 20};

}  // namespace

#ifdef HYC_EMBEDDED
const Program& miniatureProgram() { return kProgram; }
#else
int main(int argc, char** argv) { return runProgram(argc, argv, kProgram); }
#endif
