// Sorting, mostly.
#include "Scores.h"

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace hyc::accuracy;

static std::vector<size_t> orderOf(const std::vector<double> &values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  return order;
}

static std::vector<double> ranksOf(const std::vector<double> &values) {
  std::vector<size_t> order = orderOf(values);
  std::vector<double> ranks(values.size());
  for (size_t begin = 0, end; begin < order.size(); begin = end) {
    for (end = begin; end < order.size() && values[order[end]] == values[order[begin]];) ++end;
    for (size_t place = begin; place < end; ++place) ranks[order[place]] = static_cast<double>(begin + end - 1) / 2;
  }
  return ranks;
}

double hyc::accuracy::errorAt(const Pairs &pairs, double part) {
  std::vector<double> errors;
  for (size_t i = 0; i < pairs.measured.size(); ++i)
    errors.push_back(std::fabs(pairs.predicted[i] / pairs.measured[i] - 1));
  std::sort(errors.begin(), errors.end());
  return errors.empty() ? 0 : errors[std::min(errors.size() - 1, static_cast<size_t>(part * errors.size()))];
}

double hyc::accuracy::spearman(const Pairs &pairs) {
  std::vector<double> x = ranksOf(pairs.predicted), y = ranksOf(pairs.measured);
  double mean = static_cast<double>(x.size() - 1) / 2, xy = 0, xx = 0, yy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mean) * (y[i] - mean);
    xx += (x[i] - mean) * (x[i] - mean);
    yy += (y[i] - mean) * (y[i] - mean);
  }
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : 0;
}

double hyc::accuracy::inOrder(const Pairs &pairs, double apart) {
  size_t told = 0, right = 0;
  for (size_t i = 0; i < pairs.measured.size(); ++i)
    for (size_t j = 0; j < pairs.measured.size(); ++j)
      if (pairs.measured[i] > pairs.measured[j] * (1 + apart)) {
        ++told;
        right += pairs.predicted[i] > pairs.predicted[j];
      }
  return told ? static_cast<double>(right) / static_cast<double>(told) : 1;
}

double hyc::accuracy::regret(const Pairs &pairs, size_t among) {
  std::vector<size_t> order = orderOf(pairs.predicted);
  order.resize(std::min(among, order.size()));
  double best = *std::min_element(pairs.measured.begin(), pairs.measured.end()), chosen = INFINITY;
  for (size_t index : order) chosen = std::min(chosen, pairs.measured[index]);
  return chosen / best - 1;
}
