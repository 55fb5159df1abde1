// Tables that several rooms read: functions of elements, roles of states, optimizers.
#include "dialects/Hyc/HycDialect.h"
#include "dialects/Rank/ScalarFunctions.h"
#include "hyc/Support/Optimizers.h"
#include "mlir/IR/MLIRContext.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace hyc;

namespace {

TEST(OpFacts, EveryFunctionOfElementsHasARowOfItsOperands) {
  MLIRContext context;
  context.loadDialect<HycDialect>();
  unsigned seen = 0;
  for (RegisteredOperationName name : context.getRegisteredOperations()) {
    if (!name.hasInterface<ScalarFunctionOpInterface>() || name.getStringRef() == CompareOp::getOperationName())
      continue;
    const rank::ScalarFunction *row = rank::findScalarFunction(name.stripDialect());
    ASSERT_TRUE(row) << name.getStringRef().str() << " has no row in dialects/Rank/ScalarFunctions.cpp";
    EXPECT_TRUE(row->name == "convert" || row->text.contains("{" + std::to_string(row->operands - 1) + "}"))
        << row->name.str();
    EXPECT_FALSE(row->text.contains("{" + std::to_string(row->operands) + "}")) << row->name.str();
    ++seen;
  }
  EXPECT_GT(seen, 35u);
  for (uint64_t predicate = 0; predicate <= getMaxEnumValForComparePredicate(); ++predicate) {
    auto name = "compare_" + stringifyComparePredicate(*symbolizeComparePredicate(predicate)).str();
    EXPECT_TRUE(rank::findScalarFunction(name)) << name;
  }
}

TEST(OpFacts, WhatAFunctionCallsIsDefinedBesideIt) {
  for (const rank::ScalarFunction &function : rank::getScalarFunctions()) {
    if (function.definition.empty())
      continue;
    llvm::StringRef called = function.text.split('(').first;
    EXPECT_TRUE(function.definition.contains("inline ") && function.definition.contains((" " + called + "(").str()))
        << function.name.str();
  }
}

TEST(StateRoles, AreFoundByTheirNames) {
  for (const RoleFacts &facts : getRoles()) // of moments it is the empty name
    EXPECT_EQ(factsOfRole(facts.name).role, facts.role) << facts.name.str();
}

TEST(StateRoles, OfNoRowAreWhatOptimizersKeep) {
  for (llvm::StringRef name : {"adam.m", "lion.m", "sgd.momentum", "an optimizer to come"}) {
    EXPECT_EQ(factsOfRole(name).role, StateRole::moment);
    EXPECT_EQ(factsOfRole(name).arena, RoleArena::optimizer);
    EXPECT_TRUE(factsOfRole(name).isSaved);
  }
}

TEST(Optimizers, AreListedForMessages) {
  EXPECT_EQ(kOptimizerList, "adamw, adam, lamb, lion or sgd");
  EXPECT_EQ(listConfigOptimizers(), "AdamW, Adam, Lamb, Lion or SGD");
  EXPECT_EQ(kOptimizerChoices, "adamw|adam|lamb|lion|sgd");
  EXPECT_EQ(findOptimizer("adagrad"), nullptr);
}

TEST(Optimizers, TakeTheirParametersOnly) {
  EXPECT_TRUE(findOptimizer("lion")->takesParameter("betas"));
  EXPECT_FALSE(findOptimizer("lion")->takesParameter("eps"));
  EXPECT_FALSE(findOptimizer("lion")->takesParameter("beta"));
  for (const Optimizer &optimizer : kOptimizers)
    EXPECT_TRUE(optimizer.takesParameter("weight_decay")) << optimizer.name.str();
}

} // namespace
