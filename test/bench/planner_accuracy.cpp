// How well the planner's cost model predicts and orders what others measured: for each group of rows of one model,
// number of GPUs and global batch the median and the 90th percentile of the error, and Spearman's rank correlation.
//
// Usage: planner_accuracy MACHINES_FOLDER PUBLISHED_FOLDER
//
// Nothing is calibrated on these rows. A row whose layout cannot be modelled is named, never passed over in silence.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <sstream>

#include "dialects/Dist/DistDialect.h"
#include "dialects/Hyc/HycDialect.h"
#include "dialects/Rank/RankDialect.h"
#include "hyc/Import/HuggingFace/Import.h"
#include "hyc/Planner/CostModel.h"
#include "hyc/Planner/Machine.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace hyc;

namespace {
using Row = std::map<std::string, std::string>;

std::vector<Row> readTable(const std::string &path) {
  std::ifstream file(path);
  std::vector<Row> rows;
  std::vector<std::string> names;
  for (std::string line; std::getline(file, line);) {
    std::stringstream cells(line);
    Row row;
    size_t column = 0;
    for (std::string cell; std::getline(cells, cell, ','); ++column)
      if (names.size() <= column && rows.empty() && row.empty())
        names.push_back(cell);
      else
        row[names[column]] = cell;
    if (!row.empty()) rows.push_back(row);
  }
  return rows;
}

double number(const Row &row, const std::string &name) {
  auto found = row.find(name);
  return found == row.end() ? 0 : std::atof(found->second.c_str());
}

struct Shape {
  int64_t hidden, layers, heads, vocabulary, sequence;
  auto all() const { return std::tie(hidden, layers, heads, vocabulary, sequence); }
  bool operator<(const Shape &other) const { return all() < other.all(); }
};

/// A GPT of this shape, as a config.json in bf16.
class Models {
 public:
  explicit Models(const std::string &machines) : machines(machines), context(MLIRContext::Threading::DISABLED) {
    context.loadDialect<HycDialect, dist::DistDialect, rank::RankDialect>();
  }

  CostModel *of(const Shape &shape, const std::string &machine) {
    auto [found, isNew] = models.try_emplace({shape, machine});
    if (!isNew) return found->second.get();
    std::string path =
        "/tmp/planner_accuracy-" + std::to_string(getpid()) + "-" + std::to_string(models.size()) + ".json";
    std::ofstream(path) << R"({"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_embd": )" << shape.hidden
                        << R"(, "n_layer": )" << shape.layers << R"(, "n_head": )" << shape.heads
                        << R"(, "vocab_size": )" << shape.vocabulary << R"(, "n_positions": )" << shape.sequence
                        << R"(, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5})";
    llvm::Expected<MachineRates> rates = readMachine(machines + "/" + machine + ".json", MachineRates());
    if (!rates) {
      std::fprintf(stderr, "%s\n", llvm::toString(rates.takeError()).c_str());
      std::exit(1);
    }
    Plan base;
    base.precision = "bf16";
    base.entry = "train";
    base.threads = 1;
    auto read = [this, path, sequence = shape.sequence](int64_t batch) {
      HuggingFaceOptions options;
      options.batch = std::max<int64_t>(1, batch);
      options.sequence = sequence;
      options.weights = FolderWeights::Initialise;
      return importHuggingFace(context, path, options);
    };
    sources.push_back(path);  // read again for each micro-batch
    found->second = CostModel::create(read, base, *rates);
    return found->second.get();
  }

  ~Models() {
    for (const std::string &path : sources) std::remove(path.c_str());
  }

 private:
  std::string machines;
  MLIRContext context;
  std::map<std::pair<Shape, std::string>, std::unique_ptr<CostModel>> models;
  std::vector<std::string> sources;
};

std::vector<double> ranksOf(const std::vector<double> &values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  llvm::stable_sort(order, [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (size_t position = 0; position < order.size(); ++position) ranks[order[position]] = static_cast<double>(position);
  return ranks;
}

double spearman(const std::vector<double> &a, const std::vector<double> &b) {
  std::vector<double> x = ranksOf(a), y = ranksOf(b);
  double n = static_cast<double>(x.size()), sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += (x[i] - y[i]) * (x[i] - y[i]);
  return 1 - 6 * sum / (n * (n * n - 1));
}

struct Group {
  std::vector<double> predicted, measured;
};

void report(const std::string &name, const Group &group) {
  std::vector<double> errors;
  for (auto [predicted, measured] : llvm::zip_equal(group.predicted, group.measured))
    errors.push_back(std::fabs(predicted / measured - 1));
  llvm::sort(errors);
  size_t chosen = static_cast<size_t>(llvm::min_element(group.predicted) - group.predicted.begin());
  double best = *llvm::min_element(group.measured);
  std::printf("%-40s %3zu rows  median %5.1f %%  p90 %5.1f %%", name.c_str(), errors.size(),
              100 * errors[errors.size() / 2], 100 * errors[errors.size() * 9 / 10]);
  if (errors.size() >= 8)
    std::printf("  Spearman %.3f  regret of the first choice %.1f %%", spearman(group.predicted, group.measured),
                100 * (group.measured[chosen] / best - 1));
  std::printf("\n");
}

/// vTrain's rows recompute every layer: its 39.1B on 512 GPUs takes the time of Narayanan et al.'s (2021), who say so.
/// Of the others, which do not tell, what is recomputed is the least that fits the device.
void predict(Models &models, const Row &row, const Shape &shape, const std::string &machine, double memory,
             double seconds, Group &group) {
  Layout layout;
  layout.tp = static_cast<int64_t>(number(row, "tp"));
  layout.pp = static_cast<int64_t>(number(row, "pp"));
  layout.dp = static_cast<int64_t>(number(row, "dp"));
  layout.microBatch = static_cast<int64_t>(number(row, "mbs"));
  layout.virtualStages = std::max<int64_t>(1, static_cast<int64_t>(number(row, "vp")));
  layout.gradAccum = static_cast<int64_t>(number(row, "gbs")) / layout.microBatch / layout.dp;
  layout.sequenceParallel = machine == "h100-sxm" && layout.tp > 1;
  layout.zero = machine == "h100-sxm" ? 1 : 0;
  CostModel *costs = models.of(shape, machine);
  const bool recomputes = machine == "a100-sxm-80";
  for (const char *recompute : {recomputes ? "layer" : "none", "layer"}) {
    layout.recompute = recompute;
    const ModelCost *model = costs ? costs->costOfModel(layout) : nullptr;
    if (!model) break;
    LayoutCost cost = costs->costOf(*model, layout, costs->cut(*model, layout.pp * layout.virtualStages));
    if (cost.bytes > memory && std::string(recompute) == "none") continue;
    group.predicted.push_back(cost.seconds);
    group.measured.push_back(seconds);
    std::printf("  tp %2lld pp %2lld dp %3lld micro-batch %2lld %-5s predicted %8.3f s, measured %8.3f s\n",
                static_cast<long long>(layout.tp), static_cast<long long>(layout.pp), static_cast<long long>(layout.dp),
                static_cast<long long>(layout.microBatch), recompute, cost.seconds, seconds);
    return;
  }
  std::printf("  tp %lld pp %lld: left out, since the model cannot be divided so\n", static_cast<long long>(layout.tp),
              static_cast<long long>(layout.pp));
}
}  // namespace

int main(int argc, char **argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: planner_accuracy MACHINES_FOLDER PUBLISHED_FOLDER\n");
    return 64;
  }
  Models models(argv[1]);
  std::map<std::string, Group> groups;
  for (const Row &row : readTable(std::string(argv[2]) + "/vtrain-multi.csv")) {
    Shape shape{static_cast<int64_t>(number(row, "hidden")), static_cast<int64_t>(number(row, "layers")),
                static_cast<int64_t>(number(row, "heads")), 51200, static_cast<int64_t>(number(row, "seq"))};
    predict(models, row, shape, "a100-sxm-80", 80e9, number(row, "step_ms") / 1e3,
            groups["vTrain " + row.at("params_b") + "B on " + row.at("gpus") + " A100"]);
  }
  for (const Row &row : readTable(std::string(argv[2]) + "/dgxc-gpt3.csv"))
    predict(models, row, {12288, 96, 96, 51200, 2048}, "h100-sxm", 80e9, number(row, "step_s"),
            groups["GPT-3 175B on H100"]);
  for (const auto &[name, group] : groups) report(name, group);
  return 0;
}
