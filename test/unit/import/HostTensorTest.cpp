// HostTensor: views, and that what does not vary is neither stored nor computed twice.
#include "hyc/Analysis/HostTensor.h"
#include "hyc/Analysis/ReshapeGroups.h"
#include "mlir/IR/Builders.h"
#include <gtest/gtest.h>

using namespace hyc;

namespace {
class HostTensorTest : public testing::Test {
protected:
  HostTensor iota(llvm::ArrayRef<int64_t> shape) {
    std::vector<HostElement> values;
    for (int64_t i = 0; i < *countElements(shape); ++i)
      values.push_back(HostElement::ofInteger(i));
    return HostTensor::fromElements(i64, shape, std::move(values));
  }

  mlir::MLIRContext context;
  mlir::Type i64 = mlir::IntegerType::get(&context, 64), f32 = mlir::Float32Type::get(&context);
};

TEST_F(HostTensorTest, a_transpose_reshaped_has_its_elements_in_the_new_order) {
  HostTensor turned = iota({2, 3}).transpose({1, 0});
  std::optional<HostTensor> flat = turned.reshape({6});
  ASSERT_TRUE(flat);
  EXPECT_EQ(flat->toIntegers(), (llvm::SmallVector<int64_t>{0, 3, 1, 4, 2, 5}));
}

TEST_F(HostTensorTest, a_reshape_of_repeated_dimensions_repeats_too) {
  HostTensor repeated = iota({3}).broadcastTo({1000000, 3});
  std::optional<HostTensor> reshaped = repeated.reshape({1000, 1000, 3});
  ASSERT_TRUE(reshaped);
  EXPECT_FALSE(reshaped->variesAlong(0));
  EXPECT_FALSE(reshaped->variesAlong(1));
  EXPECT_EQ(reshaped->at({5, 7, 2}).integer, 2);
}

TEST_F(HostTensorTest, merging_a_repeated_with_a_varying_dimension_stores_both) {
  std::optional<HostTensor> merged = iota({3}).broadcastTo({2, 3}).reshape({6});
  ASSERT_TRUE(merged);
  EXPECT_EQ(merged->toIntegers(), (llvm::SmallVector<int64_t>{0, 1, 2, 0, 1, 2}));
}

TEST_F(HostTensorTest, a_backward_slice_reads_backwards) {
  EXPECT_EQ(iota({5}).slice(0, 4, 3, -2).toIntegers(), (llvm::SmallVector<int64_t>{4, 2, 0}));
}

TEST_F(HostTensorTest, equal_elements_are_found_after_every_computation) {
  HostTensor rows = iota({3, 1}).broadcastTo({3, 4}), columns = iota({4}).broadcastTo({3, 4});
  std::optional<HostTensor> only_rows = HostTensor::map(i64, {rows, columns}, [](llvm::ArrayRef<HostElement> e) {
    return HostElement::ofInteger(e[0].integer + 0 * e[1].integer);
  });
  ASSERT_TRUE(only_rows);
  EXPECT_TRUE(only_rows->variesAlong(0));
  EXPECT_FALSE(only_rows->variesAlong(1));
}

TEST_F(HostTensorTest, a_huge_shape_costs_only_what_varies) {
  HostTensor rows = iota({8, 1}).broadcastTo({int64_t(1) << 40, 8, 8});
  std::optional<HostTensor> doubled = HostTensor::map(
      i64, {rows}, [](llvm::ArrayRef<HostElement> e) { return HostElement::ofInteger(2 * e[0].integer); });
  ASSERT_TRUE(doubled);
  EXPECT_EQ(doubled->at({12345678901, 3, 5}).integer, 6);
}

TEST_F(HostTensorTest, what_varies_too_much_fails_instead_of_allocating) {
  std::optional<HostTensor> none = HostTensor::generate(
      i64, {int64_t(1) << 40}, {true}, [](llvm::ArrayRef<int64_t> i) { return HostElement::ofInteger(i[0]); });
  EXPECT_FALSE(none);
  EXPECT_FALSE(HostTensor::range(i64, HostElement::ofInteger(0), HostElement::ofInteger(1), int64_t(1) << 40));
}

TEST_F(HostTensorTest, values_are_rounded_and_wrapped_to_their_type) {
  EXPECT_EQ(roundTo(f32, HostElement::ofReal(0.1)).real, static_cast<double>(0.1f));
  EXPECT_EQ(roundTo(mlir::IntegerType::get(&context, 8), HostElement::ofInteger(200)).integer, -56);
  EXPECT_EQ(
      roundTo(mlir::IntegerType::get(&context, 8, mlir::IntegerType::Unsigned), HostElement::ofInteger(-1)).integer,
      255);
  EXPECT_EQ(roundTo(mlir::IntegerType::get(&context, 1), HostElement::ofInteger(7)).integer, 1);
  EXPECT_EQ(roundTo(mlir::Float16Type::get(&context), HostElement::ofReal(70000)).real,
            std::numeric_limits<double>::infinity());
}

TEST_F(HostTensorTest, bytes_of_the_wrong_size_are_no_tensor) {
  char bytes[12] = {};
  EXPECT_TRUE(HostTensor::fromBytes(f32, {3}, bytes));
  EXPECT_FALSE(HostTensor::fromBytes(f32, {4}, bytes));
  EXPECT_FALSE(HostTensor::fromBytes(f32, {-1}, bytes));
  EXPECT_FALSE(HostTensor::fromBytes(f32, {int64_t(1) << 62, 4}, bytes));
}

TEST_F(HostTensorTest, an_attribute_round_trips) {
  for (HostTensor tensor : {iota({2, 3}), iota({3}).broadcastTo({2, 3}), iota({1}).broadcastTo({2, 3})}) {
    std::optional<HostTensor> back = HostTensor::fromAttr(tensor.toCompactAttr());
    ASSERT_TRUE(back);
    EXPECT_EQ(back->broadcastTo({2, 3}).toIntegers(), tensor.toIntegers());
  }
}

std::string describe(llvm::ArrayRef<int64_t> from, llvm::ArrayRef<int64_t> to) {
  std::string text;
  for (const ReshapeGroup &group : groupReshape(from, to))
    text += std::to_string(group.fromCount()) + ":" + std::to_string(group.toCount()) + " ";
  return text;
}

TEST(ReshapeGroupsTest, groups_are_the_shortest_that_agree) {
  EXPECT_EQ(describe({2, 16, 96}, {32, 3, 4, 8}), "2:1 1:3 ");
  EXPECT_EQ(describe({6, 4}, {4, 6}), "2:2 ");
  EXPECT_EQ(describe({2, 3}, {2, 3}), "1:1 1:1 ");
}

TEST(ReshapeGroupsTest, dimensions_of_size_one_join_a_neighbour) {
  EXPECT_EQ(describe({2, 4}, {2, 4, 1}), "1:1 1:2 ");
  EXPECT_EQ(describe({1, 4, 8}, {4, 8}), "2:1 1:1 ");
  EXPECT_EQ(describe({1, 1}, {1}), "2:1 ");
  EXPECT_EQ(describe({}, {1, 1}), "0:2 ");
}
} // namespace
