// LiveView: what a terminal shows of a run, as a few lines that are drawn anew in their place: how far it is, the curve
// of the loss since the run began, rates, memory, the newest evaluation. Of lines alone; where they go is
// StepDisplay's.
#ifndef HYCRT_SRC_INSTRUMENTS_LIVE_VIEW_H_
#define HYCRT_SRC_INSTRUMENTS_LIVE_VIEW_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "hycrt/step_report.h"

namespace hycrt {

// Means over equally many steps each. Where all are taken, two become one.
class LossCurve {
 public:
  void add(double loss);
  // So many values at most, the oldest first.
  std::vector<double> means(size_t most) const;

 private:
  static constexpr size_t kMeans = 512;
  std::array<double, kMeans> sums_{};
  size_t count_ = 0;              // the last of which may be incomplete
  int64_t steps_ = 1, last_ = 0;  // of each mean; of the last
};

// How what is no letter may be drawn.
enum class Glyphs { kAscii, kBlocks };

class LiveView {
 public:
  void add(const StepRecord& record);
  // None is wider than `width` columns.
  std::vector<std::string> lines(size_t width, Glyphs glyphs) const;

 private:
  std::string progress(size_t width, Glyphs glyphs) const;
  std::string loss(size_t width, Glyphs glyphs) const;

  StepRecord newest_, evaluation_;  // step 0: there is none
  double first_ = 0;                // loss
  LossCurve curve_;
};

// A character a value, the least at the bottom; '!' for what is not finite.
std::string sparkline(const std::vector<double>& values, Glyphs glyphs);

}  // namespace hycrt

#endif  // HYCRT_SRC_INSTRUMENTS_LIVE_VIEW_H_
