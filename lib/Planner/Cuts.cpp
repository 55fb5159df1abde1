// Chunks of layers, so that the slowest takes least time.
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

std::vector<size_t> hyc::cutLayers(const ModelCost &model, const Layout &layout, const MachineRates &rates) {
  const ChunkSeconds times(model, layout, rates);
  size_t wanted = times.chunks(), count = model.layers.size();
  double low = model.ofKinds.empty() ? times.largest() : 0, high = times.total();
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
