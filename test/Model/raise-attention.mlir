// RUN: hyc-opt %s --hyc-raise-attention --split-input-file | FileCheck %s

// An additive triangle, split scales, and a guard against NaN.
// CHECK-LABEL: @scales_on_both_sides_and_a_guard
// CHECK-SAME: (%[[Q:.*]]: tensor<2x3x4x16xf32>, %[[K:.*]]: tensor<2x3x4x16xf32>, %[[V:.*]]: tensor<2x3x4x16xf32>)
// CHECK-NEXT: %[[R:.*]], %{{.*}} = hyc.attention causal %[[Q]], %[[K]], %[[V]] scale 2.500000e-01 {id = "attn.attention"}
// CHECK-NEXT: hyc.return %[[R]]
hyc.func @scales_on_both_sides_and_a_guard(%q: tensor<2x3x4x16xf32>, %k: tensor<2x3x4x16xf32>, %v: tensor<2x3x4x16xf32>) -> tensor<2x3x4x16xf32> {
  %half = hyc.constant dense<0.5> : tensor<2x3x4x16xf32>
  %triangle = hyc.constant dense<[[[[0.0, 0xFF800000, 0xFF800000], [0.0, 0.0, 0xFF800000], [0.0, 0.0, 0.0]]]]> : tensor<1x1x3x3xf32>
  %flat = hyc.reshape %triangle : (tensor<1x1x3x3xf32>) -> tensor<3x3xf32>
  %mask = hyc.broadcast %flat [2, 3] : (tensor<3x3xf32>) -> tensor<2x4x3x3xf32>
  %0 = hyc.mul %q, %half : tensor<2x3x4x16xf32>
  %1 = hyc.mul %half, %k : tensor<2x3x4x16xf32>
  %2 = hyc.einsum "bshd,bthd->bhst" %0, %1 : (tensor<2x3x4x16xf32>, tensor<2x3x4x16xf32>) -> tensor<2x4x3x3xf32>
  %3 = hyc.add %2, %mask : tensor<2x4x3x3xf32>
  %4 = hyc.softmax %3 : tensor<2x4x3x3xf32>
  %5 = hyc.compare ne %4, %4 : (tensor<2x4x3x3xf32>, tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xi1>
  %zero = hyc.constant dense<0.0> : tensor<2x4x3x3xf32>
  %6 = hyc.select %5, %zero, %4 : (tensor<2x4x3x3xi1>, tensor<2x4x3x3xf32>, tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %7 = hyc.einsum "bhst,bthd->bshd" %6, %v {id = "attn.einsum.2"} : (tensor<2x4x3x3xf32>, tensor<2x3x4x16xf32>) -> tensor<2x3x4x16xf32>
  hyc.return %7 : tensor<2x3x4x16xf32>
}

// -----

// The triangle computed from positions, selected by, and a scale that divides the product; operands swapped.
// CHECK-LABEL: @a_computed_boolean_mask
// CHECK: hyc.attention causal %arg0, %arg1, %arg2 scale 2.500000e-01
hyc.func @a_computed_boolean_mask(%q: tensor<2x3x4x16xf32>, %k: tensor<2x3x4x16xf32>, %v: tensor<2x3x4x16xf32>) -> tensor<2x3x4x16xf32> {
  %rows = hyc.iota dim 0 : tensor<3x3xi64>
  %columns = hyc.iota dim 1 : tensor<3x3xi64>
  %later = hyc.compare gt %columns, %rows : (tensor<3x3xi64>, tensor<3x3xi64>) -> tensor<3x3xi1>
  %masked = hyc.broadcast %later [2, 3] : (tensor<3x3xi1>) -> tensor<2x4x3x3xi1>
  %low = hyc.constant dense<-1.0e9> : tensor<2x4x3x3xf32>
  %four = hyc.constant dense<4.0> : tensor<2x4x3x3xf32>
  %0 = hyc.einsum "bthd,bshd->bhst" %k, %q : (tensor<2x3x4x16xf32>, tensor<2x3x4x16xf32>) -> tensor<2x4x3x3xf32>
  %1 = hyc.div %0, %four : tensor<2x4x3x3xf32>
  %2 = hyc.select %masked, %low, %1 : (tensor<2x4x3x3xi1>, tensor<2x4x3x3xf32>, tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %3 = hyc.softmax %2 : tensor<2x4x3x3xf32>
  %4 = hyc.einsum "bthd,bhst->bshd" %v, %3 : (tensor<2x3x4x16xf32>, tensor<2x4x3x3xf32>) -> tensor<2x3x4x16xf32>
  hyc.return %4 : tensor<2x3x4x16xf32>
}

// -----

// No mask, heads before the sequence: transposes bring them into place.
// CHECK-LABEL: @heads_first
// CHECK: %[[Q:.*]] = hyc.transpose %arg0 [0, 2, 1, 3]
// CHECK: %[[K:.*]] = hyc.transpose %arg1 [0, 2, 1, 3]
// CHECK: %[[V:.*]] = hyc.transpose %arg2 [0, 2, 1, 3]
// CHECK: %[[R:.*]], %{{.*}} = hyc.attention %[[Q]], %[[K]], %[[V]] scale 1.000000e+00
// CHECK: hyc.transpose %[[R]] [0, 2, 1, 3]
hyc.func @heads_first(%q: tensor<2x4x3x16xf32>, %k: tensor<2x4x5x16xf32>, %v: tensor<2x4x5x16xf32>) -> tensor<2x4x3x16xf32> {
  %0 = hyc.einsum "bhsd,bhtd->bhst" %q, %k : (tensor<2x4x3x16xf32>, tensor<2x4x5x16xf32>) -> tensor<2x4x3x5xf32>
  %1 = hyc.softmax %0 : tensor<2x4x3x5xf32>
  %2 = hyc.einsum "bhst,bhtd->bhsd" %1, %v : (tensor<2x4x3x5xf32>, tensor<2x4x5x16xf32>) -> tensor<2x4x3x16xf32>
  hyc.return %2 : tensor<2x4x3x16xf32>
}

// -----

// Batch and heads in one dimension: one head each.
// CHECK-LABEL: @one_batch_dimension
// CHECK: hyc.attention %{{.*}} : (tensor<8x3x1x16xf32>, tensor<8x3x1x16xf32>, tensor<8x3x1x16xf32>)
// CHECK: -> tensor<8x3x16xf32>
hyc.func @one_batch_dimension(%q: tensor<8x3x16xf32>, %k: tensor<8x3x16xf32>, %v: tensor<8x3x16xf32>) -> tensor<8x3x16xf32> {
  %0 = hyc.einsum "bsd,btd->bst" %q, %k : (tensor<8x3x16xf32>, tensor<8x3x16xf32>) -> tensor<8x3x3xf32>
  %1 = hyc.softmax %0 : tensor<8x3x3xf32>
  %2 = hyc.einsum "bst,btd->bsd" %1, %v : (tensor<8x3x3xf32>, tensor<8x3x16xf32>) -> tensor<8x3x16xf32>
  hyc.return %2 : tensor<8x3x16xf32>
}

// -----

// A window of two keys is no triangle.
// CHECK-LABEL: @another_mask_stays
// CHECK-NOT: hyc.attention
// CHECK: hyc.softmax
hyc.func @another_mask_stays(%q: tensor<2x3x4x16xf32>, %k: tensor<2x3x4x16xf32>, %v: tensor<2x3x4x16xf32>) -> tensor<2x3x4x16xf32> {
  %window = hyc.constant dense<[[0.0, 0xFF800000, 0xFF800000], [0.0, 0.0, 0xFF800000], [0xFF800000, 0.0, 0.0]]> : tensor<3x3xf32>
  %mask = hyc.broadcast %window [2, 3] : (tensor<3x3xf32>) -> tensor<2x4x3x3xf32>
  %0 = hyc.einsum "bshd,bthd->bhst" %q, %k : (tensor<2x3x4x16xf32>, tensor<2x3x4x16xf32>) -> tensor<2x4x3x3xf32>
  %1 = hyc.add %0, %mask : tensor<2x4x3x3xf32>
  %2 = hyc.softmax %1 : tensor<2x4x3x3xf32>
  %3 = hyc.einsum "bhst,bthd->bshd" %2, %v : (tensor<2x4x3x3xf32>, tensor<2x3x4x16xf32>) -> tensor<2x3x4x16xf32>
  hyc.return %3 : tensor<2x3x4x16xf32>
}

// -----

// A bias of scores that masks nothing is no mask either.
// CHECK-LABEL: @a_position_bias_stays
// CHECK-NOT: hyc.attention
// CHECK: hyc.softmax
hyc.func @a_position_bias_stays(%q: tensor<2x3x4x16xf32>, %k: tensor<2x3x4x16xf32>, %v: tensor<2x3x4x16xf32>) -> tensor<2x3x4x16xf32> {
  %bias = hyc.constant dense<[[0.0, -1.0, -2.0], [0.0, 0.0, -1.0], [0.0, 0.0, 0.0]]> : tensor<3x3xf32>
  %mask = hyc.broadcast %bias [2, 3] : (tensor<3x3xf32>) -> tensor<2x4x3x3xf32>
  %0 = hyc.einsum "bshd,bthd->bhst" %q, %k : (tensor<2x3x4x16xf32>, tensor<2x3x4x16xf32>) -> tensor<2x4x3x3xf32>
  %1 = hyc.add %0, %mask : tensor<2x4x3x3xf32>
  %2 = hyc.softmax %1 : tensor<2x4x3x3xf32>
  %3 = hyc.einsum "bhst,bthd->bshd" %2, %v : (tensor<2x4x3x3xf32>, tensor<2x3x4x16xf32>) -> tensor<2x3x4x16xf32>
  hyc.return %3 : tensor<2x3x4x16xf32>
}

// -----

// Probabilities that somebody else reads have to be computed.
// CHECK-LABEL: @returned_probabilities_stay
// CHECK-NOT: hyc.attention
// CHECK: hyc.softmax
hyc.func @returned_probabilities_stay(%q: tensor<2x3x4x16xf32>, %k: tensor<2x3x4x16xf32>, %v: tensor<2x3x4x16xf32>) -> (tensor<2x3x4x16xf32>, tensor<2x4x3x3xf32>) {
  %0 = hyc.einsum "bshd,bthd->bhst" %q, %k : (tensor<2x3x4x16xf32>, tensor<2x3x4x16xf32>) -> tensor<2x4x3x3xf32>
  %1 = hyc.softmax %0 : tensor<2x4x3x3xf32>
  %2 = hyc.einsum "bhst,bthd->bshd" %1, %v : (tensor<2x4x3x3xf32>, tensor<2x3x4x16xf32>) -> tensor<2x3x4x16xf32>
  hyc.return %2, %1 : tensor<2x3x4x16xf32>, tensor<2x4x3x3xf32>
}

// -----

// What is padding is an input: it stays a mask, without the triangle, and without copies over heads and queries. Layers
// share it.
// CHECK-LABEL: @padding_that_an_input_tells
// CHECK-SAME: %[[SEEN:[a-z0-9]*]]: tensor<2x3xi1>
// CHECK: %[[MASK:.*]] = hyc.reshape %[[SEEN]] {{.*}} -> tensor<2x1x1x3xi1>
// CHECK: %[[R:.*]], %{{.*}} = hyc.attention causal %arg0, %arg0, %arg0 scale 2.500000e-01 mask %[[MASK]]
// CHECK: hyc.attention causal %[[R]], %[[R]], %[[R]] scale 2.500000e-01 mask %[[MASK]]
// CHECK-NOT: hyc.softmax
hyc.func @padding_that_an_input_tells(%q: tensor<2x3x4x16xf32>, %seen: tensor<2x3xi1>) -> tensor<2x3x4x16xf32> {
  %rows = hyc.iota dim 2 : tensor<2x1x3x3xi64>
  %columns = hyc.iota dim 3 : tensor<2x1x3x3xi64>
  %triangle = hyc.compare le %columns, %rows : (tensor<2x1x3x3xi64>, tensor<2x1x3x3xi64>) -> tensor<2x1x3x3xi1>
  %flat = hyc.reshape %seen : (tensor<2x3xi1>) -> tensor<2x1x3xi1>
  %padding = hyc.broadcast %flat [0, 1, 3] : (tensor<2x1x3xi1>) -> tensor<2x1x3x3xi1>
  %both = hyc.and %triangle, %padding : tensor<2x1x3x3xi1>
  %kept = hyc.reshape %both : (tensor<2x1x3x3xi1>) -> tensor<2x3x3xi1>
  %low = hyc.constant dense<0xFF800000> : tensor<2x4x3x3xf32>
  %quarter = hyc.constant dense<0.25> : tensor<2x4x3x3xf32>
  %m0 = hyc.broadcast %kept [0, 2, 3] : (tensor<2x3x3xi1>) -> tensor<2x4x3x3xi1>
  %0 = hyc.einsum "bshd,bthd->bhst" %q, %q : (tensor<2x3x4x16xf32>, tensor<2x3x4x16xf32>) -> tensor<2x4x3x3xf32>
  %1 = hyc.mul %0, %quarter : tensor<2x4x3x3xf32>
  %2 = hyc.select %m0, %1, %low : (tensor<2x4x3x3xi1>, tensor<2x4x3x3xf32>, tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %3 = hyc.softmax %2 : tensor<2x4x3x3xf32>
  %4 = hyc.einsum "bhst,bthd->bshd" %3, %q : (tensor<2x4x3x3xf32>, tensor<2x3x4x16xf32>) -> tensor<2x3x4x16xf32>
  %m1 = hyc.broadcast %kept [0, 2, 3] : (tensor<2x3x3xi1>) -> tensor<2x4x3x3xi1>
  %5 = hyc.einsum "bshd,bthd->bhst" %4, %4 : (tensor<2x3x4x16xf32>, tensor<2x3x4x16xf32>) -> tensor<2x4x3x3xf32>
  %6 = hyc.mul %5, %quarter : tensor<2x4x3x3xf32>
  %7 = hyc.select %m1, %6, %low : (tensor<2x4x3x3xi1>, tensor<2x4x3x3xf32>, tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %8 = hyc.softmax %7 : tensor<2x4x3x3xf32>
  %9 = hyc.einsum "bhst,bthd->bshd" %8, %4 : (tensor<2x4x3x3xf32>, tensor<2x3x4x16xf32>) -> tensor<2x3x4x16xf32>
  hyc.return %9 : tensor<2x3x4x16xf32>
}

// -----

// With a finite number in place of what is masked, a row of nothing else would be the mean of all values, and no 0.
// CHECK-LABEL: @a_mask_by_a_finite_number_stays
// CHECK-NOT: hyc.attention
// CHECK: hyc.softmax
hyc.func @a_mask_by_a_finite_number_stays(%q: tensor<2x3x4x16xf32>, %seen: tensor<2x4x3x3xi1>) -> tensor<2x3x4x16xf32> {
  %low = hyc.constant dense<-1.0e9> : tensor<2x4x3x3xf32>
  %0 = hyc.einsum "bshd,bthd->bhst" %q, %q : (tensor<2x3x4x16xf32>, tensor<2x3x4x16xf32>) -> tensor<2x4x3x3xf32>
  %1 = hyc.select %seen, %0, %low : (tensor<2x4x3x3xi1>, tensor<2x4x3x3xf32>, tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %2 = hyc.softmax %1 : tensor<2x4x3x3xf32>
  %3 = hyc.einsum "bhst,bthd->bshd" %2, %q : (tensor<2x4x3x3xf32>, tensor<2x3x4x16xf32>) -> tensor<2x3x4x16xf32>
  hyc.return %3 : tensor<2x3x4x16xf32>
}

// -----

// As PyTorch has it since 2.5: rows of which a mask keeps nothing are 0, before softmax so that no NaN comes of them, and
// after it. Attention gives 0 for them by itself.
// CHECK-LABEL: @rows_of_nothing_are_0
// CHECK: %[[MASK:.*]] = hyc.reshape {{.*}} -> tensor<2x1x3x3xi1>
// CHECK: hyc.attention %arg0, %arg0, %arg0 scale 2.500000e-01 mask %[[MASK]]
// CHECK-NOT: hyc.softmax
// CHECK-NOT: hyc.reduce
hyc.func @rows_of_nothing_are_0(%q: tensor<2x3x4x16xf32>, %seen: tensor<2x1x3x3xi1>) -> tensor<2x3x4x16xf32> {
  %low = hyc.constant dense<0xFF800000> : tensor<2x4x3x3xf32>
  %quarter = hyc.constant dense<0.25> : tensor<2x4x3x3xf32>
  %zero = hyc.constant dense<0.0> : tensor<2x4x3x3xf32>
  %none = hyc.constant dense<0.0> : tensor<2x1x3x1xf32>
  %flat = hyc.reshape %seen : (tensor<2x1x3x3xi1>) -> tensor<2x3x3xi1>
  %kept = hyc.broadcast %flat [0, 2, 3] : (tensor<2x3x3xi1>) -> tensor<2x4x3x3xi1>
  %0 = hyc.einsum "bshd,bthd->bhst" %q, %q : (tensor<2x3x4x16xf32>, tensor<2x3x4x16xf32>) -> tensor<2x4x3x3xf32>
  %1 = hyc.mul %0, %quarter : tensor<2x4x3x3xf32>
  %2 = hyc.select %kept, %1, %low : (tensor<2x4x3x3xi1>, tensor<2x4x3x3xf32>, tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %3 = hyc.convert %seen : (tensor<2x1x3x3xi1>) -> tensor<2x1x3x3xf32>
  %4 = hyc.reduce max %3 [3] : (tensor<2x1x3x3xf32>) -> tensor<2x1x3xf32>
  %5 = hyc.reshape %4 : (tensor<2x1x3xf32>) -> tensor<2x1x3x1xf32>
  %6 = hyc.compare eq %5, %none : (tensor<2x1x3x1xf32>, tensor<2x1x3x1xf32>) -> tensor<2x1x3x1xi1>
  %7 = hyc.reshape %6 : (tensor<2x1x3x1xi1>) -> tensor<2x3xi1>
  %8 = hyc.broadcast %7 [0, 2] : (tensor<2x3xi1>) -> tensor<2x4x3x3xi1>
  %9 = hyc.select %8, %zero, %2 : (tensor<2x4x3x3xi1>, tensor<2x4x3x3xf32>, tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %10 = hyc.softmax %9 : tensor<2x4x3x3xf32>
  %11 = hyc.select %8, %zero, %10 : (tensor<2x4x3x3xi1>, tensor<2x4x3x3xf32>, tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %12 = hyc.einsum "bhst,bthd->bshd" %11, %q : (tensor<2x4x3x3xf32>, tensor<2x3x4x16xf32>) -> tensor<2x3x4x16xf32>
  hyc.return %12 : tensor<2x3x4x16xf32>
}

// -----

// Without the second 0 such a row is the mean of all values, and rows that another mask tells are others.
// CHECK-LABEL: @rows_of_nothing_stay_a_mean
// CHECK-NOT: hyc.attention
// CHECK-COUNT-2: hyc.softmax
hyc.func @rows_of_nothing_stay_a_mean(%q: tensor<2x3x4x16xf32>, %seen: tensor<2x4x3x3xi1>, %other: tensor<2x4x3x3xi1>) -> (tensor<2x3x4x16xf32>, tensor<2x3x4x16xf32>) {
  %low = hyc.constant dense<0xFF800000> : tensor<2x4x3x3xf32>
  %zero = hyc.constant dense<0.0> : tensor<2x4x3x3xf32>
  %none = hyc.constant dense<0.0> : tensor<2x4x3xf32>
  %0 = hyc.einsum "bshd,bthd->bhst" %q, %q : (tensor<2x3x4x16xf32>, tensor<2x3x4x16xf32>) -> tensor<2x4x3x3xf32>
  %1 = hyc.select %seen, %0, %low : (tensor<2x4x3x3xi1>, tensor<2x4x3x3xf32>, tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %2 = hyc.convert %seen : (tensor<2x4x3x3xi1>) -> tensor<2x4x3x3xf32>
  %3 = hyc.reduce max %2 [3] : (tensor<2x4x3x3xf32>) -> tensor<2x4x3xf32>
  %4 = hyc.compare eq %3, %none : (tensor<2x4x3xf32>, tensor<2x4x3xf32>) -> tensor<2x4x3xi1>
  %5 = hyc.broadcast %4 [0, 1, 2] : (tensor<2x4x3xi1>) -> tensor<2x4x3x3xi1>
  %6 = hyc.select %5, %zero, %1 : (tensor<2x4x3x3xi1>, tensor<2x4x3x3xf32>, tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %7 = hyc.softmax %6 : tensor<2x4x3x3xf32>
  %8 = hyc.einsum "bhst,bthd->bshd" %7, %q : (tensor<2x4x3x3xf32>, tensor<2x3x4x16xf32>) -> tensor<2x3x4x16xf32>
  %9 = hyc.select %other, %0, %low : (tensor<2x4x3x3xi1>, tensor<2x4x3x3xf32>, tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %10 = hyc.select %5, %zero, %9 : (tensor<2x4x3x3xi1>, tensor<2x4x3x3xf32>, tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %11 = hyc.softmax %10 : tensor<2x4x3x3xf32>
  %12 = hyc.select %5, %zero, %11 : (tensor<2x4x3x3xi1>, tensor<2x4x3x3xf32>, tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %13 = hyc.einsum "bhst,bthd->bshd" %12, %q : (tensor<2x4x3x3xf32>, tensor<2x3x4x16xf32>) -> tensor<2x3x4x16xf32>
  hyc.return %8, %13 : tensor<2x3x4x16xf32>, tensor<2x3x4x16xf32>
}

// -----

// Of a triangle each row keeps something: the guards are gone, whether attention takes the scores or not.
// CHECK-LABEL: @no_rows_of_nothing
// CHECK: hyc.attention causal %arg0, %arg0, %arg0
// CHECK-NOT: hyc.select
hyc.func @no_rows_of_nothing(%q: tensor<2x3x4x16xf32>) -> tensor<2x3x4x16xf32> {
  %triangle = hyc.constant dense<[[true, false, false], [true, true, false], [true, true, true]]> : tensor<3x3xi1>
  %kept = hyc.broadcast %triangle [2, 3] : (tensor<3x3xi1>) -> tensor<2x4x3x3xi1>
  %low = hyc.constant dense<0xFF800000> : tensor<2x4x3x3xf32>
  %zero = hyc.constant dense<0.0> : tensor<2x4x3x3xf32>
  %rows = hyc.constant dense<false> : tensor<2x4x3x3xi1>
  %0 = hyc.einsum "bshd,bthd->bhst" %q, %q : (tensor<2x3x4x16xf32>, tensor<2x3x4x16xf32>) -> tensor<2x4x3x3xf32>
  %1 = hyc.select %kept, %0, %low : (tensor<2x4x3x3xi1>, tensor<2x4x3x3xf32>, tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %2 = hyc.select %rows, %zero, %1 : (tensor<2x4x3x3xi1>, tensor<2x4x3x3xf32>, tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %3 = hyc.softmax %2 : tensor<2x4x3x3xf32>
  %4 = hyc.select %rows, %zero, %3 : (tensor<2x4x3x3xi1>, tensor<2x4x3x3xf32>, tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %5 = hyc.einsum "bhst,bthd->bshd" %4, %q : (tensor<2x4x3x3xf32>, tensor<2x3x4x16xf32>) -> tensor<2x3x4x16xf32>
  hyc.return %5 : tensor<2x3x4x16xf32>
}
