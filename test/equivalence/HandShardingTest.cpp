// The first oracle, under plans that a person might have written: random shardings of a random graph's parameters and
// inputs, over any axis of the mesh and several at once, computed as one device computes or refused in phase 3 with the
// reason. HYC_HAND_SHARDING_SEEDS runs other seeds than these.
#include "Comparison.h"
#include "GraphText.h"

#include "dialects/Dist/DistDialect.h"
#include "dialects/Hyc/HycDialect.h"
#include "hyc/Analysis/FactorClasses.h"

#include <gtest/gtest.h>
#include <map>
#include <random>
#include <regex>

using namespace hyc::equivalence;
using hyc::dist::ShardingAttr;

namespace {
using Axes = llvm::SmallVector<mlir::StringAttr>;

/// Writes random `dist.sharding`s on a planned module that has none.
class Annotator {
public:
  Annotator(TrainedModule &trained, uint64_t seed)
      : module(trained.get()), func(module.lookupSymbol<hyc::FuncOp>("microbatch")),
        mesh(hyc::dist::MeshOp::find(module)), classes(func), random(seed * 131 + 7) {
    static const int kDensities[] = {10, 30, 60, 100};
    density = kDensities[random() % 4];
    auto names = llvm::to_vector(llvm::reverse(llvm::to_vector(mesh.getAxes().getAsRange<mlir::StringAttr>())));
    for (mlir::StringAttr name : names)
      lists.push_back({name});
    for (size_t minor = 0; minor < names.size(); ++minor)
      for (size_t major = minor + 1; major < names.size(); ++major) {
        lists.push_back({names[major], names[minor]});
        lists.push_back({names[minor], names[major]});
      }
  }

  void run() {
    for (hyc::ParamOp param : module.getOps<hyc::ParamOp>())
      if (chance(density))
        param->setAttr(hyc::dist::kSharding, make(param.getWholeType(), [&](int64_t dim) {
                         return classes.classOf(param.getSymNameAttr(), dim);
                       }));
    for (mlir::BlockArgument argument : func.getArguments())
      if (chance(density))
        func.setArgAttr(argument.getArgNumber(), hyc::dist::kSharding,
                        make(mlir::cast<mlir::RankedTensorType>(argument.getType()),
                             [&](int64_t dim) { return classes.classOf(argument, dim); }));
  }

private:
  bool chance(int percent) { return static_cast<int>(random() % 100) < percent; }

  /// The same index gets the same axes everywhere, or none: anything else is a contradiction, see its own test.
  ShardingAttr make(mlir::RankedTensorType type, llvm::function_ref<int(int64_t)> classOf) {
    llvm::SmallVector<llvm::SmallVector<mlir::StringAttr>> dims(type.getRank());
    Axes used;
    for (int64_t dim = 0; dim < type.getRank(); ++dim) {
      if (chance(35))
        continue;
      int cls = classOf(dim);
      auto known = chosen.find(cls);
      Axes axes = known != chosen.end() ? known->second
                  : cls < 0             ? pick(type.getDimSize(dim), /*mayPad=*/true)
                                        : pick(classes.getSize(cls), classes.preservesZeros(cls));
      if (llvm::any_of(axes, [&](mlir::StringAttr axis) { return llvm::is_contained(used, axis); }))
        continue;
      if (cls >= 0 && !axes.empty())
        chosen[cls] = axes;
      used.append(axes);
      dims[dim].assign(axes.begin(), axes.end());
    }
    return ShardingAttr::get(module.getContext(), dims);
  }

  /// One or two axes of the mesh in any order; mostly such as cut `size` evenly or may pad it, so that most plans are
  /// legal.
  Axes pick(int64_t size, bool mayPad) {
    for (int attempt = 0; attempt < 4; ++attempt) {
      Axes axes = lists[random() % lists.size()];
      int64_t parts = mesh.getSize(hyc::dist::AxisListAttr::get(module.getContext(), axes));
      bool inOrder = mesh.isMajorToMinor(axes);
      bool lastHolds = hyc::dist::shardSize(size, parts) * (parts - 1) < size;
      if (size % parts == 0 || (mayPad && inOrder && lastHolds) || chance(8))
        return axes;
    }
    return {};
  }

  mlir::ModuleOp module;
  hyc::FuncOp func;
  hyc::dist::MeshOp mesh;
  hyc::FactorClasses classes;
  std::mt19937_64 random;
  int density;
  std::vector<Axes> lists; ///< that a dimension may be split over
  std::map<int, Axes> chosen;
};

Comparison handSharded(uint64_t seed) {
  Comparison comparison(seed);
  std::mt19937_64 random(seed * 31 + 3);
  static const int64_t kMeshes[][3] = {{2, 1, 2}, {2, 1, 2}, {2, 2, 2}, {3, 1, 2}, {2, 1, 3}, {2, 1, 1}, {4, 1, 1},
                                       {1, 1, 2}, {1, 2, 4}, {2, 2, 1}, {4, 1, 2}, {2, 3, 2}, {2, 1, 4}, {3, 2, 1}};
  const int64_t *mesh = kMeshes[random() % std::size(kMeshes)];
  Layout &layout = comparison.layout;
  layout.tp = mesh[0], layout.pp = mesh[1], layout.dp = mesh[2];
  layout.microBatches = 1 + static_cast<int64_t>(random() % 2);
  comparison.options.samples = layout.microBatch * layout.dp;
  comparison.options.headMultiple = layout.tp * (random() % 3 == 0 ? layout.dp : 1);
  const int64_t multiples[] = {1, layout.tp, layout.dp, layout.tp * layout.dp, layout.tp * layout.dp};
  comparison.options.sizeMultiple = multiples[random() % std::size(multiples)];
  comparison.options.blocks = 2 + static_cast<int64_t>(seed % 5);
  comparison.edit = [seed](TrainedModule &module) { Annotator(module, seed).run(); };
  return comparison;
}

/// Beside dp and tp an axis of a name of its own; in every third mesh dp is cut in two, of which each is an axis.
Comparison overFurtherAxes(uint64_t seed) {
  Comparison comparison = handSharded(seed);
  Layout &layout = comparison.layout;
  layout.tp = 1 + static_cast<int64_t>(seed % 2), layout.pp = seed % 5 == 4 ? 2 : 1;
  layout.dp = seed % 3 == 0 ? 4 : 2;
  layout.axes = seed % 3 == 0 ? " axes=ep:2,dp.hosts:2,dp.local:2" : " axes=ep:2";
  if (seed % 4 == 1)
    layout.axes += " order=tp,ep";
  comparison.options.samples = layout.microBatch * layout.dp;
  comparison.options.headMultiple = 2 * layout.tp;
  comparison.options.sizeMultiple = seed % 7 == 0 ? 1 : 4 * layout.tp;
  return comparison;
}

/// Whether a plan was refused for what really can't be, in words that say so.
bool isReasoned(const std::string &diagnostics) {
  static const std::regex kRefusal("has sharding .* which splits dim .* but .* (the last part would be empty|"
                                   "padding the last part would change the result|"
                                   "need axes in the order of the mesh.*); it can be split over");
  return std::regex_search(diagnostics, kRefusal);
}

const std::pair<uint64_t, uint64_t> kSeeds = chosenSeeds("HYC_HAND_SHARDING_SEEDS", 240);
class HandSharded : public testing::TestWithParam<uint64_t> {};
} // namespace

/// What the seeds are meant to try does occur in them, and most of it is accepted.
TEST(HandShardings, CoverEveryKindOfSplit) {
  struct Feature {
    const char *text;
    int least, found;
  } features[] = {{"dist.all_gather_start", 60, 0},
                  {"dist.all_to_all_start", 10, 0},
                  {"dist.slice", 60, 0},
                  {"dist.all_reduce_start max", 5, 0},
                  {"hyc.vocab_sum_exp", 5, 0},
                  {"sharding<\\[[^\\]]*\\{dp, tp\\}", 20, 0},
                  {"sharding<\\[[^\\]]*\\{tp, dp\\}", 20, 0},
                  {"all_reduce_start .* over <\\{dp, tp\\}>", 5, 0},
                  {"dist.shard_offset", 10, 0}};
  int accepted = 0, refused = 0;
  for (uint64_t seed = 0; seed < 120; ++seed) {
    std::string diagnostics;
    std::string text = std::regex_replace(handSharded(seed).partitionedText(), std::regex(" +"), " ");
    accepted += !text.empty();
    refused += text.empty() && !handSharded(seed).isAccepted(diagnostics) && isReasoned(diagnostics);
    for (Feature &feature : features)
      feature.found += std::regex_search(text, std::regex(feature.text));
  }
  EXPECT_EQ(accepted + refused, 120);
  EXPECT_GE(accepted, 90);
  EXPECT_GE(refused, 3);
  for (const Feature &feature : features)
    EXPECT_GE(feature.found, feature.least) << feature.text;
  if (std::getenv("HYC_EQUIVALENCE_PRINT"))
    for (const Feature &feature : features)
      std::fprintf(stderr, "%4d of %d accepted plans: %s\n", feature.found, accepted, feature.text);
}

/// A head that is the product of two parameters, with a vocabulary of ten.
static RandomGraph makeComputedHead(uint64_t, const RandomGraphOptions &options) {
  GraphText text;
  text.setScope("head");
  RandomGraph graph;
  graph.inputs = {{"x", {options.samples, 4}}, {"labels", {options.samples}, 10}};
  GraphValue x = text.argument("x", {options.samples, 4}, "f32"),
             labels = text.argument("labels", {options.samples}, "i64");
  graph.parameters = {text.parameter("rows", {4, 8}, 0, 0.5, false), text.parameter("columns", {8, 10}, 0, 0.5, false)};
  GraphValue rows = text.read(graph.parameters[0], {4, 8}), columns = text.read(graph.parameters[1], {8, 10});
  GraphValue logits = text.einsum("bm,mn->bn", x, text.einsum("mk,kn->mn", rows, columns));
  std::vector<GraphValue> results = text.applyMany("hyc.cross_entropy", "$0, $1", {logits, labels},
                                                   {{"", {}}, {"", {}, "i64"}, {"", {options.samples}}});
  graph.module = text.finish({results[0], results[1]});
  return graph;
}

/// Ten columns over dp · tp are shards of 3, over dp shards of 5, which those straddle; the product of the parameters
/// needs the second, since its rows take tp. Random graphs rarely get there: most ops let no padding pass.
TEST(HandShardings, PaddedShardsThatDoNotNestAreJoined) {
  Comparison comparison(0);
  Layout &layout = comparison.layout;
  layout.tp = 2, layout.pp = 1, layout.dp = 2;
  comparison.options.samples = layout.microBatch * layout.dp;
  comparison.makeGraph = makeComputedHead;
  comparison.edit = [](TrainedModule &trained) {
    mlir::MLIRContext *context = trained.get().getContext();
    auto set = [&](llvm::StringRef symbol, llvm::ArrayRef<llvm::SmallVector<mlir::StringAttr>> dims) {
      trained.get().lookupSymbol(symbol)->setAttr(hyc::dist::kSharding, ShardingAttr::get(context, dims));
    };
    auto dp = mlir::StringAttr::get(context, "dp"), tp = mlir::StringAttr::get(context, "tp");
    set("head.rows", {{tp}, {}});
    set("head.columns", {{}, {dp, tp}});
    auto func = trained.get().lookupSymbol<hyc::FuncOp>("microbatch");
    for (unsigned i = 0; i < func.getNumArguments(); ++i)
      func.setArgAttr(
          i, hyc::dist::kSharding,
          ShardingAttr::replicated(context, mlir::cast<mlir::RankedTensorType>(func.getArgumentTypes()[i]).getRank()));
  };
  std::string text = std::regex_replace(comparison.partitionedText(), std::regex(" +"), " ");
  EXPECT_TRUE(
      std::regex_search(text, std::regex("dim 1 over <\\{dp, tp\\}> .* : tensor<8x3xf32> -> <tensor<8x10xf32>>")))
      << text;
  comparison.run();
}

TEST_P(HandSharded, ComputesWhatOneDeviceComputesOrIsRefused) {
  Comparison comparison = handSharded(GetParam());
  std::string diagnostics;
  if (comparison.isAccepted(diagnostics))
    comparison.run();
  else
    EXPECT_TRUE(isReasoned(diagnostics)) << "seed " << GetParam() << "\n" << diagnostics;
}

class OverFurtherAxes : public testing::TestWithParam<uint64_t> {};

TEST_P(OverFurtherAxes, ComputesWhatOneDeviceComputesOrIsRefused) {
  Comparison comparison = overFurtherAxes(GetParam());
  std::string diagnostics;
  if (comparison.isAccepted(diagnostics))
    comparison.run();
  else
    EXPECT_TRUE(isReasoned(diagnostics)) << "seed " << GetParam() << "\n" << diagnostics;
}

TEST(FurtherAxes, SplitWhatThePlanSaysAndAreExchangedOver) {
  std::map<std::string, int> found;
  const char *const patterns[] = {"all_reduce_start .* over <\\{ep\\}>", "all_gather_start .* over <\\{ep\\}>",
                                  "over <\\{local\\}>", "over <\\{hosts, local\\}>",
                                  "all_to_all_start .* over <\\{(ep|hosts|local)\\}>"};
  for (uint64_t seed = 0; seed < 60; ++seed) {
    std::string text = std::regex_replace(overFurtherAxes(seed).partitionedText(), std::regex(" +"), " ");
    for (const char *pattern : patterns)
      found[pattern] += std::regex_search(text, std::regex(pattern));
  }
  for (const char *pattern : patterns)
    EXPECT_GE(found[pattern], 2) << pattern;
}

INSTANTIATE_TEST_SUITE_P(RandomShardings, OverFurtherAxes, testing::Range<uint64_t>(0, 60));

INSTANTIATE_TEST_SUITE_P(RandomShardings, HandSharded, testing::Range(kSeeds.first, kSeeds.first + kSeeds.second));
