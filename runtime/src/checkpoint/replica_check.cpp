// A hash for each way in which states are split, compared among the ranks that hold the same part; where they differ,
// state by state.
#include "checkpoint/replica_check.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>

#include "base/crc32c.h"
#include "checkpoint/state_names.h"
#include "comm/exchanger.h"
#include "hycrt/philox.h"
#include "io/state_layout.h"
#include "io/state_window.h"

namespace hycrt {
namespace {

constexpr int kMostAxes = 6;  // that have several ranks: a bit for each set of them

bool isCompared(const StateDesc& state) {
  const Keeping keeping = keepingOf(state.role);
  return keeping == Keeping::kTensor || keeping == Keeping::kCopy || keeping == Keeping::kRemade;
}

// What a rank holds of a state, without padding, wherever it lies.
Result<uint64_t> hashOf(const Context& ctx, const StateDesc& state) {
  const ShardLayout layout(state, ctx.mesh(), ctx.at());
  const int64_t size = sizeOf(state.dtype);
  uint32_t crc = 0;
  int64_t elements = 0;
  const Status read =
      forEachWindow(state, {ctx.arenas(), ctx.file()}, WindowUse::kRead, [&](const StateWindow& window) -> Status {
        layout.forEachRunFrom(window.begin, [&](const ElementRun& run) {
          const std::optional<ElementRun> part = window.clip(run);
          if (!part) return false;
          crc =
              crc32c(crc, window.memory + (part->local - window.begin) * size, static_cast<size_t>(part->count * size));
          elements += part->count;
          return true;
        });
        return {};
      });
  if (!read.ok()) return read;
  return mix64(static_cast<uint64_t>(elements), crc);
}

class ReplicaCheck {
 public:
  ReplicaCheck(const Context& ctx, int64_t steps) : ctx_(ctx), mesh_(ctx.mesh()), steps_(steps) {
    for (int i = 0; i < mesh_.axes.size; ++i) {
      if (mesh_.axes[i].size > 1) axes_.push_back(Axis{static_cast<uint8_t>(i)});
    }
  }

  Status run() {
    if (axes_.size() > kMostAxes) {
      return usageError("--verify-states: the mesh has " + std::to_string(axes_.size()) +
                        " axes of several ranks, expected at most " + std::to_string(kMostAxes) + "; leave it out");
    }
    for (const StateDesc& state : ctx_.program().states) {
      if (!isCompared(state)) continue;
      Result<uint64_t> hash = hashOf(ctx_, state);
      if (!hash.ok()) return hash.status();
      compared_.push_back({&state, setOf(state), *hash});
    }
    Result<uint64_t> differing = compareSets();
    if (!differing.ok()) return differing.status();
    return *differing == 0 ? Status() : nameStates(*differing);
  }

 private:
  struct Compared {
    const StateDesc* state;
    int set;  // of the axes that split it; a bit an axis of axes_
    uint64_t hash;
  };

  int setOf(const StateDesc& state) const {
    int set = 0;
    for (size_t i = 0; i < axes_.size(); ++i) set |= splitsOver(state, axes_[i]) ? 1 << i : 0;
    return set;
  }

  // The ranks of this one's stage that hold what it holds of states split by `set`.
  std::vector<int> holders(int set) const {
    std::vector<int> ranks;
    for (int place = 0; place < ranksPerStage(mesh_); ++place) {
      const Coordinates other{ctx_.at().stage, place};
      bool holds = true;
      for (size_t i = 0; i < axes_.size(); ++i) {
        const bool isSplit = (set >> i & 1) != 0;
        holds = holds && (!isSplit || coordinateOf(mesh_, other, axes_[i]) == coordinateOf(mesh_, ctx_.at(), axes_[i]));
      }
      if (holds) ranks.push_back(rankOf(mesh_, other));
    }
    return ranks;
  }

  Result<uint64_t> unionOf(uint64_t own) const {
    const Result<const uint64_t*> all = ctx_.exchanger().share(own);
    if (!all.ok()) return all.status();
    uint64_t bits = 0;
    for (int rank = 0; rank < rankCount(mesh_); ++rank) bits |= (*all)[rank];
    return bits;
  }

  // A bit for each set of axes by which states are split of which some two ranks hold something else.
  Result<uint64_t> compareSets() const {
    uint64_t own = 0, differing = 0;
    std::map<int, uint64_t> hashes;
    for (const Compared& each : compared_) {
      own |= uint64_t{1} << each.set;
      hashes[each.set] = mix64(hashes[each.set], each.hash);
    }
    const Result<uint64_t> sets = unionOf(own);
    if (!sets.ok()) return sets.status();
    for (int set = 0; set < 1 << axes_.size(); ++set) {
      if ((*sets >> set & 1) == 0) continue;
      const Result<const uint64_t*> all = ctx_.exchanger().share(hashes[set]);
      if (!all.ok()) return all.status();
      if (!outliers(holders(set), *all).empty()) differing |= uint64_t{1} << set;
    }
    return unionOf(differing);
  }

  // Rounds enough for the rank with the most states; one with fewer has nothing to compare in the last of them.
  Status nameStates(uint64_t differing) const {
    Result<const uint64_t*> all = ctx_.exchanger().share(compared_.size());
    if (!all.ok()) return all.status();
    const uint64_t rounds = *std::max_element(*all, *all + rankCount(mesh_));
    std::string text;
    for (uint64_t round = 0; round < rounds; ++round) {
      const Compared* const own = round < compared_.size() ? &compared_[round] : nullptr;
      all = ctx_.exchanger().share(own ? own->hash : 0);
      if (!all.ok()) return all.status();
      if (!own || (differing >> own->set & 1) == 0 || !text.empty()) continue;
      const std::vector<int> ranks = holders(own->set), wrong = outliers(ranks, *all);
      if (!wrong.empty()) text = describe(*own->state, ranks, wrong);
    }
    HYCRT_RETURN_IF_ERROR(ctx_.exchanger().barrier());
    const std::string when = "after step " + std::to_string(steps_) + " ";
    if (text.empty()) return {StatusCode::kPeerLost, when + "other ranks hold states that differ"};
    return unavailableError(when + text +
                            "; a memory, a processor or a link has changed bits: go on from a checkpoint of before, "
                            "without that machine");
  }

  std::string describe(const StateDesc& state, const std::vector<int>& ranks, const std::vector<int>& wrong) const {
    const auto list = [&](const std::vector<int>& some) {
      std::string text;
      for (int rank : some) {
        text += (text.empty() ? "" : ", ") + std::to_string(rank) + " (" +
                hycrt::describe(mesh_, coordinatesOf(mesh_, rank)) + ")";
      }
      return text;
    };
    const std::string what = "'" + std::string(state.name) + "' (" + state.role + ")";
    if (wrong.size() == ranks.size()) return "ranks " + list(wrong) + " hold different " + what;
    std::vector<int> right;
    std::set_difference(ranks.begin(), ranks.end(), wrong.begin(), wrong.end(), std::back_inserter(right));
    return std::string(wrong.size() == 1 ? "rank " : "ranks ") + list(wrong) +
           (wrong.size() == 1 ? " holds" : " hold") + " another " + what + " than ranks " + list(right);
  }

  const Context& ctx_;
  const Mesh& mesh_;
  const int64_t steps_;
  std::vector<Axis> axes_;  // that have several ranks
  std::vector<Compared> compared_;
};

}  // namespace

std::vector<int> outliers(const std::vector<int>& ranks, const uint64_t* hashOfRank) {
  std::map<uint64_t, size_t> counts;
  for (int rank : ranks) ++counts[hashOfRank[rank]];
  if (counts.size() < 2) return {};
  const auto most =
      std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (2 * most->second <= ranks.size()) return ranks;
  std::vector<int> wrong;
  for (int rank : ranks) {
    if (hashOfRank[rank] != most->first) wrong.push_back(rank);
  }
  return wrong;
}

Status checkReplicas(const Context& ctx, int64_t steps) { return ReplicaCheck(ctx, steps).run(); }

}  // namespace hycrt
