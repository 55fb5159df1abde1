// What is the same in every step of a scan is computed once, before it.
// RUN: hyc-opt %s --hyc-hoist-invariants | FileCheck %s

// The weight's tanh leaves the step. The broadcast of a constant stays: clusters make it out of nothing.
// CHECK-LABEL: hyc.func @forward.0
// CHECK-SAME: (%[[X:.*]]: tensor<8x2x4xf32>, %[[H:.*]]: tensor<2x4xf32>, %[[W:.*]]: tensor<4x4xf32>)
// CHECK-NEXT: %[[TANH:.*]] = hyc.tanh %[[W]] {id = "t"} : tensor<4x4xf32>
// CHECK-NEXT: hyc.scan 8 init(%[[H]]) over(%[[X]]) with(%[[W]], %[[TANH]])
// CHECK-NEXT: ^bb0(%[[STATE:[^:]*]]: tensor<2x4xf32>, %{{[^:]*}}: tensor<2x4xf32>, %{{[^:]*}}: tensor<4x4xf32>, %[[IN:[^:]*]]: tensor<4x4xf32>):
// CHECK-NOT: hyc.tanh {{.*}}4x4xf32
// CHECK: hyc.broadcast
// CHECK: hyc.einsum "mk,kn->mn" %[[STATE]], %[[IN]]
// CHECK: hyc.return
hyc.func @forward.0(%x: tensor<8x2x4xf32>, %h: tensor<2x4xf32>, %w: tensor<4x4xf32>) -> tensor<2x4xf32> {
  %last = hyc.scan 8 init(%h) over(%x) with(%w) attributes {id = "scan"} : (tensor<2x4xf32>, tensor<8x2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32> {
  ^bb0(%state: tensor<2x4xf32>, %each: tensor<2x4xf32>, %weight: tensor<4x4xf32>):
    %t = hyc.tanh %weight {id = "t"} : tensor<4x4xf32>
    %one = hyc.constant {id = "one"} dense<1.0> : tensor<4xf32>
    %ones = hyc.broadcast %one [1] {id = "ones"} : (tensor<4xf32>) -> tensor<2x4xf32>
    %p = hyc.einsum "mk,kn->mn" %state, %t {id = "p"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %q = hyc.add %p, %each {id = "q"} : tensor<2x4xf32>
    %next = hyc.add %q, %ones {id = "next"} : tensor<2x4xf32>
    hyc.yield %next : tensor<2x4xf32>
  }
  hyc.return %last : tensor<2x4xf32>
}

// Of what is hoisted one may be made of the other; the broadcast that it is also made of is copied.
// CHECK-LABEL: hyc.func @forward.1
// CHECK: %[[T:.*]] = hyc.tanh %[[W:.*]] {id = "t"}
// CHECK: %[[ONES:.*]] = hyc.broadcast
// CHECK: %[[U:.*]] = hyc.add %[[T]], %[[ONES]] {id = "u"}
// CHECK: hyc.scan 2 init({{.*}}) with(%[[W]], %[[T]], %[[U]])
// CHECK-NEXT: ^bb0(%[[H:[^:]*]]: tensor<4x4xf32>, %{{[^:]*}}: tensor<4x4xf32>, %[[TIN:[^:]*]]: tensor<4x4xf32>, %[[UIN:[^:]*]]: tensor<4x4xf32>):
// CHECK: hyc.broadcast
// CHECK: hyc.mul %[[H]], %[[TIN]]
// CHECK: hyc.mul %{{.*}}, %[[UIN]]
// CHECK: hyc.return
hyc.func @forward.1(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %last = hyc.scan 2 init(%x) with(%w) attributes {id = "scan"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> {
  ^bb0(%h: tensor<4x4xf32>, %weight: tensor<4x4xf32>):
    %t = hyc.tanh %weight {id = "t"} : tensor<4x4xf32>
    %one = hyc.constant {id = "one"} dense<1.0> : tensor<4xf32>
    %ones = hyc.broadcast %one [1] {id = "ones"} : (tensor<4xf32>) -> tensor<4x4xf32>
    %u = hyc.add %t, %ones {id = "u"} : tensor<4x4xf32>
    %0 = hyc.mul %h, %t {id = "first"} : tensor<4x4xf32>
    %1 = hyc.mul %0, %u {id = "second"} : tensor<4x4xf32>
    %2 = hyc.add %1, %ones {id = "third"} : tensor<4x4xf32>
    hyc.yield %2 : tensor<4x4xf32>
  }
  hyc.return %last : tensor<4x4xf32>
}
