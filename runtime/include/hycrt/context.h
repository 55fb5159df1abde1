// Context: what a generated function is given. Addresses, coordinates, the step; and the first error of this rank.
// One thread uses it (kernels may run OpenMP teams below). The surprise: a collective that fails does not throw or
// exit. It records the error, every later collective returns at once, and the run ends after the current instruction;
// generated code therefore carries no error handling, and computes on stale values for that short while.
#ifndef HYCRT_CONTEXT_H_
#define HYCRT_CONTEXT_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <unordered_set>

#include "hycrt/mesh.h"
#include "hycrt/program.h"
#include "hycrt/status.h"

namespace hycrt {

class Accelerator;
class BlockFile;
class Exchanger;
class Profile;

class Context {
 public:
  Context(const Program& program, Coordinates at, std::byte* const* arenas, Exchanger* exchanger,
          BlockFile* file = nullptr, Accelerator* accelerator = nullptr)
      : program_(program), at_(at), arenas_(arenas), exchanger_(exchanger), file_(file), accelerator_(accelerator) {}
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const Program& program() const { return program_; }
  const Coordinates& at() const { return at_; }
  // Along one axis, or several.
  int64_t coordinate(const ShortList<Axis>& axes) const { return coordinateOf(program_.mesh, at_, axes); }
  const Mesh& mesh() const { return program_.mesh; }

  // The first byte of an arena; valid for the whole run. Null for a file. Of a program with an accelerator: of the
  // arena's image on the host.
  std::byte* arena(int index) const { return arenas_[index]; }

  std::byte* const* arenas() const { return arenas_; }

  // A typed address: ctx.ptr<float>(kParameters, 4096).
  template <typename T>
  T* ptr(int arenaIndex, int64_t offset) const {
    return reinterpret_cast<T*>(arenas_[arenaIndex] + offset);
  }
  template <typename T>
  T* ptr(BufferRef buffer) const {
    return ptr<T>(buffer.arena, buffer.offset);
  }

  int64_t step() const { return step_; }  // 0 in the first step
  uint64_t seed() const { return seed_; }

  const Status& status() const { return status_; }
  void fail(Status status) {
    if (status_.ok()) status_ = std::move(status);
  }

  // What passes between this rank and the others.
  Exchanger& exchanger() const { return *exchanger_; }

  // The arena that is a file; null where the program has none.
  BlockFile* file() const { return file_; }

  // The device that arenas and kernels are on; null for programs of the CPU target.
  Accelerator* accelerator() const { return accelerator_; }

  // Where an infinity that is no error was seen last (hycrt/finite.h).
  std::unordered_set<const void*>& infinities() { return infinities_; }

  // Whether buffers lose their contents where their planned life ends (hyc-run --poison).
  bool poisons() const { return poisons_; }

  // What the run measures; null: nothing.
  Profile* profile() const { return profile_; }

  // For the runtime's own step loop.
  void setProfile(Profile* profile) { profile_ = profile; }
  void setPoisons(bool poisons) { poisons_ = poisons; }
  void setSeed(uint64_t seed) { seed_ = seed; }
  void setStep(int64_t step) { step_ = step; }

 private:
  const Program& program_;
  Coordinates at_;
  std::byte* const* arenas_;
  Exchanger* exchanger_;
  BlockFile* file_;
  Accelerator* accelerator_;
  int64_t step_ = 0;
  uint64_t seed_ = 0;
  bool poisons_ = false;
  Profile* profile_ = nullptr;
  Status status_;
  std::unordered_set<const void*> infinities_;
};

// Bytes of ones: a NaN, or -1. Generated code calls it where a buffer's life ends (hyc-compile --poison).
inline void poison(const Context& ctx, std::byte* begin, int64_t bytes) {
  if (ctx.poisons()) std::memset(begin, 0xFF, static_cast<size_t>(bytes));
}

// The end of a statement that takes time, or of `calls` that are one statement. Generated code calls it behind each, so
// that any program can be profiled (hyc-run --profile); one that is not pays for a test of a pointer.
void markCalls(Profile& profile, int calls);
inline void mark(const Context& ctx, int calls = 1) {
  if (Profile* const profile = ctx.profile()) [[unlikely]]
    markCalls(*profile, calls);
}

}  // namespace hycrt

#endif  // HYCRT_CONTEXT_H_
