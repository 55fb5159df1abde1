// RUN: hyc-opt %s --hyc-form-clusters --hyc-lower-to-rank | FileCheck %s

// Dimensions that every operand steps through as through one become one, where that changes no order of a sum: the places
// of a small image are a row by their shape, joined or not; samples, channels and lines of 32 and more stay apart.
dist.mesh @mesh axes ["dp"] sizes [1] stages 1 batch <{dp}>
dist.schedule stage 0 slots 1 [#dist.do<begin_step>, #dist.do<forward micro_batch 0 slot 0>, #dist.do<backward micro_batch 0 slot 0>,
  #dist.do<reduce>, #dist.do<apply>]

// CHECK-DAG: rank.kernel @[[SMALL:sum_.*]] space [2, 3, 72] reduced [0, 2] strides [array<i64: 216, 72, 1>, array<i64: 0, 1, 0>]
// CHECK-DAG: rank.kernel @[[PART:sum_.*]] space [2, 3, 8, 7] reduced [0, 2, 3] strides [array<i64: 216, 72, 9, 1>
// CHECK-DAG: rank.kernel @[[LONG:sum_.*]] space [2, 4, 40] reduced [1, 2] strides [array<i64: 160, 40, 1>, array<i64: 1, 0, 0>]
// CHECK-LABEL: rank.func @forward()
// CHECK: rank.launch @[[SMALL]]
// CHECK: rank.launch @[[PART]]
// CHECK: rank.launch @[[LONG]]
hyc.func @forward.0(%x: tensor<2x3x8x9xf32> {hyc.input = "x", hyc.source = "sample"}, %y: tensor<2x4x40xf32> {hyc.input = "y", hyc.source = "sample"})
    -> (tensor<3xf32> {hyc.saved = "small"}, tensor<3xf32> {hyc.saved = "part"}, tensor<2xf32> {hyc.saved = "long"}) {
  %0 = hyc.reduce sum %x [0, 2, 3] {id = "small"} : (tensor<2x3x8x9xf32>) -> tensor<3xf32>
  %1 = hyc.slice %x offsets [0, 0, 0, 1] strides [1, 1, 1, 1] {id = "slice"} : (tensor<2x3x8x9xf32>) -> tensor<2x3x8x7xf32>
  %2 = hyc.reduce sum %1 [0, 2, 3] {id = "part"} : (tensor<2x3x8x7xf32>) -> tensor<3xf32>
  %3 = hyc.reduce sum %y [1, 2] {id = "long"} : (tensor<2x4x40xf32>) -> tensor<2xf32>
  hyc.return %0, %2, %3 : tensor<3xf32>, tensor<3xf32>, tensor<2xf32>
}
hyc.func @backward.0(%a: tensor<3xf32> {hyc.saved = "small"}, %b: tensor<3xf32> {hyc.saved = "part"}, %c: tensor<2xf32> {hyc.saved = "long"}) {
  hyc.return
}
hyc.func @reduce.0() {
  hyc.return
}
hyc.func @apply.0() {
  hyc.return
}
