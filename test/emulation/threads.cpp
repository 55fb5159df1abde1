// A block's threads as coroutines, and what a warp does together.
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <vector>

#include "cuda_runtime.h"
#include "kernels/cuda/tensor_core.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

// Leaves the stack of one coroutine for that of another: *from gets the stack pointer that `to` was once. What a call
// must keep is kept on the stacks. (glibc's swapcontext asks the kernel for the signal mask, twice a switch.)
#if defined(__x86_64__)
extern "C" void hycEmulationSwitch(void **from, void *to);
asm(R"(
.text
.globl hycEmulationSwitch
hycEmulationSwitch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");
constexpr int kKeptRegisters = 6;
#elif defined(__aarch64__)
extern "C" void hycEmulationSwitch(void **from, void *to);
asm(R"(
.text
.globl hycEmulationSwitch
hycEmulationSwitch:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
)");
#else
#error "the emulation switches stacks on x86-64 and AArch64"
#endif

namespace emulation {
namespace {

constexpr size_t kStackBytes = size_t{192} << 10;
constexpr int kWarp = 32;

enum class State { kRunning, kAtBlockBarrier, kAtWarpBarrier, kDone };

struct PendingCopy {
  void *to;
  const void *from;
  int bytes, validBytes;
};

struct Thread {
  void *top = nullptr; // of its stack, while it is not running
  std::unique_ptr<char[]> stack;
  uint3 index;
  State state = State::kDone;
  const void *passed = nullptr;
  uint64_t value = 0;
  std::vector<PendingCopy> open;
  std::deque<std::vector<PendingCopy>> committed;
};

std::vector<std::unique_ptr<Thread>> threads;
void *scheduler = nullptr;
Thread *current = nullptr;
int currentNumber = 0;
const std::function<void()> *body = nullptr;

void pause(State state) {
  current->state = state;
  hycEmulationSwitch(&current->top, scheduler);
}

void runBody() {
  (*body)();
  pause(State::kDone);
}

// A stack that the switch returns from into runBody.
void *makeStack(char *memory) {
  uintptr_t top = (reinterpret_cast<uintptr_t>(memory) + kStackBytes) & ~uintptr_t{63};
#if defined(__x86_64__)
  // As after a call: 8 bytes below a multiple of 16 when runBody begins.
  void **at = reinterpret_cast<void **>(top - 64);
  *--at = nullptr;
  *--at = reinterpret_cast<void *>(&runBody);
  for (int i = 0; i < kKeptRegisters; ++i)
    *--at = nullptr;
  return at;
#else
  char *frame = reinterpret_cast<char *>(top - 64 - 160);
  std::memset(frame, 0, 160);
  void *const entry = reinterpret_cast<void *>(&runBody);
  std::memcpy(frame + 88, &entry, sizeof entry);
  return frame;
#endif
}

[[noreturn]] void fail(const char *what) {
  std::fprintf(stderr, "emulation: %s in block (%u, %u, %u)\n", what, blockIdx.x, blockIdx.y, blockIdx.z);
  std::abort();
}

void resume(int number) {
  current = threads[static_cast<size_t>(number)].get();
  currentNumber = number;
  threadIdx = current->index;
  current->state = State::kRunning;
  hycEmulationSwitch(&scheduler, current->top);
}

bool isDescending() {
  const char *order = std::getenv("HYC_EMULATION_ORDER");
  return order && std::strcmp(order, "descending") == 0;
}

void prepare(int count) {
  while (static_cast<int>(threads.size()) < count) {
    threads.push_back(std::make_unique<Thread>());
    threads.back()->stack.reset(new char[kStackBytes]);
  }
  for (int i = 0; i < count; ++i) {
    Thread &thread = *threads[static_cast<size_t>(i)];
    thread.top = makeStack(thread.stack.get());
    const unsigned n = static_cast<unsigned>(i);
    thread.index = {n % blockDim.x, n / blockDim.x % blockDim.y, n / (blockDim.x * blockDim.y)};
    thread.state = State::kRunning;
    thread.open.clear();
    thread.committed.clear();
  }
}

bool allAre(int begin, int end, State state) {
  for (int i = begin; i < end; ++i)
    if (threads[static_cast<size_t>(i)]->state != state)
      return false;
  return true;
}

// A warp as far as it gets by itself: to a barrier of the block, or to its end.
void runWarp(int begin, int end, bool descending) {
  for (;;) {
    for (int i = 0; i < end - begin; ++i) {
      const int number = descending ? end - 1 - i : begin + i;
      const State state = threads[static_cast<size_t>(number)]->state;
      if (state == State::kRunning || state == State::kAtWarpBarrier)
        resume(number);
    }
    if (allAre(begin, end, State::kAtWarpBarrier))
      continue;
    for (int i = begin; i < end; ++i)
      if (threads[static_cast<size_t>(i)]->state == State::kAtWarpBarrier)
        fail("lanes of one warp are at different places where the whole warp is needed");
    return;
  }
}

void runBlock(bool descending) {
  const int count = static_cast<int>(blockDim.x * blockDim.y * blockDim.z);
  prepare(count);
  const int warps = (count + kWarp - 1) / kWarp;
  for (;;) {
    for (int w = 0; w < warps; ++w) {
      const int warp = descending ? warps - 1 - w : w;
      runWarp(warp * kWarp, std::min(count, (warp + 1) * kWarp), descending);
    }
    if (allAre(0, count, State::kDone))
      return;
    if (!allAre(0, count, State::kAtBlockBarrier))
      fail("a barrier is not reached by all threads");
    for (int i = 0; i < count; ++i)
      threads[static_cast<size_t>(i)]->state = State::kRunning;
  }
}

Thread &inWarp(int lane) { return *threads[static_cast<size_t>(currentNumber / kWarp * kWarp + lane)]; }

} // namespace

int lane() { return currentNumber % kWarp; }
void warpBarrier() { pause(State::kAtWarpBarrier); }

uint64_t exchange(uint64_t value, int from) {
  current->value = value;
  warpBarrier();
  const uint64_t result = inWarp(from).value;
  warpBarrier();
  return result;
}

void pass(const void *mine) {
  current->passed = mine;
  warpBarrier();
}
const void *passedBy(int lane) { return inWarp(lane).passed; }

void copyLater(void *to, const void *from, int bytes, int validBytes) {
  current->open.push_back({to, from, bytes, validBytes});
}
void commitCopies() {
  current->committed.push_back(std::move(current->open));
  current->open.clear();
}
void waitCopies(int mostGroupsLeft) {
  while (static_cast<int>(current->committed.size()) > mostGroupsLeft) {
    for (const PendingCopy &copy : current->committed.front()) {
      std::memset(copy.to, 0, static_cast<size_t>(copy.bytes));
      std::memcpy(copy.to, copy.from, static_cast<size_t>(copy.validBytes));
    }
    current->committed.pop_front();
  }
}

void runGrid(const cudaLaunchConfig_t &config, const std::function<void()> &thread) {
  blockDim = config.blockDim;
  gridDim = config.gridDim;
  body = &thread;
  const bool descending = isDescending();
  const unsigned count = gridDim.x * gridDim.y * gridDim.z;
  for (unsigned i = 0; i < count; ++i) {
    const unsigned block = descending ? count - 1 - i : i;
    blockIdx = {block % gridDim.x, block / gridDim.x % gridDim.y, block / (gridDim.x * gridDim.y)};
    runBlock(descending);
  }
}

} // namespace emulation

void __syncthreads() { emulation::pause(emulation::State::kAtBlockBarrier); }
void __syncwarp(unsigned) { emulation::warpBarrier(); }

namespace hyc::kernels::cuda {

unsigned char *dynamicShared() {
  alignas(128) static unsigned char memory[228 << 10];
  return memory;
}

namespace {

float widenBits(uint16_t bits, bool isBf16) { return isBf16 ? narrow::fromBf16(bits) : narrow::fromF16(bits); }
uint16_t halfOf(uint32_t pair, int which) { return static_cast<uint16_t>(which ? pair >> 16 : pair); }

struct MmaOperands {
  const uint32_t *a, *b;
};

} // namespace

// Fragments as the PTX manual lays them out ("Matrix Fragments for mma.m16n8k16 with floating point type"): of lane l,
// group g = l / 4 and t = l % 4, A holds rows g and g + 8, columns 2t, 2t + 1 and those plus 8; B rows 2t, 2t + 1 and
// those plus 8 of column g; C rows g and g + 8, columns 2t and 2t + 1.
void mmaOnHost(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], bool isBf16) {
  const MmaOperands mine{a, b};
  float matrixA[16][16], matrixB[16][8];
  emulation::pass(&mine);
  for (int from = 0; from < 32; ++from) {
    const auto *other = static_cast<const MmaOperands *>(emulation::passedBy(from));
    const int g = from / 4, t = from % 4;
    for (int i = 0; i < 8; ++i) {
      const int row = g + (i / 2 % 2) * 8, column = 2 * t + i % 2 + (i / 4) * 8;
      matrixA[row][column] = widenBits(halfOf(other->a[i / 2], i % 2), isBf16);
    }
    for (int i = 0; i < 4; ++i)
      matrixB[2 * t + i % 2 + (i / 2) * 8][g] = widenBits(halfOf(other->b[i / 2], i % 2), isBf16);
  }
  emulation::warpBarrier(); // nobody's operands change before all have read them
  const int g = emulation::lane() / 4, t = emulation::lane() % 4;
  for (int i = 0; i < 4; ++i) {
    const int row = g + (i / 2) * 8, column = 2 * t + i % 2;
    for (int k = 0; k < 16; ++k)
      d[i] += matrixA[row][k] * matrixB[k][column];
  }
}

// Lanes 8m … 8m + 7 give the rows of matrix m, 16 bytes each; lane l gets elements 2t and 2t + 1 of row g of each
// matrix, or of its transposed.
void loadMatricesOnHost(uint32_t (&to)[4], const void *row, bool transposed) {
  const void *rows[32];
  emulation::pass(row);
  for (int from = 0; from < 32; ++from)
    rows[from] = emulation::passedBy(from);
  const int g = emulation::lane() / 4, t = emulation::lane() % 4;
  for (int m = 0; m < 4; ++m) {
    uint16_t pair[2];
    for (int i = 0; i < 2; ++i) {
      const int r = transposed ? 2 * t + i : g, c = transposed ? g : 2 * t + i;
      std::memcpy(&pair[i], static_cast<const char *>(rows[8 * m + r]) + 2 * c, 2);
    }
    to[m] = pair[0] | uint32_t{pair[1]} << 16;
  }
  emulation::warpBarrier();
}

} // namespace hyc::kernels::cuda
