// RUN: hyc-opt %s --hyc-differentiate -split-input-file | FileCheck %s

// A scan is differentiated as one. The steps go the other way in its gradient, from the cotangents of what they gave; what
// they were given of carried values is what the steps before gave, moved by one. The weight's gradient is one product over
// all steps, and a vector's one sum, behind the scan; what is neither is added up from step to step.

// CHECK-LABEL: hyc.func @microbatch
// CHECK: %[[FORWARD:.*]]:3 = hyc.scan 8 init(%[[ZERO:.*]]) over(%[[X:.*]]) with(%[[W:[^,]*]], %[[SCALE:.*]]) attributes {id = "scan"}
// CHECK-NEXT: ^bb0(%[[H:[^:]*]]: tensor<2x4xf32>, %[[E:[^:]*]]: tensor<2x4xf32>, %[[IN:[^:]*]]: tensor<4x4xf32>, %[[BY:[^:]*]]: tensor<2x4xf32>):
// CHECK:   %[[PRODUCT:.*]] = hyc.einsum "bk,kn->bn" %[[H]], %[[IN]]
// CHECK:   %[[SCALED:.*]] = hyc.mul %[[PRODUCT]], %[[BY]]
// CHECK:   %[[NEXT:.*]] = hyc.add %[[SCALED]], %[[E]]
// CHECK:   hyc.yield %[[NEXT]], %[[NEXT]], %[[PRODUCT]]

// CHECK: hyc.loss_seed
// CHECK: %[[FIRST:.*]] = hyc.reshape %[[ZERO]] {{.*}} -> tensor<1x2x4xf32>
// CHECK: %[[OTHERS:.*]] = hyc.slice %[[FORWARD]]#1 offsets [0, 0, 0] {{.*}} -> tensor<7x2x4xf32>
// CHECK: %[[BEFORE:.*]] = hyc.concat %[[FIRST]], %[[OTHERS]] dim 0
// CHECK: %[[BACK:.*]]:3 = hyc.scan 8 reverse init(%{{[^,]*}}, %{{[^)]*}}) over(%{{[^,]*}}, %[[FORWARD]]#2) with(%[[SCALE]], %[[W]])
// CHECK:   hyc.add %{{.*}} {hyc.backward, id = "scan.grad.accumulate"}
// CHECK: %[[DW:.*]] = hyc.einsum "abk,abn->kn" %[[BEFORE]], %[[BACK]]#2 {{.*}}id = "scan.grad.invariant0"
// CHECK: hyc.accumulate %[[DW]] into @w.grad
// CHECK: hyc.accumulate %[[BACK]]#1 into @scale.grad
hyc.param @w : tensor<4x4xf32> from #hyc.fill<0.5>
hyc.param @scale : tensor<2x4xf32> from #hyc.fill<1.0>
hyc.func @train(%x: tensor<8x2x4xf32> {hyc.input = "x"}, %n: tensor<i64> {hyc.input = "n"}) -> (tensor<f32>, tensor<i64>) {
  %w = hyc.read @w : tensor<4x4xf32>
  %scale = hyc.read @scale : tensor<2x4xf32>
  %zero = hyc.constant dense<0.0> : tensor<2x4xf32>
  %last, %all = hyc.scan 8 init(%zero) over(%x) with(%w, %scale) attributes {id = "scan"} : (tensor<2x4xf32>, tensor<8x2x4xf32>, tensor<4x4xf32>, tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<8x2x4xf32>) {
  ^bb0(%h: tensor<2x4xf32>, %each: tensor<2x4xf32>, %in: tensor<4x4xf32>, %by: tensor<2x4xf32>):
    %0 = hyc.einsum "bk,kn->bn" %h, %in {id = "product"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %1 = hyc.mul %0, %by {id = "scaled"} : tensor<2x4xf32>
    %2 = hyc.add %1, %each {id = "next"} : tensor<2x4xf32>
    hyc.yield %2, %2 : tensor<2x4xf32>, tensor<2x4xf32>
  }
  %loss = hyc.reduce sum %all [0, 1, 2] {id = "loss"} : (tensor<8x2x4xf32>) -> tensor<f32>
  %m = hyc.neg %n : tensor<i64>
  hyc.return %loss, %m : tensor<f32>, tensor<i64>
}

// -----

// A step keeps gradients away from what it says, and no stop is left behind.

// CHECK-LABEL: hyc.func @microbatch
// CHECK-NOT: hyc.stop_gradient
// CHECK: hyc.scan 8 reverse
// CHECK: ^bb0(%[[G:[^:]*]]: tensor<4xf32>, %[[H:[^:]*]]: tensor<4xf32>):
// CHECK:   %[[ONLY:.*]] = hyc.mul %[[G]], %[[H]]
// CHECK:   hyc.yield {{.*}}%[[ONLY]]
// CHECK-NOT: hyc.stop_gradient
hyc.param @w : tensor<4xf32> from #hyc.fill<0.5>
hyc.func @train(%n: tensor<i64> {hyc.input = "n"}) -> (tensor<f32>, tensor<i64>) {
  %w = hyc.read @w : tensor<4xf32>
  %last = hyc.scan 8 init(%w) attributes {id = "scan"} : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%h: tensor<4xf32>):
    %0 = hyc.stop_gradient %h {id = "stop"} : tensor<4xf32>
    %1 = hyc.mul %0, %h {id = "next"} : tensor<4xf32>
    hyc.yield %1 : tensor<4xf32>
  }
  %loss = hyc.reduce sum %last [0] {id = "loss"} : (tensor<4xf32>) -> tensor<f32>
  %m = hyc.neg %n : tensor<i64>
  hyc.return %loss, %m : tensor<f32>, tensor<i64>
}

// -----

// Nothing of a scan goes back where its step does not use what trains.

// CHECK-LABEL: hyc.func @microbatch
// CHECK: hyc.scan 8 over
// CHECK-NOT: hyc.scan
hyc.param @w : tensor<4xf32> from #hyc.fill<0.5> frozen
hyc.param @b : tensor<4xf32> from #hyc.fill<0.5>
hyc.param @c : tensor<8x4xf32> from #hyc.fill<0.5>
hyc.func @train(%x: tensor<8x4xf32> {hyc.input = "x"}, %n: tensor<i64> {hyc.input = "n"}) -> (tensor<f32>, tensor<i64>) {
  %w = hyc.read @w : tensor<4xf32>
  %b = hyc.read @b : tensor<4xf32>
  %all = hyc.scan 8 over(%x) with(%w, %b) attributes {id = "scan"} : (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<8x4xf32> {
  ^bb0(%each: tensor<4xf32>, %by: tensor<4xf32>, %unused: tensor<4xf32>):
    %0 = hyc.mul %each, %by {id = "scaled"} : tensor<4xf32>
    hyc.yield %0 : tensor<4xf32>
  }
  %c = hyc.read @c : tensor<8x4xf32>
  %y = hyc.mul %all, %c {id = "y"} : tensor<8x4xf32>
  %loss = hyc.reduce sum %y [0, 1] {id = "loss"} : (tensor<8x4xf32>) -> tensor<f32>
  %m = hyc.neg %n : tensor<i64>
  hyc.return %loss, %m : tensor<f32>, tensor<i64>
}

// -----

// What is an invariant's part and carried on as well is done behind the scan for the one, and stays in the steps for the other.

// CHECK-LABEL: hyc.func @microbatch
// CHECK: %[[BACK:.*]]:2 = hyc.scan 8 reverse
// CHECK: %[[DOWN:.*]] = hyc.einsum {{.*}} {hyc.backward, id = "product.grad.lhs"}
// CHECK: hyc.yield {{.*}}%[[DOWN]]
// CHECK: }
// CHECK: hyc.einsum "abk,abn->kn" {{.*}}%[[BACK]]#1 {hyc.backward, id = "scan.grad.invariant0"}
// CHECK: %[[ALL:.*]] = hyc.reduce  sum %[[BACK]]#1 [0]
// CHECK: hyc.einsum "bn,kn->bk" %[[ALL]], {{.*}} {hyc.backward, id = "scan.grad.invariant1"}
hyc.param @w : tensor<4x4xf32> from #hyc.fill<0.25>
hyc.param @v : tensor<2x4xf32> from #hyc.fill<0.125>
hyc.func @train(%x: tensor<8x2x4xf32> {hyc.input = "x"}, %n: tensor<i64> {hyc.input = "n"}) -> (tensor<f32>, tensor<i64>) {
  %w = hyc.read @w : tensor<4x4xf32>
  %v = hyc.read @v : tensor<2x4xf32>
  %zero = hyc.constant dense<0.5> : tensor<2x4xf32>
  %last, %all = hyc.scan 8 init(%zero) over(%x) with(%w, %v) attributes {id = "scan"} : (tensor<2x4xf32>, tensor<8x2x4xf32>, tensor<4x4xf32>, tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<8x2x4xf32>) {
  ^bb0(%h: tensor<2x4xf32>, %each: tensor<2x4xf32>, %in: tensor<4x4xf32>, %by: tensor<2x4xf32>):
    %s = hyc.add %h, %by {id = "inject"} : tensor<2x4xf32>
    %0 = hyc.einsum "bk,kn->bn" %s, %in {id = "product"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %2 = hyc.add %0, %each {id = "next"} : tensor<2x4xf32>
    hyc.yield %2, %2 : tensor<2x4xf32>, tensor<2x4xf32>
  }
  %loss = hyc.reduce sum %all [0, 1, 2] {id = "loss"} : (tensor<8x2x4xf32>) -> tensor<f32>
  %m = hyc.neg %n : tensor<i64>
  hyc.return %loss, %m : tensor<f32>, tensor<i64>
}

// -----

// Two invariants that are added up have one cotangent, of which each takes its sum.

// CHECK-LABEL: hyc.func @microbatch
// CHECK: %[[BACK:.*]]:2 = hyc.scan 8 reverse
// CHECK: %[[B1:.*]] = hyc.reduce  sum %[[BACK]]#1 [0, 1] {hyc.backward, id = "scan.grad.invariant0"}
// CHECK: %[[B2:.*]] = hyc.reduce  sum %[[BACK]]#1 [0, 1] {hyc.backward, id = "scan.grad.invariant1"}
// CHECK: hyc.accumulate %[[B1]] into @b1.grad
// CHECK: hyc.accumulate %[[B2]] into @b2.grad
hyc.param @b1 : tensor<4xf32> from #hyc.fill<0.5>
hyc.param @b2 : tensor<4xf32> from #hyc.fill<1.0>
hyc.func @train(%x: tensor<8x2x4xf32> {hyc.input = "x"}, %n: tensor<i64> {hyc.input = "n"}) -> (tensor<f32>, tensor<i64>) {
  %b1 = hyc.read @b1 : tensor<4xf32>
  %b2 = hyc.read @b2 : tensor<4xf32>
  %zero = hyc.constant dense<0.0> : tensor<2x4xf32>
  %last, %all = hyc.scan 8 init(%zero) over(%x) with(%b1, %b2) attributes {id = "scan"} : (tensor<2x4xf32>, tensor<8x2x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x4xf32>, tensor<8x2x4xf32>) {
  ^bb0(%h: tensor<2x4xf32>, %each: tensor<2x4xf32>, %u: tensor<4xf32>, %v: tensor<4xf32>):
    %s = hyc.add %u, %v {id = "bias"} : tensor<4xf32>
    %w = hyc.broadcast %s [1] {id = "wide"} : (tensor<4xf32>) -> tensor<2x4xf32>
    %1 = hyc.add %h, %w {id = "next0"} : tensor<2x4xf32>
    %2 = hyc.mul %1, %each {id = "next"} : tensor<2x4xf32>
    hyc.yield %2, %2 : tensor<2x4xf32>, tensor<2x4xf32>
  }
  %loss = hyc.reduce sum %all [0, 1, 2] {id = "loss"} : (tensor<8x2x4xf32>) -> tensor<f32>
  %m = hyc.neg %n : tensor<i64>
  hyc.return %loss, %m : tensor<f32>, tensor<i64>
}
