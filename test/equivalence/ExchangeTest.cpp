// Exchanges that no plan asks for yet, in programs of phase 4 written by hand: what ranks hold after them is what the
// whole tensor says, over tensors and over arenas of bytes.
#include "TrainedModule.h"
#include "hyc/Interpreter/MeshInterpreter.h"
#include "hyc/Interpreter/RankInterpreter.h"

#include <gtest/gtest.h>

using namespace hyc::equivalence;
using namespace hyc::interpreter;

namespace {

using Shape = std::vector<int64_t>;

std::string typeText(const Shape &shape) {
  std::string text = "tensor<";
  for (int64_t size : shape)
    text += std::to_string(size) + "x";
  return text + "f32>";
}

Shape withDim(Shape shape, size_t dim, int64_t size) {
  shape[dim] = size;
  return shape;
}

int64_t shardSize(int64_t size, int64_t parts) { return (size + parts - 1) / parts; }

/// Row-major 0, 1, 2, …
std::string countedUp(const Shape &shape, size_t dim, int64_t &next) {
  if (dim == shape.size())
    return std::to_string(next++) + ".0";
  std::string text = "[";
  for (int64_t i = 0; i < shape[dim]; ++i)
    text += (i ? ", " : "") + countedUp(shape, dim + 1, next);
  return text + "]";
}

/// ", {}, {ep}" of dimension `split`.
std::string shardingText(size_t dims, size_t split) {
  std::string text;
  for (size_t dim = 0; dim < dims; ++dim)
    text += std::string(dim ? ", " : "") + (dim == split ? "{ep}" : "{}");
  return "#dist.sharding<[" + text + "]>";
}

std::string symbolText(const std::string &head, const Shape &whole, size_t split, int64_t ranks,
                       const std::string &init) {
  return head + " : " + typeText(withDim(whole, split, shardSize(whole[split], ranks))) + " from " + init +
         " {global_type = " + typeText(whole) + ", dist.sharding = " + shardingText(whole.size(), split) +
         ", dist.stages = array<i64: 0>}\n";
}

/// @x of counted elements, split along dimension `from`; one exchange of it becomes @y, split along `to`.
std::string program(const Shape &whole, size_t from, size_t to, int64_t ranks, const std::string &exchange) {
  int64_t next = 0;
  std::string operand = typeText(withDim(whole, from, shardSize(whole[from], ranks))),
              result = typeText(withDim(whole, to, shardSize(whole[to], ranks)));
  std::string text = "dist.mesh @mesh axes [\"other\", \"ep\"] sizes [2, " + std::to_string(ranks) + "] stages 1\n";
  text +=
      symbolText("hyc.param @x", whole, from, ranks, "dense<" + countedUp(whole, 0, next) + "> : " + typeText(whole));
  text += symbolText("hyc.state @y role \"output\"", whole, to, ranks, "#hyc.fill<0.0 : f64>");
  text += "hyc.func @forward.0() attributes {dist.stage = 0 : i64} {\n  %x = hyc.read @x : " + operand + "\n";
  text += "  %p = dist." + exchange + " over <{ep}> : " + operand + " -> !dist.pending<" + result + ">\n";
  text += "  %r = dist.wait %p : !dist.pending<" + result + "> -> " + result + "\n  hyc.write %r into @y : " + result +
          "\n  hyc.return\n}\n";
  for (const char *name : {"backward", "reduce", "apply"})
    text += std::string("hyc.func @") + name + ".0() attributes {dist.stage = 0 : i64} { hyc.return }\n";
  return text + "dist.schedule stage 0 slots 1 [#dist.do<begin_step>, #dist.do<forward micro_batch 0 slot 0>, "
                "#dist.do<backward micro_batch 0 slot 0>]\n";
}

template <typename Ranks> void expectElements(TrainedModule &module, const std::vector<double> &expected) {
  llvm::FailureOr<Ranks> ranks = Ranks::create(module.get(), {});
  ASSERT_TRUE(succeeded(ranks)) << module.diagnostics();
  ASSERT_TRUE(succeeded(ranks->runStep({}, 0))) << module.diagnostics();
  llvm::FailureOr<Tensor> whole = ranks->gatherState("y");
  ASSERT_TRUE(succeeded(whole)) << module.diagnostics();
  ASSERT_EQ(whole->getNumElements(), static_cast<int64_t>(expected.size()));
  for (size_t i = 0; i < expected.size(); ++i)
    ASSERT_EQ(whole->getDouble(static_cast<int64_t>(i)), expected[i]) << "element " << i;
}

void expectBothPhases(const std::string &text, const std::vector<double> &expected) {
  SCOPED_TRACE(text);
  TrainedModule module(text, "hyc-verify-local");
  ASSERT_TRUE(module) << module.diagnostics();
  expectElements<MeshInterpreter>(module, expected);
  if (testing::Test::HasFatalFailure())
    return;
  ASSERT_TRUE(module.enter(hyc::Phase::Rank, {})) << module.diagnostics();
  expectElements<RankInterpreter>(module, expected);
}

} // namespace

/// However a tensor is split, it is the same tensor: sizes that the ranks divide and sizes that leave padding.
TEST(Exchanges, AllToAllMovesASplitAndNothingElse) {
  for (int64_t ranks : {2, 3})
    for (const Shape &shape : {Shape{6, 6}, Shape{5, 7}, Shape{4, 5, 3}, Shape{1, 6, 12}})
      for (size_t from = 0; from < shape.size(); ++from)
        for (size_t to = 0; to < shape.size(); ++to) {
          // No rank is to be without any part of either.
          auto isWorthwhile = [&](size_t dim) { return shardSize(shape[dim], ranks) * (ranks - 1) < shape[dim]; };
          if (from == to || !isWorthwhile(from) || !isWorthwhile(to))
            continue;
          std::vector<double> expected;
          int64_t elements = 1;
          for (int64_t size : shape)
            elements *= size;
          for (int64_t i = 0; i < elements; ++i)
            expected.push_back(static_cast<double>(i));
          expectBothPhases(
              program(shape, from, to, ranks,
                      "all_to_all_start %x split " + std::to_string(to) + " concat " + std::to_string(from)),
              expected);
          if (HasFatalFailure())
            return;
        }
}

TEST(Exchanges, ShiftPassesShardsAroundTheRing) {
  for (int64_t ranks : {2, 3, 4})
    for (int64_t distance = 1; distance < ranks; ++distance) {
      const int64_t size = 3;
      std::vector<double> expected;
      for (int64_t i = 0; i < ranks * size * 2; ++i) {
        int64_t rank = i / (size * 2), source = (rank - distance + ranks) % ranks;
        expected.push_back(static_cast<double>(source * size * 2 + i % (size * 2)));
      }
      expectBothPhases(program({ranks * size, 2}, 0, 0, ranks, "shift_start %x by " + std::to_string(distance)),
                       expected);
      if (HasFatalFailure())
        return;
    }
}
