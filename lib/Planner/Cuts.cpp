// Chunks of layers, so that the slowest stage takes least time: exact where a stage is one chunk; where it has several,
// by moving layers between stages as long as that helps.
#include "LayoutCosts.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <numeric>

using namespace hyc;

namespace {
/// The seconds of a layer in any chunk: those of the slowest rank of the chunk's stage.
class ChunkSeconds {
public:
  ChunkSeconds(const ModelCost &model, const Layout &layout, const MachineRates &rates) : layout(layout) {
    if (model.ofKinds.empty()) {
      times.push_back(secondsOf(model.layers));
      return;
    }
    for (int64_t stage = 0; stage < layout.pp; ++stage) {
      std::vector<double> slowest(model.layers.size(), 0);
      for (size_t kind : rates.kindsAmong(stage * layout.tp * layout.dp, layout.tp * layout.dp))
        for (auto [most, own] : llvm::zip_equal(slowest, secondsOf(model.ofKinds[kind])))
          most = std::max(most, own);
      times.push_back(std::move(slowest));
    }
  }

  size_t chunks() const { return static_cast<size_t>(layout.pp * layout.virtualStages); }
  double at(size_t chunk, size_t layer) const { return times[times.size() == 1 ? 0 : chunk % times.size()][layer]; }
  double largest() const {
    double most = 0;
    for (const std::vector<double> &stage : times)
      most = std::max(most, *std::max_element(stage.begin(), stage.end()));
    return most;
  }
  double total() const {
    double most = 0;
    for (const std::vector<double> &stage : times)
      most = std::max(most, std::accumulate(stage.begin(), stage.end(), 0.0));
    return most;
  }

private:
  static std::vector<double> secondsOf(const std::vector<LayerCost> &layers) {
    std::vector<double> seconds;
    for (const LayerCost &layer : layers)
      seconds.push_back(layer.micro());
    return seconds;
  }

  const Layout &layout;
  std::vector<std::vector<double>> times; ///< by stage; one where all are alike
};
} // namespace

/// Chunks that hold no more than `most` seconds each, as few as can be, filled from the last one on: the first stages
/// have most micro-batches in flight, and least room. One more than there may be where they do not suffice, or one
/// layer alone takes longer. `ends` become theirs.
static void fill(const ChunkSeconds &times, size_t count, double most, std::vector<size_t> &ends) {
  ends.assign(1, count);
  size_t chunk = times.chunks() - 1;
  double seconds = 0;
  for (size_t layer = count; layer-- > 0;) {
    if (seconds + times.at(chunk, layer) > most && layer + 1 < ends.back()) {
      ends.push_back(layer + 1);
      if (chunk-- == 0)
        break;
      seconds = 0;
    }
    seconds += times.at(chunk, layer);
    if (seconds > most)
      return ends.assign(times.chunks() + 1, count);
  }
  std::reverse(ends.begin(), ends.end());
}

/// Ends of chunks of which the slowest takes least time.
static std::vector<size_t> cutChunks(const ChunkSeconds &times, size_t count, double low, double high) {
  size_t wanted = times.chunks();
  std::vector<size_t> ends;
  ends.reserve(wanted + 1);
  for (int round = 0; round < 40 && low < high; ++round) {
    double middle = (low + high) / 2;
    fill(times, count, middle, ends);
    (ends.size() <= wanted ? high : low) = middle;
  }
  fill(times, count, high * (1 + 1e-9), ends);
  // Fewer chunks than wanted: the longest fall in two, the first of them first.
  while (ends.size() < wanted && ends.size() < count) {
    size_t longest = 0, most = 0;
    for (size_t chunk = 0, begin = 0; chunk < ends.size(); begin = ends[chunk++])
      if (ends[chunk] - begin > most)
        most = ends[chunk] - begin, longest = chunk;
    size_t begin = longest == 0 ? 0 : ends[longest - 1];
    ends.insert(ends.begin() + static_cast<std::ptrdiff_t>(longest), begin + most / 2);
  }
  return ends;
}

namespace {
/// Several chunks a stage: what waits for a stage waits for all its chunks, so that the sum over them counts. A layer
/// goes from the slowest stage to another one by every boundary between two chunks of theirs moving by one.
class StageBalance {
public:
  StageBalance(const ChunkSeconds &times, size_t stages, std::vector<size_t> ends)
      : times(times), stages(stages), ends(std::move(ends)) {
    loads.assign(stages, 0);
    for (size_t chunk = 0; chunk < this->ends.size(); ++chunk)
      for (size_t layer = begin(chunk); layer < this->ends[chunk]; ++layer)
        loads[chunk % stages] += times.at(chunk, layer);
  }

  std::vector<size_t> run() {
    while (improve())
      ;
    return ends;
  }

  double slowest() const { return *std::max_element(loads.begin(), loads.end()); }

private:
  size_t begin(size_t chunk) const { return chunk == 0 ? 0 : ends[chunk - 1]; }

  /// Takes the best of all moves of one layer away from the slowest stage; whether there is one that helps.
  bool improve() {
    auto slow = static_cast<size_t>(std::max_element(loads.begin(), loads.end()) - loads.begin());
    Move best{slow, slow, loads[slow] * (1 - 1e-9)};
    for (size_t from = slow; from < ends.size(); from += stages)
      if (ends[from] - begin(from) > 1)
        lookForward(from, best), lookBack(from, best);
    if (best.from == best.to)
      return false;
    for (size_t chunk = best.from; chunk < best.to; ++chunk)
      pass(chunk, chunk + 1, --ends[chunk], loads);
    for (size_t chunk = best.from; chunk > best.to; --chunk)
      pass(chunk, chunk - 1, ends[chunk - 1]++, loads);
    return true;
  }

  /// A layer from one chunk to another: each chunk between them passes one on and gets one.
  struct Move {
    size_t from, to;
    double slowest; ///< stage after it
  };

  void lookForward(size_t from, Move &best) {
    changed = loads;
    for (size_t chunk = from; chunk + 1 < ends.size(); ++chunk) {
      pass(chunk, chunk + 1, ends[chunk] - 1, changed);
      take({from, chunk + 1, 0}, best);
    }
  }

  void lookBack(size_t from, Move &best) {
    changed = loads;
    for (size_t chunk = from; chunk > 0; --chunk) {
      pass(chunk, chunk - 1, ends[chunk - 1], changed);
      take({from, chunk - 1, 0}, best);
    }
  }

  void take(Move move, Move &best) const {
    for (double load : changed) {
      if (load >= best.slowest)
        return;
      move.slowest = std::max(move.slowest, load);
    }
    best = move;
  }

  void pass(size_t chunk, size_t next, size_t layer, std::vector<double> &sums) const {
    sums[chunk % stages] -= times.at(chunk, layer);
    sums[next % stages] += times.at(next, layer);
  }

  const ChunkSeconds &times;
  size_t stages;
  std::vector<size_t> ends;
  std::vector<double> loads, changed; ///< seconds of each stage
};
} // namespace

/// As many layers in every chunk, or one more in the first ones.
static std::vector<size_t> cutEvenly(size_t count, size_t chunks) {
  std::vector<size_t> ends;
  for (size_t chunk = 0, end = 0; chunk < chunks; ++chunk)
    ends.push_back(end += count / chunks + (chunk < count % chunks));
  return ends;
}

std::vector<size_t> hyc::cutLayers(const ModelCost &model, const Layout &layout, const MachineRates &rates) {
  const ChunkSeconds times(model, layout, rates);
  size_t count = model.layers.size();
  std::vector<size_t> ends = cutChunks(times, count, model.ofKinds.empty() ? times.largest() : 0, times.total());
  if (layout.virtualStages == 1 || ends.size() != times.chunks())
    return ends;
  auto stages = static_cast<size_t>(layout.pp);
  StageBalance ofChunks(times, stages, ends), ofEven(times, stages, cutEvenly(count, times.chunks()));
  std::vector<size_t> a = ofEven.run(), b = ofChunks.run();
  return ofEven.slowest() <= ofChunks.slowest() ? a : b;
}
