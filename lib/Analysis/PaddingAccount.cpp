// How many bytes of a stage's states are padding, without asking each rank: along an axis a shard is whole, then cut,
// then empty, so that coordinates fall into a few ranges.
#include "dialects/Dist/DistDialect.h"
#include "dialects/Rank/RankDialect.h"
#include "hyc/Analysis/MemoryAccount.h"

#include "llvm/ADT/MapVector.h"

#include <map>
#include <set>

using namespace mlir;
using namespace hyc;

namespace {

/// The coordinates of one rank.
using Place = std::map<StringRef, int64_t>;

/// States of one shape that are split alike have equal padding everywhere.
using StateKind = std::tuple<Attribute, Attribute, Attribute, Attribute>;

class PaddingCounter {
public:
  PaddingCounter(rank::ProgramOp program, dist::MeshOp mesh) : mesh(mesh) {
    for (auto state : program.getOps<rank::StateOp>()) {
      StateKind kind{state.getTypeAttr(), state.getGlobalAttr(), state.getSplits(), state.getFlatAttr()};
      auto [entry, isNew] = kinds.insert({kind, {state, 0}});
      ++entry->second.second;
    }
    for (StringRef axis : mesh.getAxes().getAsValueRange<StringAttr>())
      begins[axis].insert(0);
    for (auto &[kind, states] : kinds)
      addBegins(states.first);
  }

  std::vector<PaddedRanks> run() {
    std::vector<PaddedRanks> blocks;
    Place first;
    visit(0, {}, first, blocks);
    return blocks;
  }

private:
  /// Begins ranges where shards before `index` along `axes` are whole, that one is cut, and those after it are empty.
  void cutAt(dist::AxisListAttr axes, int64_t index) {
    int64_t parts = mesh.getSize(axes);
    if (index >= parts)
      return;
    for (StringAttr axis : axes.getAxes()) {
      parts /= mesh.getSize(axis);
      int64_t digit = index / parts;
      index %= parts;
      for (int64_t begin : {digit, digit + 1})
        if (begin < mesh.getSize(axis))
          begins[axis.getValue()].insert(begin);
    }
  }

  void addBegins(rank::StateOp state) {
    auto splits = state.getSplits().getAsRange<dist::AxisListAttr>();
    int64_t elements = 1;
    for (auto [whole, split] : llvm::zip_equal(state.getGlobal(), splits)) {
      int64_t size = dist::shardSize(whole, mesh.getSize(split));
      elements *= size;
      if (size > 0)
        cutAt(split, whole / size);
    }
    int64_t held = state.getBufferType().getNumElements();
    if (std::optional<dist::AxisListAttr> flat = state.getFlat(); flat && held > 0)
      cutAt(*flat, elements / held);
  }

  int64_t indexAt(dist::AxisListAttr axes, const Place &place) {
    int64_t index = 0;
    for (StringAttr axis : axes.getAxes()) {
      auto at = place.find(axis.getValue());
      index = index * mesh.getSize(axis) + (at == place.end() ? 0 : at->second);
    }
    return index;
  }

  /// Elements of the shard that lie beyond the whole's end.
  int64_t paddingElements(rank::StateOp state, const Place &place) {
    int64_t held = state.getBufferType().getNumElements(), real = 1, elements = 1;
    for (auto [whole, split] : llvm::zip_equal(state.getGlobal(), state.getSplits().getAsRange<dist::AxisListAttr>())) {
      int64_t size = dist::shardSize(whole, mesh.getSize(split));
      real *= std::clamp<int64_t>(whole - indexAt(split, place) * size, 0, size);
      elements *= size;
    }
    // Of a flat shard what lies beyond the local tensor's end; padding of split dimensions inside it is not told apart.
    if (std::optional<dist::AxisListAttr> flat = state.getFlat())
      real = std::clamp<int64_t>(elements - indexAt(*flat, place) * held, 0, held);
    return held - real;
  }

  /// Every choice of one range an axis; `place` has the first coordinate of each.
  void visit(size_t depth, std::vector<PaddedRanks::Range> ranges, Place &place, std::vector<PaddedRanks> &blocks) {
    if (depth == mesh.getAxes().size()) {
      int64_t bytes = 0;
      for (auto &[kind, states] : kinds)
        bytes += states.second * paddingElements(states.first, place) *
                 rank::StateOp(states.first).getBufferType().getElementBytes();
      add({std::move(ranges), bytes}, blocks);
      return;
    }
    StringRef axis = cast<StringAttr>(mesh.getAxes()[depth]).getValue();
    const std::set<int64_t> &firsts = begins[axis];
    for (auto first = firsts.begin(); first != firsts.end(); ++first) {
      auto next = std::next(first);
      int64_t last = (next == firsts.end() ? mesh.getSizes()[depth] : *next) - 1;
      std::vector<PaddedRanks::Range> longer = ranges;
      longer.push_back({axis.str(), *first, last});
      place[axis] = *first;
      visit(depth + 1, std::move(longer), place, blocks);
    }
  }

  /// What continues the last block along the innermost axis is joined with it.
  static void add(PaddedRanks block, std::vector<PaddedRanks> &blocks) {
    auto joins = [&](const PaddedRanks &before) {
      size_t inner = block.coordinates.size() - 1;
      for (size_t i = 0; i < inner; ++i)
        if (before.coordinates[i].first != block.coordinates[i].first)
          return false;
      return before.bytes == block.bytes && before.coordinates[inner].last + 1 == block.coordinates[inner].first;
    };
    if (!blocks.empty() && !block.coordinates.empty() && joins(blocks.back()))
      blocks.back().coordinates.back().last = block.coordinates.back().last;
    else
      blocks.push_back(std::move(block));
  }

  dist::MeshOp mesh;
  llvm::MapVector<StateKind, std::pair<rank::StateOp, int64_t>> kinds; ///< one of each, and how many there are
  std::map<StringRef, std::set<int64_t>> begins;                       ///< of ranges of coordinates, by axis
};

} // namespace

std::vector<PaddedRanks> hyc::accountPadding(rank::ProgramOp program) {
  dist::MeshOp mesh = dist::MeshOp::find(program->getParentOfType<ModuleOp>());
  return mesh ? PaddingCounter(program, mesh).run() : std::vector<PaddedRanks>();
}
