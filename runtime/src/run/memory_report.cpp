// Measures what arenas and the rest of a rank came to.
#include "hycrt/memory_report.h"

#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

#include "base/file.h"
#include "base/json_text.h"
#include "io/block_file.h"
#include "memory/rank_memory.h"

namespace hycrt {
namespace {

constexpr size_t kRanksShown = 16;

// Bytes of [begin, end) that some mapping covers.
int64_t mappedBytes(uintptr_t begin, uintptr_t end) {
  std::ifstream maps("/proc/self/maps");
  int64_t bytes = 0;
  for (std::string line; std::getline(maps, line);) {
    uintptr_t from = 0, to = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR, &from, &to) != 2) continue;
    from = std::max(from, begin);
    to = std::min(to, end);
    if (from < to) bytes += static_cast<int64_t>(to - from);
  }
  return bytes;
}

// What smaps says of the process, split by whether arenas lie there. Arenas' mappings are never merged with others':
// the private ones have guard pages around them, the shared ones a name.
struct Resident {
  int64_t proportional = 0;  // of the whole process
  int64_t outside = 0, proportionalOutside = 0;
};

Resident residentBytes(const Program& program, std::byte* const* arenas, const CheckpointMemory& checkpoints) {
  const auto holdsArena = [&](uintptr_t from, uintptr_t to, const std::string& line) {
    if (line.find(kArenaFileName) != std::string::npos) return true;
    for (const CheckpointMemory::Room& room : checkpoints.rooms) {
      const uintptr_t begin = reinterpret_cast<uintptr_t>(room.base);
      if (begin && begin < to && from < begin + static_cast<uintptr_t>(room.bytes)) return true;
    }
    for (int64_t i = 0; i < program.arenas.size; ++i) {
      const uintptr_t begin = reinterpret_cast<uintptr_t>(arenas[i]);
      if (begin && begin < to && from < begin + static_cast<uintptr_t>(program.arenas[i].bytes)) return true;
    }
    return false;
  };
  std::ifstream maps("/proc/self/smaps");
  Resident bytes;
  bool isArena = false;
  for (std::string line; std::getline(maps, line);) {
    uintptr_t from = 0, to = 0;
    long long kilobytes = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " ", &from, &to) == 2) {
      isArena = holdsArena(from, to, line);
    } else if (std::sscanf(line.c_str(), "Rss: %lld kB", &kilobytes) == 1) {
      if (!isArena) bytes.outside += int64_t{kilobytes} * 1024;
    } else if (std::sscanf(line.c_str(), "Pss: %lld kB", &kilobytes) == 1) {
      bytes.proportional += int64_t{kilobytes} * 1024;
      if (!isArena) bytes.proportionalOutside += int64_t{kilobytes} * 1024;
    }
  }
  return bytes;
}

// From the last byte backwards: what follows the last whole word of the arena counts as written.
int64_t touchedBytes(const std::byte* arena, int64_t bytes) {
  const int64_t words = bytes / 4;
  if (bytes % 4 != 0) return bytes;
  for (int64_t i = words; i > 0; --i) {
    uint32_t word;
    std::memcpy(&word, arena + (i - 1) * 4, sizeof word);
    if (word != kUntouched) return i * 4;
  }
  return 0;
}

std::string mebibytes(int64_t bytes) {
  char text[64];
  std::snprintf(text, sizeof text, "%.2f", static_cast<double>(bytes) / (1 << 20));
  return text;
}

// The sums of a job, or one rank's figures.
struct TableRow {
  int64_t planned = 0, resident = 0, outside = 0, fixed = 0;
  void add(const MemoryRecord& record) {
    planned += record.planned();
    resident += record.resident;
    outside += record.outside - record.shared;
    fixed += record.fixed - record.shared;
  }
};

std::string tableLine(const std::string& name, const TableRow& row) {
  char text[160];
  // Of a small model less is resident than was declared for code, stacks and heap alone.
  char ratio[32] = "  within what was declared";
  if (row.resident >= row.fixed) {
    const double planned = static_cast<double>(std::max<int64_t>(row.planned, 1));
    std::snprintf(ratio, sizeof ratio, "%8.3f", static_cast<double>(row.resident - row.fixed) / planned);
  }
  std::snprintf(text, sizeof text, "%-9s %12s %12s %12s %12s %s\n", name.c_str(), mebibytes(row.planned).c_str(),
                mebibytes(row.resident).c_str(), mebibytes(row.outside).c_str(), mebibytes(row.fixed).c_str(), ratio);
  return text;
}

std::string deviceLine(const std::string& name, const DeviceMemory& device, int64_t resident) {
  char text[160];
  const double ratio =
      device.planned > 0 ? static_cast<double>(device.arenas) / static_cast<double>(device.planned) : 0;
  std::snprintf(text, sizeof text, "%-9s %12s %12s %12s %12s %8.3f %12s\n", name.c_str(),
                mebibytes(device.planned).c_str(), mebibytes(device.arenas).c_str(), mebibytes(device.later).c_str(),
                mebibytes(device.before).c_str(), ratio, mebibytes(resident).c_str());
  return text;
}

// Ranks may share a device, so that their figures do not add up.
std::string toDeviceTable(const std::vector<MemoryRecord>& records) {
  std::string text =
      "memory in MiB   planned    allocated    libraries  context and  allocated        of the\n"
      "                 arenas   for arenas    and rings       others  / planned          host\n";
  for (size_t i = 0; i < std::min(records.size(), kRanksShown); ++i) {
    if (const MemoryRecord& record = records[i]; record.device)
      text += deviceLine("rank " + std::to_string(record.rank), *record.device, record.resident);
  }
  return text;
}

}  // namespace

int64_t MemoryRecord::planned() const {
  int64_t bytes = 0;
  for (const ArenaUse& arena : arenas) bytes += arena.inFile ? 0 : arena.planned;
  return bytes;
}

int64_t CheckpointMemory::bytes() const {
  int64_t all = writerBytes;
  for (const Room& room : rooms) all += room.bytes;
  return all;
}

int64_t plannedBytes(const Program& program) {
  int64_t bytes = program.fixedBytes;
  for (const ArenaDesc& arena : program.arenas) bytes += arena.sharing == Sharing::kFile ? 0 : arena.bytes;
  return bytes;
}

void fillUntouched(std::byte* arena, int64_t bytes) {
  for (int64_t at = 0; at < bytes; at += 4) {
    std::memcpy(arena + at, &kUntouched, static_cast<size_t>(std::min<int64_t>(4, bytes - at)));
  }
}

MemoryRecord measureMemory(const Program& program, const MeasuredMemory& memory, int rank) {
  const Resident resident = residentBytes(program, memory.arenas, memory.checkpoints);
  MemoryRecord record;
  record.rank = rank;
  record.resident = resident.proportional;
  record.outside = resident.outside + memory.tableBytes;
  record.shared = resident.outside - resident.proportionalOutside;
  record.fixed = program.fixedBytes + memory.checkpoints.writerBytes + memory.measurementBytes + memory.networkBytes;
  for (int64_t i = 0; i < program.arenas.size; ++i) {
    const ArenaDesc& desc = program.arenas[i];
    ArenaUse use{desc.name, desc.bytes};
    if (desc.sharing == Sharing::kFile) {
      use.inFile = true;
      use.mapped = memory.file->fileBytes();
      if (memory.filled) use.touched = memory.file->totals().writtenTo;
      record.arenas.push_back(std::move(use));
      continue;
    }
    const uintptr_t begin = reinterpret_cast<uintptr_t>(memory.arenas[i]);
    use.mapped = mappedBytes(begin, begin + static_cast<uintptr_t>(desc.bytes));
    if (memory.filled) use.touched = touchedBytes(memory.arenas[i], desc.bytes);
    record.arenas.push_back(std::move(use));
  }
  for (const CheckpointMemory::Room& room : memory.checkpoints.rooms) {
    const uintptr_t begin = reinterpret_cast<uintptr_t>(room.base);
    ArenaUse use{room.name, room.bytes};
    use.mapped = mappedBytes(begin, begin + static_cast<uintptr_t>(room.bytes));
    record.arenas.push_back(std::move(use));
  }
  return record;
}

std::string toJson(const MemoryRecord& record) {
  nlohmann::ordered_json arenas = nlohmann::ordered_json::array();
  for (const ArenaUse& use : record.arenas) {
    arenas.push_back({{"name", use.name}, {"planned", use.planned}, {"mapped", use.mapped}, {"touched", use.touched}});
    if (use.inFile) arenas.back()["in_file"] = true;
  }
  nlohmann::ordered_json object;
  object["memory"] = {{"rank", record.rank},     {"resident", record.resident}, {"outside", record.outside},
                      {"shared", record.shared}, {"fixed", record.fixed},       {"arenas", std::move(arenas)}};
  if (record.device) {
    object["memory"]["device"] = {{"planned", record.device->planned},
                                  {"arenas", record.device->arenas},
                                  {"later", record.device->later},
                                  {"before", record.device->before}};
  }
  return object.dump();
}

Result<MemoryRecord> parseMemoryRecord(std::string_view text) {
  Result<nlohmann::json> object = parseJson(text, "memory record");
  if (!object.ok()) return object.status();
  if (!object->is_object()) return dataError("memory record: expected an object");
  const auto found = object->find("memory");
  if (found == object->end() || !found->is_object()) return dataError("memory record: expected the key \"memory\"");
  const auto number = [](const nlohmann::json& from, const char* key) -> int64_t {
    const auto value = from.find(key);
    return value != from.end() && value->is_number_integer() ? value->get<int64_t>() : 0;
  };
  MemoryRecord record;
  record.rank = static_cast<int>(number(*found, "rank"));
  record.resident = number(*found, "resident");
  record.outside = number(*found, "outside");
  record.shared = number(*found, "shared");
  record.fixed = number(*found, "fixed");
  if (const auto device = found->find("device"); device != found->end() && device->is_object()) {
    record.device = {number(*device, "planned"), number(*device, "arenas"), number(*device, "later"),
                     number(*device, "before")};
  }
  const auto arenas = found->find("arenas");
  if (arenas == found->end() || !arenas->is_array()) return dataError("memory record: expected arenas");
  for (const nlohmann::json& arena : *arenas) {
    if (!arena.is_object() || !arena.contains("name") || !arena["name"].is_string()) {
      return dataError("memory record: an arena has no name");
    }
    record.arenas.push_back({arena["name"].get<std::string>(), number(arena, "planned"), number(arena, "mapped"),
                             number(arena, "touched"), arena.contains("in_file") && arena["in_file"] == true});
  }
  return record;
}

Status writeMemoryRecords(const std::vector<MemoryRecord>& records, const std::string& path, const std::string& run) {
  std::string text;
  for (const MemoryRecord& record : records) text += toJson(record) + "\n";
  return publishText(partialName(path, run), path, text);
}

std::string toTable(const std::vector<MemoryRecord>& records) {
  if (records.empty()) return "";
  if (records.front().device) return toDeviceTable(records);
  std::string text =
      "memory in MiB   planned     resident    of it not     declared   (resident - declared)\n"
      "                 arenas                 in arenas                     / planned\n";
  TableRow all;
  for (const MemoryRecord& record : records) {
    TableRow row;
    row.add(record);
    all.add(record);
    if (records.size() <= kRanksShown) text += tableLine("rank " + std::to_string(record.rank), row);
  }
  if (records.size() > 1) text += tableLine("all", all);
  return text;
}

}  // namespace hycrt
