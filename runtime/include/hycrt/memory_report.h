// What a rank's memory came to, beside what the compiler planned. Every figure but `planned` is measured: addresses
// that the kernel has mapped, bytes that were written, pages that are resident.
#ifndef HYCRT_MEMORY_REPORT_H_
#define HYCRT_MEMORY_REPORT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hycrt/accelerator.h"
#include "hycrt/program.h"
#include "hycrt/status.h"

namespace hycrt {

struct ArenaUse {
  std::string name;
  int64_t planned = 0;
  int64_t mapped = 0;    // bytes of the arena that belong to a mapping of this process, by /proc/self/maps; of a file,
                         // its size
  int64_t touched = -1;  // up to the end of the last 4-byte word that was written; -1: not asked for
  bool inFile = false;
};

struct MemoryRecord {
  int rank = 0;
  int64_t resident = 0;  // the process's proportional set size (/proc/self/smaps); 0: the kernel does not say
  int64_t outside = 0;  // resident pages outside of arenas, this rank's and its peers', counted whole; channels' tables
  int64_t shared = 0;   // the part of these that the proportional figure leaves to other processes: code, above all
  // What was declared for `outside`: by the compiler (Program::fixedBytes, checkpointWriterBytes), by what a profile
  // takes, and by the exchanges with other hosts, of which only a run knows where its ranks stand.
  int64_t fixed = 0;
  std::vector<ArenaUse> arenas;        // "snapshot" and "copy", of a run that has them: what this rank copies
  std::optional<DeviceMemory> device;  // of a program for GPUs, whose arenas are there

  int64_t planned() const;  // of the arenas in memory
};

// What the compiler planned for a rank in memory, and declared beside it.
int64_t plannedBytes(const Program& program);

class BlockFile;

// The pattern that --measure-memory fills arenas with, so that what is written can be told from what is not: as f32 a
// NaN, so that whoever reads what nobody wrote is found out, too.
inline constexpr uint32_t kUntouched = 0xFFC3E197;
void fillUntouched(std::byte* arena, int64_t bytes);

// What a rank has for checkpoints that are written while training goes on.
struct CheckpointMemory {
  // Room for copies of states: of checkpoints, and of what goes into the memory of other hosts (--copy).
  struct Room {
    const char* name;
    const std::byte* base;
    int64_t bytes;
  };
  std::vector<Room> rooms;
  int64_t writerBytes = 0;  // declared for the writing; 0: nothing was written
  int64_t bytes() const;
};

// Where a rank's arenas are, and what lies in front of the shared ones.
struct MeasuredMemory {
  std::byte* const* arenas = nullptr;
  const BlockFile* file = nullptr;  // the arena that is one; null: none is
  int64_t tableBytes = 0;
  bool filled = false;  // with kUntouched, before anything else
  CheckpointMemory checkpoints;
  int64_t measurementBytes = 0;  // declared for what a run measures (--profile)
  int64_t networkBytes = 0;      // what exchanges with ranks of other hosts have taken
};

// Reads /proc and, where they were filled, the arenas.
MemoryRecord measureMemory(const Program& program, const MeasuredMemory& memory, int rank);

// One line of JSON:
// {"memory":{"rank":0,"resident":…,"outside":…,"shared":…,"fixed":…,"arenas":[{"name":"parameters","planned":…,…}]}},
// and of a program for GPUs "device":{"planned":…,"arenas":…,"later":…,"before":…}.
std::string toJson(const MemoryRecord& record);
Result<MemoryRecord> parseMemoryRecord(std::string_view json);

// A line each, into a file that is whole or not there. `run` is the run's name (saved_weights.h).
Status writeMemoryRecords(const std::vector<MemoryRecord>& records, const std::string& path, const std::string& run);

// The table that ends a run: a line a rank, or the extremes where there are many, and the job's total.
std::string toTable(const std::vector<MemoryRecord>& records);

}  // namespace hycrt

#endif  // HYCRT_MEMORY_REPORT_H_
