// The choice of what to execute again, against every choice there is on small random graphs.
#include "hyc/Analysis/RecomputationProblem.h"
#include "hyc/Analysis/MinimumCut.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <random>

using namespace hyc;

namespace {

/// A random forward graph with its shape, for trying all choices.
struct Graph {
  RecomputationProblem problem;
  size_t ops = 0;
  std::vector<bool> mayRepeat;
};

Graph makeGraph(uint64_t seed, size_t ops) {
  std::mt19937_64 random(seed);
  Graph graph;
  graph.ops = ops;
  std::vector<int> values;
  if (random() % 2)
    values.push_back(graph.problem.addValue(-1, 1 + static_cast<int64_t>(random() % 40)));
  for (size_t op = 0; op < ops; ++op) {
    std::vector<int> operands;
    for (int value : values)
      if (random() % 3 == 0 || (value == values.back() && random() % 4))
        operands.push_back(value);
    bool mayRepeat = random() % 6 != 0;
    graph.mayRepeat.push_back(mayRepeat);
    int number =
        graph.problem.addOp(static_cast<int64_t>(random() % 50), mayRepeat, static_cast<int>(op / 3), operands);
    for (uint64_t result = 0, results = 1 + random() % 2; result < results; ++result) {
      values.push_back(graph.problem.addValue(number, 1 + static_cast<int64_t>(random() % 40)));
      if (random() % 2)
        graph.problem.need(values.back());
    }
  }
  return graph;
}

std::vector<Recomputation> allChoices(const Graph &graph) {
  std::vector<Recomputation> choices;
  for (uint64_t bits = 0; bits < uint64_t(1) << graph.ops; ++bits) {
    std::vector<bool> repeated(graph.ops);
    bool allowed = true;
    for (size_t op = 0; op < graph.ops; ++op) {
      repeated[op] = bits >> op & 1;
      allowed &= !repeated[op] || graph.mayRepeat[op];
    }
    if (allowed)
      choices.push_back(graph.problem.evaluate(repeated));
  }
  return choices;
}

} // namespace

TEST(MinimumCut, IsTheCheapestOfAllCuts) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    std::mt19937_64 random(seed);
    struct Edge {
      int from, to;
      int64_t capacity;
    };
    const int nodes = 3 + static_cast<int>(random() % 7);
    std::vector<Edge> edges;
    FlowNetwork network;
    for (int node = 0; node < nodes; ++node)
      network.addNode();
    for (int count = 3 * nodes; count-- > 0;) {
      edges.push_back({static_cast<int>(random() % nodes), static_cast<int>(random() % nodes),
                       static_cast<int64_t>(random() % 20)});
      network.addEdge(edges.back().from, edges.back().to, edges.back().capacity);
    }
    auto priceOf = [&](const std::vector<bool> &sourceSide) {
      int64_t price = 0;
      for (const Edge &edge : edges)
        if (sourceSide[edge.from] && !sourceSide[edge.to])
          price += edge.capacity;
      return price;
    };
    int64_t least = INT64_MAX;
    for (int bits = 0; bits < 1 << nodes; ++bits) {
      std::vector<bool> side(nodes);
      for (int node = 0; node < nodes; ++node)
        side[node] = bits >> node & 1;
      if (side[0] && !side[1])
        least = std::min(least, priceOf(side));
    }
    std::vector<bool> cut = network.cut(0, 1);
    ASSERT_TRUE(cut[0] && !cut[1]);
    EXPECT_EQ(priceOf(cut), least) << "seed " << seed;
  }
}

TEST(Recomputation, ForEachPriceIsTheBestOfAllChoices) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Graph graph = makeGraph(seed, 9);
    std::vector<Recomputation> all = allChoices(graph);
    for (auto [bytePrice, costPrice] : {std::pair<int64_t, int64_t>{1, 1}, {1, 0}, {0, 1}, {3, 7}, {20, 1}, {1, 20}}) {
      int64_t least = INT64_MAX;
      for (const Recomputation &choice : all)
        least = std::min(least, bytePrice * choice.savedBytes + costPrice * choice.cost);
      Recomputation found = graph.problem.minimize(bytePrice, costPrice);
      EXPECT_EQ(bytePrice * found.savedBytes + costPrice * found.cost, least)
          << "seed " << seed << ", " << bytePrice << " a byte, " << costPrice << " an operation";
      for (size_t op = 0; op < graph.ops; ++op)
        EXPECT_FALSE(found.repeated[op] && !graph.mayRepeat[op]) << "seed " << seed << ", op " << op;
    }
  }
}

TEST(Recomputation, ExtremesAreThoseOfAllChoices) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Graph graph = makeGraph(seed, 9);
    std::vector<Recomputation> all = allChoices(graph);
    auto byBytes = [](const Recomputation &a, const Recomputation &b) {
      return std::pair(a.savedBytes, a.cost) < std::pair(b.savedBytes, b.cost);
    };
    auto byCost = [](const Recomputation &a, const Recomputation &b) {
      return std::pair(a.cost, a.savedBytes) < std::pair(b.cost, b.savedBytes);
    };
    Recomputation fewest = *std::min_element(all.begin(), all.end(), byBytes);
    Recomputation cheapest = *std::min_element(all.begin(), all.end(), byCost);
    Recomputation least = graph.problem.saveLeast(), freely = graph.problem.saveFreely();
    EXPECT_EQ(std::pair(least.savedBytes, least.cost), std::pair(fewest.savedBytes, fewest.cost)) << "seed " << seed;
    EXPECT_EQ(std::pair(freely.cost, freely.savedBytes), std::pair(cheapest.cost, cheapest.savedBytes))
        << "seed " << seed;
  }
}

TEST(Recomputation, UnderABudgetIsNeverWorseThanTheCornerBelowItAndMostlyTheBest) {
  int budgets = 0, best = 0;
  double excess = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Graph graph = makeGraph(seed, 9);
    std::vector<Recomputation> all = allChoices(graph);
    int64_t fewest = graph.problem.saveLeast().savedBytes, most = graph.problem.saveFreely().savedBytes;
    int64_t dearest = graph.problem.saveLeast().cost;
    for (int64_t budget = fewest; budget <= most; budget += std::max<int64_t>(1, (most - fewest) / 7)) {
      int64_t optimum = INT64_MAX;
      for (const Recomputation &choice : all)
        if (choice.savedBytes <= budget)
          optimum = std::min(optimum, choice.cost);
      Recomputation found = graph.problem.saveWithin(budget);
      ASSERT_LE(found.savedBytes, budget) << "seed " << seed;
      ASSERT_GE(found.cost, optimum) << "seed " << seed;
      // Corners of the hull that fit, found by trying prices.
      for (int64_t price = 1; price <= 64; price *= 2)
        for (Recomputation corner : {graph.problem.minimize(price, 1), graph.problem.minimize(1, price)})
          if (corner.savedBytes <= budget)
            EXPECT_LE(found.cost, corner.cost) << "seed " << seed << ", budget " << budget << ", price " << price;
      ++budgets;
      best += found.cost == optimum;
      if (dearest > 0)
        excess += static_cast<double>(found.cost - optimum) / static_cast<double>(dearest);
    }
  }
  RecordProperty("best", best);
  RecordProperty("budgets", budgets);
  EXPECT_GE(best, budgets * 85 / 100) << best << " of " << budgets;
  EXPECT_LE(excess / budgets, 0.02);
}

// Twelve equal layers change at one price: the budget is still used to within one layer.
TEST(Recomputation, EqualLayersAreFilledOneByOne) {
  RecomputationProblem problem;
  int boundary = problem.addValue(-1, 10);
  problem.need(boundary);
  for (int layer = 0; layer < 12; ++layer) {
    int wide = problem.addOp(100, true, layer, {boundary}), large = problem.addValue(wide, 40);
    problem.need(large);
    int narrow = problem.addOp(100, false, layer, {large});
    boundary = problem.addValue(narrow, 10);
    problem.need(boundary);
  }
  EXPECT_EQ(problem.saveLeast().savedBytes, 130);
  EXPECT_EQ(problem.saveFreely().savedBytes, 130 + 12 * 40);
  for (int kept = 0; kept <= 12; ++kept) {
    EXPECT_EQ(problem.saveWithin(130 + kept * 40).cost, (12 - kept) * 100);
    EXPECT_EQ(problem.saveWithin(130 + kept * 40 + 39).cost, (12 - kept) * 100);
  }
  EXPECT_EQ(problem.saveWithin(100).savedBytes, 130) << "what does not fit is still the least";
}

TEST(Recomputation, ViewsAreNeverSaved) {
  RecomputationProblem problem;
  int product = problem.addOp(1000, true, 0, {}), value = problem.addValue(product, 64);
  int reshape = problem.addOp(0, true, 0, {value}), view = problem.addValue(reshape, RecomputationProblem::kNeverSaved);
  problem.need(view);
  Recomputation freely = problem.saveFreely(), least = problem.saveLeast();
  EXPECT_EQ(freely.savedBytes, 64);
  EXPECT_EQ(freely.cost, 0);
  EXPECT_EQ(least.savedBytes, 0);
  EXPECT_EQ(least.cost, 1000);
}
