// Dropout and its mask are part of the loops around them; the keys are a view of the input, a column for each op.
// RUN: hyc-opt %s --hyc-form-clusters | FileCheck %s

hyc.func @forward.0(%x: tensor<2x3x6xbf16>, %r: tensor<2x3x6xbf16>, %k: tensor<2x4xi64>, %o: tensor<i64>) -> (tensor<2x3x6xbf16>, tensor<2x3x6xi1>) {
  %m = hyc.dropout_mask %k column 3 offsets %o strides [8, 1] rate 2.5e-1 {id = "m"} : (tensor<2x4xi64>, tensor<i64>) -> tensor<2x3x6xi1>
  %y = hyc.dropout %x mask %m rate 2.5e-1 {id = "y"} : (tensor<2x3x6xbf16>, tensor<2x3x6xi1>) -> tensor<2x3x6xbf16>
  %z = hyc.add %y, %r {id = "z"} : tensor<2x3x6xbf16>
  %s = hyc.dropout_mask %k column 0 rate 5.0e-1 {id = "s"} : (tensor<2x4xi64>) -> tensor<2x3x6xi1>
  hyc.return %z, %s : tensor<2x3x6xbf16>, tensor<2x3x6xi1>
}
// CHECK: %[[COLUMN:.*]] = hyc.slice %{{.*}} offsets [0, 3] strides [1, 1]
// CHECK-NEXT: %[[KEYS:.*]] = hyc.reshape %[[COLUMN]] : (tensor<2x1xi64>) -> tensor<2xi64>
// CHECK: rank.cluster
// CHECK: %[[EIGHT:.*]] = rank.literal 8 : i64
// CHECK: %[[ROW:.*]] = rank.compute "mul" %{{.*}}, %[[EIGHT]]
// CHECK: %[[WORD:.*]] = rank.compute "random_word"
// CHECK-NEXT: %[[THRESHOLD:.*]] = rank.literal 1073741824 : i64
// CHECK-NEXT: %[[KEPT:.*]] = rank.compute "compare_ge" %[[WORD]], %[[THRESHOLD]] : (i64, i64) -> i1
// CHECK: rank.compute "mul" %{{.*}} : (f32, f32) -> f32
// CHECK-NEXT: %[[CHOSEN:.*]] = rank.compute "select" %[[KEPT]], %{{.*}} : (i1, f32, f32) -> f32
// CHECK-NEXT: %[[ROUNDED:.*]] = rank.compute "convert" %[[CHOSEN]] : (f32) -> bf16
// CHECK-NEXT: %[[SUM:.*]] = rank.compute "add" %[[ROUNDED]]
// CHECK-NEXT: rank.yield %[[SUM]]
// A mask that is saved is a kernel's result.
// CHECK: rank.cluster {{.*}} -> tensor<2x3x6xi1>
