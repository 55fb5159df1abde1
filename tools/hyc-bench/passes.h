// Figures of several passes, which lie apart in time, as one: what a machine does in one minute it need not do in the
// next.
#ifndef HYC_BENCH_PASSES_H_
#define HYC_BENCH_PASSES_H_

#include <optional>
#include <string>
#include <vector>

#include "figure.h"

namespace hycbench {

// One of each measure, tier and size, in the order in which they were first told: the medians of the times and of the
// rates.
std::vector<Figure> mediansOf(const std::vector<Figure>& told);

// Not empty. Of an even number the mean of the two in the middle.
double median(std::vector<double> values);

// What differed most between passes, of each measure and tier the largest size.
struct Spread {
  Figure slowest, fastest;
  double ratio() const { return fastest.rate / slowest.rate; }
};
// Nothing where nothing was measured twice.
std::optional<Spread> widestSpread(const std::vector<Figure>& told);
// "memory 23.1 to 33 GB/s"
std::string describe(const Spread& spread);

}  // namespace hycbench

#endif  // HYC_BENCH_PASSES_H_
