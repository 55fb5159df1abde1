// Curves of the account: of each column of the screen the moment at which most is alive, and for each instruction what
// that is made of.
#include "Page/PageData.h"

#include "Report/MemoryReport.h"

#include <algorithm>
#include <map>
#include <tuple>

using namespace llvm;
using namespace hyc;

/// Columns of a curve, stages, and rows of what is alive.
static constexpr size_t kMostColumns = 900, kMostStages = 8, kMostAlive = 12;
/// Instructions of a stage that are told, and different moments: what is beyond has its curve alone.
static constexpr size_t kMostInstructions = 1000, kMostMoments = 200;

static json::Value text(StringRef value) { return json::fixUTF8(value); }

namespace {
/// Tensors of one kind of layer that are alive together.
struct AliveRow {
  int64_t bytes = 0, count = 0;
  std::string name, type, op;
};

class StageCurves {
public:
  explicit StageCurves(const StageAccount &stage) : stage(stage) {
    for (const ArenaAccount &arena : stage.arenas)
      alive.push_back(aliveOverTime(stage, arena));
    size_t points = alive.empty() ? 0 : alive.front().size();
    sums.resize(points);
    for (const std::vector<int64_t> &curve : alive)
      for (size_t time = 0; time < points; ++time)
        sums[time] += curve[time];
    for (const AccountedInstruction &instruction : stage.instructions)
      if (instruction.begin < instruction.end && instructions.size() < kMostInstructions) {
        auto begin = sums.begin() + instruction.begin, end = sums.begin() + instruction.end;
        instructions.push_back(&instruction);
        times.push_back(std::max_element(begin, end) - sums.begin());
      }
    for (const ArenaAccount &arena : stage.arenas)
      for (const AccountedTensor &tensor : arena.tensors)
        if (!isLasting(tensor))
          addToGroup(tensor);
  }

  void write(json::OStream &json, const JobAccount &job) const {
    json.attribute("stage", stage.stage);
    json.attribute("ranks", describeRanks(job, stage));
    json.attribute("total", stage.totalBytes());
    json.attribute("device", stage.deviceBytes());
    json.attribute("fixed", stage.fixedBytes);
    json.attributeArray("arenas", [&] { writeArenas(json); });
    writeColumns(json);
    writeMoments(json);
  }

private:
  void writeArenas(json::OStream &json) const {
    for (const ArenaAccount &arena : stage.arenas)
      json.object([&] {
        json.attribute("name", arena.name);
        json.attribute("bytes", arena.bytes);
        json.attribute("onDevice", arena.isOnDevice());
        json.attribute("alive", arena.peak.aliveBytes);
        json.attribute("at", arena.peak.time);
        json.attributeArray("lasting", [&] { writeRows(json, lastingIn(arena)); });
      });
  }

  size_t columnCount() const { return std::min(sums.size(), kMostColumns); }
  /// Of all points that fall on a column, the one at which most is alive.
  size_t pointOf(size_t column) const {
    size_t from = column * sums.size() / columnCount(), to = (column + 1) * sums.size() / columnCount();
    auto begin = sums.begin() + static_cast<std::ptrdiff_t>(from), end = sums.begin() + static_cast<std::ptrdiff_t>(to);
    return static_cast<size_t>(std::max_element(begin, end) - sums.begin());
  }

  void writeColumns(json::OStream &json) const {
    json.attribute("points", static_cast<int64_t>(sums.size()));
    json.attributeArray("columns", [&] {
      for (size_t column = 0; column < columnCount(); ++column)
        json.value(static_cast<int64_t>(pointOf(column)));
    });
    json.attributeArray("alive", [&] {
      for (const std::vector<int64_t> &curve : alive)
        json.array([&] {
          for (size_t column = 0; column < columnCount(); ++column)
            json.value(curve[pointOf(column)]);
        });
    });
  }

  /// Instructions as [text, entry, kind, micro-batch, first point, points, index of the moment or -1], moments as rows.
  /// Equal moments, of which the steady state of a pipeline has many, are one.
  void writeMoments(json::OStream &json) const {
    std::map<std::vector<std::tuple<int64_t, int64_t, std::string, std::string>>, int64_t> known;
    std::vector<std::vector<AliveRow>> moments;
    json.attributeArray("instructions", [&] {
      for (auto [index, instruction] : llvm::enumerate(instructions)) {
        std::vector<AliveRow> rows = aliveIn(index);
        std::vector<std::tuple<int64_t, int64_t, std::string, std::string>> key;
        for (const AliveRow &row : rows)
          key.push_back({row.bytes, row.count, row.name, row.type});
        auto found = known.find(key);
        if (found == known.end() && moments.size() < kMostMoments) {
          found = known.emplace(std::move(key), static_cast<int64_t>(moments.size())).first;
          moments.push_back(std::move(rows));
        }
        json.array([&] {
          json.value(instruction->text);
          json.value(text(instruction->entry));
          json.value(instruction->kind);
          json.value(instruction->microBatch);
          json.value(instruction->begin);
          json.value(instruction->end - instruction->begin);
          json.value(found == known.end() ? -1 : found->second);
        });
      }
    });
    json.attributeArray("moments", [&] {
      for (const std::vector<AliveRow> &rows : moments)
        json.array([&] { writeRows(json, rows); });
    });
  }

  static void writeRows(json::OStream &json, ArrayRef<AliveRow> rows) {
    for (const AliveRow &row : rows)
      json.array([&] {
        json.value(row.bytes);
        json.value(row.count);
        json.value(text(row.name));
        json.value(text(row.type));
        json.value(text(row.op));
      });
  }

  /// Rows of equal kinds of layers joined, those of most bytes; a last one for all others.
  static std::vector<AliveRow> condense(std::vector<AliveRow> rows) {
    llvm::stable_sort(rows, [](const AliveRow &a, const AliveRow &b) { return a.bytes > b.bytes; });
    if (rows.size() > kMostAlive) {
      AliveRow others{0, 0, "others", "", ""};
      for (const AliveRow &row : ArrayRef(rows).drop_front(kMostAlive)) {
        others.bytes += row.bytes;
        others.count += row.count;
      }
      rows.resize(kMostAlive);
      rows.push_back(std::move(others));
    }
    return rows;
  }

  /// Tensors that are shown as one row.
  struct Group {
    AliveRow row;
    std::vector<int64_t> bytes, count; ///< at the moment of each instruction
  };
  using Groups = std::map<std::pair<std::string, std::string>, Group>;

  static Group &groupOf(Groups &groups, const AccountedTensor &tensor) {
    std::string name = withoutNumbers(tensor.name);
    auto [entry, isNew] = groups.try_emplace({name, tensor.type});
    if (isNew)
      entry->second.row = {0, 0, name, tensor.type,
                           tensor.source.empty() ? getName(tensor.kind).str() : withoutNumbers(tensor.source)};
    return entry->second;
  }

  /// Counts a tensor at the moments at which it is alive.
  void addToGroup(const AccountedTensor &tensor) {
    Group &group = groupOf(groups, tensor);
    group.bytes.resize(times.size());
    group.count.resize(times.size());
    auto addAt = [&](size_t index) {
      group.bytes[index] += tensor.item.bytes;
      ++group.count[index];
    };
    const ArenaItem &item = tensor.item;
    if (item.isTemporary()) {
      for (auto [index, instruction] : llvm::enumerate(instructions))
        if (int64_t at = times[index] - instruction->begin;
            instruction->function == item.function && item.first <= at && at <= item.last)
          addAt(index);
      return;
    }
    for (const RecordLife &life : item.lives) {
      auto first = llvm::lower_bound(times, life.begin);
      for (auto at = first; at != times.end() && *at <= life.end; ++at)
        addAt(static_cast<size_t>(at - times.begin()));
    }
  }

  static bool isLasting(const AccountedTensor &tensor) {
    return tensor.kind != TensorKind::Record && tensor.kind != TensorKind::Temporary;
  }

  static std::vector<AliveRow> lastingIn(const ArenaAccount &arena) {
    Groups groups;
    for (const AccountedTensor &tensor : arena.tensors)
      if (isLasting(tensor)) {
        AliveRow &row = groupOf(groups, tensor).row;
        row.bytes += tensor.item.bytes;
        ++row.count;
      }
    std::vector<AliveRow> rows;
    for (auto &[key, group] : groups)
      rows.push_back(std::move(group.row));
    return condense(std::move(rows));
  }

  /// What comes and goes, at the moment of the instruction at which most is alive.
  std::vector<AliveRow> aliveIn(size_t index) const {
    std::vector<AliveRow> rows;
    for (const auto &[key, group] : groups)
      if (group.count[index] > 0) {
        rows.push_back(group.row);
        rows.back().bytes = group.bytes[index];
        rows.back().count = group.count[index];
      }
    return condense(std::move(rows));
  }

  const StageAccount &stage;
  std::vector<std::vector<int64_t>> alive;                ///< of each arena, by time point
  std::vector<int64_t> sums;                              ///< of all arenas
  std::vector<const AccountedInstruction *> instructions; ///< that are told
  std::vector<int64_t> times;                             ///< when most is alive in each of them
  Groups groups;                                          ///< of what comes and goes
};
} // namespace

void hyc::writeMemory(json::OStream &json, const JobAccount &job) {
  auto largest = llvm::max_element(
      job.stages, [](const StageAccount &a, const StageAccount &b) { return a.totalBytes() < b.totalBytes(); });
  std::vector<size_t> shown =
      chooseStages(job.stages.size(), kMostStages, static_cast<size_t>(largest - job.stages.begin()));
  json.attributeArray("memory", [&] {
    for (size_t index : shown)
      json.object([&] { StageCurves(job.stages[index]).write(json, job); });
  });
}
