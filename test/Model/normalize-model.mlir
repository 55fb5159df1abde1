// RUN: hyc-opt %s --hyc-normalize-model | FileCheck %s

// One order of parameters, reads and letters; generated ids are numbered again, chosen ones stay, and what only
// rearranges is named after what made it.

// CHECK: hyc.param @weight
// CHECK-NEXT: hyc.param @bias
// CHECK-NEXT: hyc.param @unused
hyc.param @unused : tensor<4xf32> from #hyc.fill<0.0>
hyc.param @bias : tensor<4xf32> from #hyc.fill<0.0>
hyc.param @weight : tensor<8x4xf32> from #hyc.fill<0.0>

// CHECK: hyc.func @train(%[[X:.*]]: tensor<2x3x8xf32>
hyc.func @train(%x: tensor<2x3x8xf32> {hyc.input = "x"}) -> (tensor<6x4xf32> {hyc.output = "y"}, tensor<2x3x4xf32> {hyc.output = "z"}) {
  %b = hyc.read @bias : tensor<4xf32>
  %w = hyc.read @weight : tensor<8x4xf32>
  %late = hyc.broadcast %b [2] {id = "fc.broadcast.7"} : (tensor<4xf32>) -> tensor<2x3x4xf32>
  %p = hyc.einsum "mak,kn->man" %x, %w {id = "fc.einsum.3"} : (tensor<2x3x8xf32>, tensor<8x4xf32>) -> tensor<2x3x4xf32>
  %s = hyc.add %p, %late {id = "chosen"} : tensor<2x3x4xf32>
  %r = hyc.relu %s {id = "act.relu"} : tensor<2x3x4xf32>
  %y = hyc.reshape %r {id = "elsewhere.reshape"} : (tensor<2x3x4xf32>) -> tensor<6x4xf32>
  hyc.return %y, %p : tensor<6x4xf32>, tensor<2x3x4xf32>
}
// CHECK-NEXT: %[[W:.*]] = hyc.read @weight
// CHECK-NEXT: %[[P:.*]] = hyc.einsum "abc,cd->abd" %[[X]], %[[W]] {id = "fc.einsum"}
// CHECK-NEXT: hyc.read @bias
// CHECK-NEXT: hyc.broadcast {{.*}} {id = "fc.broadcast"}
// CHECK-NEXT: hyc.add {{.*}} {id = "chosen"}
// CHECK-NEXT: hyc.relu {{.*}} {id = "act.relu"}
// CHECK-NEXT: hyc.reshape {{.*}} {id = "act.reshape"}
// CHECK-NEXT: hyc.return
