// A plan comes from the structure of the graph: other names for every parameter give the same one.
#include "Gpt2Pipeline.h"
#include "dialects/Dist/DistDialect.h"
#include "dialects/Hyc/HycDialect.h"
#include "mlir/IR/SymbolTable.h"

#include <gtest/gtest.h>

using namespace hyc;
using namespace hyc::pipelines;

namespace {

/// Gives every parameter a name that says nothing.
void renameParameters(mlir::ModuleOp module) {
  int number = 0;
  for (ParamOp param : llvm::make_early_inc_range(module.getOps<ParamOp>())) {
    auto name = mlir::StringAttr::get(module.getContext(), "tensor_" + std::to_string(number++));
    ASSERT_TRUE(succeeded(mlir::SymbolTable::replaceAllSymbolUses(param, name, module)));
    mlir::SymbolTable::setSymbolName(param, name);
  }
}

/// Every decision about parameters, states and ops, in program order, without names.
std::vector<std::string> decisions(mlir::ModuleOp module) {
  std::vector<std::string> found;
  module.walk([&](mlir::Operation *op) {
    for (llvm::StringRef name : {dist::kSharding, dist::kShardings, dist::kSplit, dist::kStage, dist::kStages})
      if (mlir::Attribute attribute = op->getAttr(name)) {
        std::string text;
        llvm::raw_string_ostream(text) << op->getName() << ' ' << name << ' ' << attribute;
        found.push_back(text);
      }
  });
  return found;
}

std::vector<std::string> plan(bool renamed) {
  auto context = makeContext();
  auto module = importTiny(*context, 8);
  if (!module)
    return {};
  Plan options;
  options.logits = "logits";
  options.tp = options.pp = options.dp = 2;
  options.gradAccum = 4;
  if (!runPhases(*module, Phase::Model, Phase::Model, options))
    return {};
  if (renamed)
    renameParameters(*module);
  return runPhases(*module, Phase::Train, Phase::Plan, options) ? decisions(*module) : std::vector<std::string>();
}

TEST(Plan, DoesNotDependOnTheNamesOfParameters) {
  std::vector<std::string> named = plan(false), renamed = plan(true);
  EXPECT_GT(named.size(), 500u);
  EXPECT_EQ(named, renamed);
}

TEST(Plan, SplitsHeadsInnerFactorsAndTheVocabularyOnly) {
  auto context = makeContext();
  auto module = importTiny(*context, 4);
  ASSERT_TRUE(module);
  Plan options;
  options.logits = "logits";
  options.tp = 2;
  ASSERT_TRUE(runPhases(*module, Phase::Model, Phase::Plan, options));
  auto sharding = [&](llvm::StringRef name) {
    std::string text;
    llvm::raw_string_ostream(text) << module->lookupSymbol(name)->getAttr(dist::kSharding);
    return text;
  };
  EXPECT_EQ(sharding("transformer.h.3.attn.c_attn.weight"), "#dist.sharding<[{}, {}, {tp}, {}]>");
  EXPECT_EQ(sharding("transformer.h.3.attn.c_attn.bias"), "#dist.sharding<[{}, {tp}, {}]>");
  EXPECT_EQ(sharding("transformer.h.3.attn.c_proj.weight"), "#dist.sharding<[{tp}, {}, {}]>");
  EXPECT_EQ(sharding("transformer.h.3.attn.c_proj.bias"), "#dist.sharding<[{}]>");
  EXPECT_EQ(sharding("transformer.h.3.mlp.c_fc.weight"), "#dist.sharding<[{}, {tp}]>");
  EXPECT_EQ(sharding("transformer.h.3.mlp.c_proj.weight"), "#dist.sharding<[{tp}, {}]>");
  EXPECT_EQ(sharding("transformer.h.3.ln_1.weight"), "#dist.sharding<[{}]>");
  EXPECT_EQ(sharding("lm_head.weight"), "#dist.sharding<[{tp}, {}]>");
}

TEST(Plan, NoRankEverHoldsWholeLogits) {
  auto context = makeContext();
  auto module = importTiny(*context, 4);
  ASSERT_TRUE(module);
  Plan options;
  options.logits = "logits";
  options.tp = 4;
  ASSERT_TRUE(runPhases(*module, Phase::Model, Phase::Local, options));
  size_t shards = 0;
  module->walk([&](mlir::Operation *op) {
    for (mlir::Type type : op->getResultTypes())
      if (auto tensor = llvm::dyn_cast<mlir::RankedTensorType>(type); tensor && tensor.getRank() == 3) {
        EXPECT_NE(tensor.getDimSize(2), 257);
        shards += tensor.getDimSize(2) == 65;
      }
  });
  EXPECT_GT(shards, 0u);
}

} // namespace
