// RUN: hyc-opt %s --hyc-differentiate --hyc-merge-products -split-input-file | FileCheck %s

// Three steps that share a weight and a bias: one product over them all. Of what it reads, the steps' cotangents lie side
// by side already, as the gradient of the slices of @u; the states before each step are put so. The bias' sum reads the
// former, too.
hyc.param @w : tensor<8x8xf32> from #hyc.fill<0.0>
hyc.param @b : tensor<8xf32> from #hyc.fill<0.0>
hyc.param @c : tensor<8xf32> from #hyc.fill<0.0>
hyc.func @train(%x: tensor<3x2x8xf32> {hyc.input = "x", hyc.source = "token"},
                %h0: tensor<1x2x8xf32> {hyc.input = "h", hyc.source = "token"},
                %n: tensor<i64> {hyc.input = "n", hyc.source = "token"}) -> (tensor<f32>, tensor<i64>) {
  %w = hyc.read @w {id = "w"} : tensor<8x8xf32>
  %b = hyc.read @b {id = "b"} : tensor<8xf32>
  %bs = hyc.broadcast %b [2] {id = "bias"} : (tensor<8xf32>) -> tensor<3x2x8xf32>
  %u = hyc.mul %x, %bs {id = "u"} : tensor<3x2x8xf32>
  %c = hyc.read @c {id = "c"} : tensor<8xf32>
  %u0 = hyc.slice %u offsets [0, 0, 0] strides [1, 1, 1] {id = "u.0"} : (tensor<3x2x8xf32>) -> tensor<1x2x8xf32>
  %m0 = hyc.einsum "sbh,gh->sbg" %h0, %w {id = "m.0"} : (tensor<1x2x8xf32>, tensor<8x8xf32>) -> tensor<1x2x8xf32>
  %c0 = hyc.broadcast %c [2] {id = "c.0"} : (tensor<8xf32>) -> tensor<1x2x8xf32>
  %r0 = hyc.add %m0, %c0 {id = "r.0"} : tensor<1x2x8xf32>
  %a0 = hyc.add %r0, %u0 {id = "a.0"} : tensor<1x2x8xf32>
  %h1 = hyc.tanh %a0 {id = "h.0"} : tensor<1x2x8xf32>
  %u1 = hyc.slice %u offsets [1, 0, 0] strides [1, 1, 1] {id = "u.1"} : (tensor<3x2x8xf32>) -> tensor<1x2x8xf32>
  %m1 = hyc.einsum "sbh,gh->sbg" %h1, %w {id = "m.1"} : (tensor<1x2x8xf32>, tensor<8x8xf32>) -> tensor<1x2x8xf32>
  %c1 = hyc.broadcast %c [2] {id = "c.1"} : (tensor<8xf32>) -> tensor<1x2x8xf32>
  %r1 = hyc.add %m1, %c1 {id = "r.1"} : tensor<1x2x8xf32>
  %a1 = hyc.add %r1, %u1 {id = "a.1"} : tensor<1x2x8xf32>
  %h2 = hyc.tanh %a1 {id = "h.1"} : tensor<1x2x8xf32>
  %u2 = hyc.slice %u offsets [2, 0, 0] strides [1, 1, 1] {id = "u.2"} : (tensor<3x2x8xf32>) -> tensor<1x2x8xf32>
  %m2 = hyc.einsum "sbh,gh->sbg" %h2, %w {id = "m.2"} : (tensor<1x2x8xf32>, tensor<8x8xf32>) -> tensor<1x2x8xf32>
  %c2 = hyc.broadcast %c [2] {id = "c.2"} : (tensor<8xf32>) -> tensor<1x2x8xf32>
  %r2 = hyc.add %m2, %c2 {id = "r.2"} : tensor<1x2x8xf32>
  %a2 = hyc.add %r2, %u2 {id = "a.2"} : tensor<1x2x8xf32>
  %h3 = hyc.tanh %a2 {id = "h.2"} : tensor<1x2x8xf32>
  %y = hyc.concat %h1, %h2, %h3 dim 0 {id = "y"} : (tensor<1x2x8xf32>, tensor<1x2x8xf32>, tensor<1x2x8xf32>) -> tensor<3x2x8xf32>
  %sum = hyc.reduce sum %y [0, 1, 2] {id = "sum"} : (tensor<3x2x8xf32>) -> tensor<f32>
  %count = hyc.neg %n {id = "count"} : tensor<i64>
  hyc.return %sum, %count : tensor<f32>, tensor<i64>
}
// CHECK-LABEL: hyc.func @microbatch
// CHECK-SAME: %[[H0:[^:]*]]: tensor<1x2x8xf32>
// CHECK: %[[H1:.*]] = hyc.tanh {{.*}} {id = "h.0"}
// CHECK: %[[H2:.*]] = hyc.tanh {{.*}} {id = "h.1"}
// CHECK-NOT: into @w.grad
// CHECK: %[[G3:.*]] = hyc.mul {{.*}} {hyc.backward, id = "h.2.grad"}
// CHECK-NOT: into @w.grad
// CHECK: %[[G2:.*]] = hyc.mul {{.*}} {hyc.backward, id = "h.1.grad"}
// CHECK-NOT: into @w.grad
// CHECK: %[[G1:.*]] = hyc.mul {{.*}} {hyc.backward, id = "h.0.grad"}
// CHECK-NEXT: %[[G:.*]] = hyc.concat %[[G1]], %[[G2]], %[[G3]] dim 0 {hyc.backward, id = "u.0.grad"}
// CHECK-NEXT: %[[DC:.*]] = hyc.reduce sum %[[G]] [0, 1] {hyc.backward, id = "c.0.grad"} : (tensor<3x2x8xf32>) -> tensor<8xf32>
// CHECK-NEXT: hyc.accumulate %[[DC]] into @c.grad
// CHECK-NEXT: %[[H:.*]] = hyc.concat %{{.*}}, %[[H1]], %[[H2]] dim 0 {hyc.backward, id = "m.0.grad.rhs.lhs"}
// CHECK-NEXT: %[[DW:.*]] = hyc.einsum "abh,abg->gh" %[[H]], %[[G]] {hyc.backward, id = "m.0.grad.rhs"} : (tensor<3x2x8xf32>, tensor<3x2x8xf32>) -> tensor<8x8xf32>
// CHECK-NEXT: hyc.accumulate %[[DW]] into @w.grad
// CHECK-NOT: into @w.grad
// CHECK: hyc.return

// -----

// Without a dimension of size 1: each step's tensors become rows. The first state is a constant beside a use of the weight
// as another op has it, which stays apart; so does the second bias' sum, whose operand is nowhere side by side.
hyc.param @w : tensor<8x8xf32> from #hyc.fill<0.0>
hyc.param @c : tensor<8xf32> from #hyc.fill<0.0>
hyc.func @train(%h0: tensor<2x8xf32> {hyc.input = "h", hyc.source = "token"},
                %n: tensor<i64> {hyc.input = "n", hyc.source = "token"}) -> (tensor<f32>, tensor<i64>) {
  %w = hyc.read @w {id = "w"} : tensor<8x8xf32>
  %c = hyc.read @c {id = "c"} : tensor<8xf32>
  %s = hyc.neg %h0 {id = "s"} : tensor<2x8xf32>
  %m0 = hyc.einsum "bh,gh->bg" %h0, %w {id = "m.0"} : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
  %h1 = hyc.tanh %m0 {id = "h.0"} : tensor<2x8xf32>
  %m1 = hyc.einsum "bh,gh->bg" %h1, %w {id = "m.1"} : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
  %c1 = hyc.broadcast %c [1] {id = "c.1"} : (tensor<8xf32>) -> tensor<2x8xf32>
  %a1 = hyc.add %m1, %c1 {id = "a.1"} : tensor<2x8xf32>
  %c2 = hyc.broadcast %c [1] {id = "c.2"} : (tensor<8xf32>) -> tensor<2x8xf32>
  %a2 = hyc.mul %a1, %c2 {id = "a.2"} : tensor<2x8xf32>
  %y = hyc.add %a2, %s {id = "y"} : tensor<2x8xf32>
  %sum = hyc.reduce sum %y [0, 1] {id = "sum"} : (tensor<2x8xf32>) -> tensor<f32>
  %count = hyc.neg %n {id = "count"} : tensor<i64>
  hyc.return %sum, %count : tensor<f32>, tensor<i64>
}
// CHECK-LABEL: hyc.func @microbatch
// CHECK-SAME: %[[H0:[^:]*]]: tensor<2x8xf32>
// CHECK-COUNT-2: into @c.grad
// CHECK-DAG: %[[X0:.*]] = hyc.reshape %[[H0]] {hyc.backward, id = "m.0.grad.rhs.lhs.row"} : (tensor<2x8xf32>) -> tensor<1x2x8xf32>
// CHECK-DAG: %[[X1:.*]] = hyc.reshape %{{.*}} {hyc.backward, id = "m.0.grad.rhs.lhs.row.2"}
// CHECK: %[[X:.*]] = hyc.concat {{.*}} dim 0 {hyc.backward, id = "m.0.grad.rhs.lhs"} : (tensor<1x2x8xf32>, tensor<1x2x8xf32>) -> tensor<2x2x8xf32>
// CHECK: %[[G:.*]] = hyc.concat {{.*}} dim 0 {hyc.backward, id = "m.0.grad.rhs.rhs"}
// CHECK: hyc.einsum "abh,abg->gh" %[[X]], %[[G]] {hyc.backward, id = "m.0.grad.rhs"} : (tensor<2x2x8xf32>, tensor<2x2x8xf32>) -> tensor<8x8xf32>
// CHECK-NOT: into @c.grad

// -----

// A batch that makes a product of its own, with more to copy than the gradient has: left as it is.
hyc.param @w : tensor<8x8xf32> from #hyc.fill<0.0>
hyc.func @train(%h0: tensor<9x8xf32> {hyc.input = "h", hyc.source = "token"},
                %n: tensor<i64> {hyc.input = "n", hyc.source = "token"}) -> (tensor<f32>, tensor<i64>) {
  %w = hyc.read @w {id = "w"} : tensor<8x8xf32>
  %m0 = hyc.einsum "bh,gh->bg" %h0, %w {id = "m.0"} : (tensor<9x8xf32>, tensor<8x8xf32>) -> tensor<9x8xf32>
  %h1 = hyc.tanh %m0 {id = "h.0"} : tensor<9x8xf32>
  %m1 = hyc.einsum "bh,gh->bg" %h1, %w {id = "m.1"} : (tensor<9x8xf32>, tensor<8x8xf32>) -> tensor<9x8xf32>
  %sum = hyc.reduce sum %m1 [0, 1] {id = "sum"} : (tensor<9x8xf32>) -> tensor<f32>
  %count = hyc.neg %n {id = "count"} : tensor<i64>
  hyc.return %sum, %count : tensor<f32>, tensor<i64>
}
// CHECK-LABEL: hyc.func @microbatch
// CHECK: hyc.accumulate {{.*}} into @w.grad
// CHECK: hyc.accumulate {{.*}} into @w.grad
