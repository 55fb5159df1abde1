// Rank coordinates are run-time values: the program of a stage is the same for 2 and for 1,024 data-parallel ranks.
#include "Gpt2Pipeline.h"
#include "dialects/Dist/DistDialect.h"

#include <gtest/gtest.h>

using namespace hyc;
using namespace hyc::pipelines;

namespace {

/// One line an op of the Rank text, attributes and types included; the mesh, which says how large dp is, left out.
std::vector<std::string> rankOps(int64_t dp) {
  auto context = makeContext();
  auto module = importTiny(*context, 2 * dp);
  if (!module)
    return {};
  Plan options;
  options.logits = "logits";
  options.tp = options.pp = 2;
  options.dp = dp;
  options.gradAccum = 4;
  if (!runPhases(*module, Phase::Model, Phase::Rank, options))
    return {};
  std::vector<std::string> lines;
  module->walk([&](mlir::Operation *op) {
    if (llvm::isa<mlir::ModuleOp, dist::MeshOp>(op))
      return;
    std::string text;
    llvm::raw_string_ostream stream(text);
    stream << op->getName() << ' ' << op->getAttrDictionary();
    for (mlir::Type type : op->getOperandTypes())
      stream << ' ' << type;
    for (mlir::Type type : op->getResultTypes())
      stream << ' ' << type;
    lines.push_back(text);
  });
  return lines;
}

TEST(ProgramSize, RankTextIsTheSameForDp2AndDp1024) {
  std::vector<std::string> small = rankOps(2), large = rankOps(1024);
  ASSERT_GT(small.size(), 500u);
  ASSERT_EQ(small.size(), large.size());
  for (size_t i = 0; i < small.size(); ++i)
    ASSERT_EQ(small[i], large[i]) << "op " << i;
}

} // namespace
