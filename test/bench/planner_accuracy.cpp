// How well the planner's cost model predicts and orders what others measured: every row of every table in
// test/bench/published is predicted or said to be left out, and why.
//
// Usage: planner_accuracy MACHINES_FOLDER PUBLISHED_FOLDER [--rows] [SOURCE…]
//
// Printed are, of each source, the median and the 90th percentile of the error; of each group of 8 rows and more of one
// model, number of devices and global batch, how they are ordered, beside a formula of a few lines; and what five
// figures that are fitted to a few rows of a source (named) do for its other rows, their order, and other sources.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <set>

#include "accuracy/Prediction.h"
#include "accuracy/Scores.h"
#include "llvm/ADT/STLExtras.h"

using namespace hyc;
using namespace hyc::accuracy;

namespace {
constexpr size_t kRankedRows = 8, kCalibrationRows = 6;

struct Source {
  std::string name;
  std::vector<PublishedRow> rows;  // that were predicted
  std::vector<double> predicted, formula;
  std::map<std::string, size_t> leftOut;  // by reason

  size_t countLeftOut() const {
    size_t count = 0;
    for (const auto &[why, rows] : leftOut) count += rows;
    return count;
  }
};

std::vector<Source> predictAll(Predictor &predictor, const std::string &folder, const std::set<std::string> &wanted,
                               bool tells) {
  std::vector<Source> sources;
  for (PublishedRow &row : readPublished(folder)) {
    if (!wanted.empty() && !wanted.count(row.source)) continue;
    if (sources.empty() || sources.back().name != row.source) sources.push_back({row.source, {}, {}, {}, {}});
    Source &source = sources.back();
    std::optional<double> seconds = row.leftOut.empty() ? predictor.predict(row) : std::nullopt;
    if (!seconds) {
      ++source.leftOut[row.leftOut.empty() ? "the model cannot be divided so" : row.leftOut];
      continue;
    }
    if (tells)
      std::printf("%-16s %s  predicted %9.4f s, measured %9.4f s\n", row.source.c_str(), row.describe().c_str(),
                  *seconds, row.seconds);
    source.predicted.push_back(*seconds);
    source.formula.push_back(predictByFormula(row, predictor.ratesOf(row.machine)));
    source.rows.push_back(row);
  }
  return sources;
}

Pairs pairsOf(const Source &source, const std::vector<double> &predicted) {
  Pairs pairs;
  for (auto [prediction, row] : llvm::zip_equal(predicted, source.rows)) pairs.add(prediction, row.seconds);
  return pairs;
}

void printErrors(const std::vector<Source> &sources) {
  std::printf("\n%-24s %5s %9s  %-18s %-18s\n", "source", "rows", "left out", "median, p90 error", "of the formula");
  for (const Source &source : sources) {
    std::printf("%-24s %5zu %9zu", source.name.c_str(), source.rows.size(), source.countLeftOut());
    if (!source.rows.empty()) {
      Pairs own = pairsOf(source, source.predicted), formula = pairsOf(source, source.formula);
      std::printf("  %5.1f %%, %5.1f %%    %5.1f %%, %5.1f %%", 100 * errorAt(own, 0.5), 100 * errorAt(own, 0.9),
                  100 * errorAt(formula, 0.5), 100 * errorAt(formula, 0.9));
    }
    std::printf("\n");
    for (const auto &[why, count] : source.leftOut) std::printf("    %zu left out: %s\n", count, why.c_str());
  }
}

/// How well rows of one model, number of devices and global batch are ordered, in all groups so far.
class Order {
 public:
  Order() {
    std::printf("%-58s %4s  %-17s %-19s %-15s %s\n", "group", "rows", "Spearman", "pairs > 5 % apart", "first choice",
                "best of three");
  }

  void print(const Source &source, const std::vector<double> &predicted) {
    std::map<std::string, std::pair<Pairs, Pairs>> groups;
    for (size_t i = 0; i < source.rows.size(); ++i) {
      groups[source.rows[i].group].first.add(predicted[i], source.rows[i].seconds);
      groups[source.rows[i].group].second.add(source.formula[i], source.rows[i].seconds);
    }
    for (const auto &[name, both] : groups) {
      const auto &[own, formula] = both;
      if (own.measured.size() < kRankedRows) continue;
      std::printf("%-58s %4zu  %.3f (%6.3f)    %3.0f %% (%3.0f %%)       %4.1f %% (%4.1f %%)  %4.1f %% (%4.1f %%)\n",
                  (source.name + ": " + name).c_str(), own.measured.size(), spearman(own), spearman(formula),
                  100 * inOrder(own, 0.05), 100 * inOrder(formula, 0.05), 100 * regret(own, 1),
                  100 * regret(formula, 1), 100 * regret(own, 3), 100 * regret(formula, 3));
      ++count;
      ranks += spearman(own);
      pairs += inOrder(own, 0.05);
      regrets.push_back(regret(own, 1));
    }
  }

  /// The mean of the groups, and the median and the worst of their first choices.
  void printSum() {
    if (count == 0) return;
    std::sort(regrets.begin(), regrets.end());
    std::printf("%-58s %4zu  %.3f             %3.0f %%                %4.1f %%, at worst %.1f %%\n", "mean of groups",
                count, ranks / static_cast<double>(count), 100 * pairs / static_cast<double>(count),
                100 * regrets[count / 2], 100 * regrets.back());
  }

 private:
  size_t count = 0;
  double ranks = 0, pairs = 0;
  std::vector<double> regrets;
};

void printOrder(const std::vector<Source> &sources) {
  std::printf("\nin brackets: the formula\n");
  Order order;
  for (const Source &source : sources) order.print(source, source.predicted);
  order.printSum();
}

/// Of these rows, those that a calibration sees: evenly spread.
std::vector<size_t> calibrationRows(const std::vector<size_t> &rows) {
  std::vector<size_t> chosen;
  size_t count = std::min(kCalibrationRows, rows.size() / 3);
  for (size_t i = 0; i < count; ++i) chosen.push_back(rows[(2 * i + 1) * rows.size() / (2 * count)]);
  return chosen;
}

std::vector<size_t> calibrationRows(const Source &source) {
  std::vector<size_t> all(source.rows.size());
  std::iota(all.begin(), all.end(), 0);
  return calibrationRows(all);
}

bool isPlausible(const Factors &factors) {
  for (double Factors::*factor : {&Factors::products, &Factors::memory, &Factors::link, &Factors::launch})
    if (factors.*factor < 0.1 || factors.*factor > 10) return false;
  return factors.dispatch < 1e-3;
}

/// How far from what is taken to be so before: what the rows do not tell stays as it is there.
double distance(const Factors &factors, const Factors &from) {
  double sum = std::fabs(std::log((factors.dispatch + 1e-5) / (from.dispatch + 1e-5)));
  for (double Factors::*factor : {&Factors::products, &Factors::memory, &Factors::link, &Factors::launch})
    sum += std::fabs(std::log(factors.*factor / from.*factor));
  return sum;
}

/// Figures for some rows of a source, one after the other as long as the loss falls, in smaller and smaller steps.
class Fit {
 public:
  /// `prior`: what holds without these rows.
  Fit(Predictor &predictor, Source &source, const std::vector<size_t> &rows, const Factors &prior)
      : predictor(predictor), source(source), rows(rows), prior(prior) {}

  Factors from(Factors best) {
    least = loss(best);
    for (double step : {1.3, 1.1, 1.04})
      for (int round = 0; round < 3; ++round)
        for (double Factors::*factor :
             {&Factors::products, &Factors::dispatch, &Factors::memory, &Factors::link, &Factors::launch})
          for (double times : {step, 1 / step})
            while (tryTimes(best, factor, times));
    return best;
  }

  double least = INFINITY;  ///< of what `from` gave last

 private:
  bool tryTimes(Factors &best, double Factors::*factor, double times) {
    Factors tried = best;
    tried.*factor *= times;
    if (tried.*factor == best.*factor) return false;
    double next = loss(tried);
    if (next >= least) return false;
    best = tried, least = next;
    return true;
  }

  /// The mean error of the rows, and a hundredth of what is changed.
  double loss(const Factors &factors) {
    if (!isPlausible(factors)) return INFINITY;
    predictor.calibrate(factors);
    double sum = 0;
    for (size_t row : rows)
      if (std::optional<double> seconds = predictor.predict(source.rows[row]))
        sum += std::fabs(std::log(*seconds / source.rows[row].seconds));
    return sum / static_cast<double>(rows.size()) + 0.01 * distance(factors, prior);
  }

  Predictor &predictor;
  Source &source;
  const std::vector<size_t> &rows;
  const Factors prior;
};

/// Of a machine as its file has it: from a host that is never waited for, and from two that are.
Factors fit(Predictor &predictor, Source &source, const std::vector<size_t> &rows) {
  Fit fit(predictor, source, rows, {});
  std::pair<double, Factors> best = {INFINITY, {}};
  for (double dispatch : {0.0, 3e-5, 1e-4}) {
    Factors first;
    first.dispatch = dispatch;
    Factors found = fit.from(first);
    if (fit.least < best.first) best = {fit.least, found};
  }
  return best.second;
}

/// Of every row, in order; 0 for one that cannot be.
std::vector<double> predictAgain(Predictor &predictor, Source &source) {
  std::vector<double> predicted;
  for (PublishedRow &row : source.rows) predicted.push_back(predictor.predict(row).value_or(0));
  return predicted;
}

/// Errors of all rows but those that it was fitted to, and their order.
void printCalibrated(Predictor &predictor, std::vector<Source> &sources) {
  std::printf("\ncalibrated on rows of one source: error of its other rows, and of other sources\n");
  std::vector<std::vector<double>> own;
  for (Source &source : sources) {
    std::vector<size_t> used = calibrationRows(source);
    own.emplace_back();
    if (used.empty()) continue;
    Factors factors = fit(predictor, source, used);
    predictor.calibrate(factors);
    std::printf("%s: products × %.2f, memory × %.2f, links × %.2f, launch × %.2f, dispatch %.1f µs, of\n",
                source.name.c_str(), factors.products, factors.memory, factors.link, factors.launch,
                1e6 * factors.dispatch);
    for (size_t row : used) std::printf("    %s\n", source.rows[row].describe().c_str());
    for (Source &tested : sources) {
      std::vector<double> predicted = predictAgain(predictor, tested);
      Pairs pairs;
      for (size_t row = 0; row < predicted.size(); ++row)
        if (predicted[row] > 0 && (&tested != &source || !llvm::is_contained(used, row)))
          pairs.add(predicted[row], tested.rows[row].seconds);
      if (!pairs.measured.empty())
        std::printf("  %-24s median %5.1f %%  p90 %5.1f %%\n", tested.name.c_str(), 100 * errorAt(pairs, 0.5),
                    100 * errorAt(pairs, 0.9));
      if (&tested == &source) own.back() = std::move(predicted);
    }
  }
  std::printf("\nthe order by what was fitted to the same source, of all rows\n");
  Order order;
  for (size_t i = 0; i < sources.size(); ++i)
    if (!own[i].empty()) order.print(sources[i], own[i]);
  order.printSum();
}
/// The same with a fit for each model and machine of a source, beginning with that for the source: as whoever has
/// measured layouts of a model would plan others of it.
void printCalibratedByModel(Predictor &predictor, std::vector<Source> &sources) {
  std::printf("\ncalibrated on rows of the same model and machine: error of its other rows\n");
  std::vector<std::vector<double>> own;
  for (Source &source : sources) {
    std::map<std::string, std::vector<size_t>> models;
    for (size_t row = 0; row < source.rows.size(); ++row) models[source.rows[row].model()].push_back(row);
    Pairs pairs;
    size_t used = 0, alone = 0;
    std::vector<size_t> ofSource = calibrationRows(source);
    Factors prior = ofSource.empty() ? Factors() : fit(predictor, source, ofSource);
    own.emplace_back(source.rows.size());
    for (const auto &[name, rows] : models) {
      std::vector<size_t> seen = calibrationRows(rows);
      if (seen.empty()) alone += rows.size();
      used += seen.size();
      predictor.calibrate(seen.empty() ? prior : Fit(predictor, source, seen, prior).from(prior));
      for (size_t row : rows) {
        own.back()[row] = predictor.predict(source.rows[row]).value_or(0);
        if (!seen.empty() && !llvm::is_contained(seen, row)) pairs.add(own.back()[row], source.rows[row].seconds);
      }
    }
    if (!pairs.measured.empty())
      std::printf("  %-24s median %5.1f %%  p90 %5.1f %%  of %zu rows by %zu others; %zu of models with fewer than 3\n",
                  source.name.c_str(), 100 * errorAt(pairs, 0.5), 100 * errorAt(pairs, 0.9), pairs.measured.size(),
                  used, alone);
  }
  std::printf("\nthe order by that, of all rows\n");
  Order order;
  for (size_t i = 0; i < sources.size(); ++i) order.print(sources[i], own[i]);
  order.printSum();
}
}  // namespace

int main(int argc, char **argv) {
  std::set<std::string> wanted;
  bool tells = false;
  for (int i = 3; i < argc; ++i)
    if (std::strcmp(argv[i], "--rows") == 0)
      tells = true;
    else
      wanted.insert(argv[i]);
  if (argc < 3) {
    std::fprintf(stderr, "usage: planner_accuracy MACHINES_FOLDER PUBLISHED_FOLDER [--rows] [SOURCE…]\n");
    return 64;
  }
  Predictor predictor(argv[1]);
  std::vector<Source> sources = predictAll(predictor, argv[2], wanted, tells);
  printErrors(sources);
  printOrder(sources);
  printCalibrated(predictor, sources);
  printCalibratedByModel(predictor, sources);
  return 0;
}
