// RUN: hyc-opt %s --hyc-differentiate -split-input-file | FileCheck %s

// Forward, the step's sums, then backward: latest op first, each gradient accumulated as soon as it is known.
hyc.param @w : tensor<3x4xf32> from #hyc.fill<0.0>
hyc.param @b : tensor<4xf32> from #hyc.fill<0.0>
hyc.func @train(%x: tensor<2x3xf32> {hyc.input = "x", hyc.source = "token"},
                %labels: tensor<2xi64> {hyc.input = "labels", hyc.source = "next_token"}) -> (tensor<f32>, tensor<i64>) {
  %w = hyc.read @w : tensor<3x4xf32>
  %b = hyc.read @b : tensor<4xf32>
  %h = hyc.einsum "ik,kj->ij" %x, %w {id = "fc"} : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %bs = hyc.broadcast %b [1] {id = "fc.bias"} : (tensor<4xf32>) -> tensor<2x4xf32>
  %y = hyc.add %h, %bs {id = "fc.add"} : tensor<2x4xf32>
  %sum, %count, %lse = hyc.cross_entropy %y, %labels {id = "loss"} : (tensor<2x4xf32>, tensor<2xi64>) -> (tensor<f32>, tensor<i64>, tensor<2xf32>)
  hyc.return %sum, %count : tensor<f32>, tensor<i64>
}
// CHECK: hyc.state @loss_sum role "loss_sum" : tensor<f32>
// CHECK: hyc.state @token_count role "token_count" : tensor<i64>
// CHECK: hyc.state @w.grad of @w role "gradient" : tensor<3x4xf32>
// CHECK: hyc.state @b.grad of @b role "gradient" : tensor<4xf32>
// CHECK-NOT: @train
// CHECK: hyc.func @microbatch(%[[X:[^:]*]]: tensor<2x3xf32> {{.*}}, %[[LABELS:[^:]*]]: tensor<2xi64> {{[^)]*}}) {
// CHECK: hyc.read @w {id = "w.read"}
// CHECK: %[[Y:.*]] = hyc.add {{.*}} {id = "fc.add"}
// CHECK: %[[SUM:.*]], %[[COUNT:.*]], %[[LSE:.*]] = hyc.cross_entropy
// CHECK-NEXT: hyc.accumulate %[[SUM]] into @loss_sum {id = "loss_sum.accumulate"}
// CHECK-NEXT: hyc.accumulate %[[COUNT]] into @token_count {id = "token_count.accumulate"}
// CHECK-NEXT: %[[ONE:.*]] = hyc.constant {hyc.backward, hyc.loss_seed, id = "loss.grad.seed"} dense<1.000000e+00> : tensor<f32>
// CHECK-NEXT: %[[DY:.*]] = hyc.cross_entropy_grad %[[ONE]], %[[Y]], %[[LABELS]], %[[LSE]] {hyc.backward, id = "loss.grad"}
// CHECK-NEXT: %[[DB:.*]] = hyc.reduce sum %[[DY]] [0] {hyc.backward, id = "fc.bias.grad"}
// CHECK-NEXT: hyc.accumulate %[[DB]] into @b.grad {hyc.backward, id = "b.grad.accumulate"}
// CHECK-NEXT: %[[DW:.*]] = hyc.einsum "ik,ij->kj" %[[X]], %[[DY]] {hyc.backward, id = "fc.grad.rhs"}
// CHECK-NEXT: hyc.accumulate %[[DW]] into @w.grad {hyc.backward, id = "w.grad.accumulate"}
// CHECK-NEXT: hyc.return

// -----

// Every use of a parameter reads it anew and accumulates apart; what is frozen, or feeds no trainable parameter, gets none.
hyc.param @frozen : tensor<4xf32> from #hyc.fill<0.0> frozen
hyc.param @w : tensor<4xf32> from #hyc.fill<0.0>
hyc.func @train(%count: tensor<i64> {hyc.input = "n", hyc.source = "token"}) -> (tensor<f32>, tensor<i64>) {
  %f = hyc.read @frozen {id = "f"} : tensor<4xf32>
  %e = hyc.exp %f {id = "e"} : tensor<4xf32>
  %w = hyc.read @w {id = "w"} : tensor<4xf32>
  %m = hyc.mul %w, %e {id = "m"} : tensor<4xf32>
  %q = hyc.mul %m, %w {id = "q"} : tensor<4xf32>
  %sum = hyc.reduce sum %q [0] {id = "sum"} : (tensor<4xf32>) -> tensor<f32>
  %n = hyc.neg %count {id = "n"} : tensor<i64>
  hyc.return %sum, %n : tensor<f32>, tensor<i64>
}
// CHECK-NOT: @frozen.grad
// CHECK: %[[E:.*]] = hyc.exp
// CHECK: %[[W:.*]] = hyc.read @w {id = "w"}
// CHECK: %[[M:.*]] = hyc.mul %[[W]], %[[E]] {id = "m"}
// CHECK: %[[W2:.*]] = hyc.read @w {id = "w.2"}
// CHECK: %[[DQ:.*]] = hyc.broadcast {{.*}} id = "sum.grad"
// CHECK-NEXT: %[[QL:.*]] = hyc.mul %[[DQ]], %[[W2]] {hyc.backward, id = "q.grad.lhs"}
// CHECK-NEXT: %[[QR:.*]] = hyc.mul %[[DQ]], %[[M]] {hyc.backward, id = "q.grad.rhs"}
// CHECK-NEXT: hyc.accumulate %[[QR]] into @w.grad
// CHECK-NEXT: %[[ML:.*]] = hyc.mul %[[QL]], %[[E]] {hyc.backward, id = "m.grad.lhs"}
// CHECK-NEXT: hyc.accumulate %[[ML]] into @w.grad
// CHECK-NEXT: hyc.return

// -----

// A tied parameter is read twice and accumulated once per read; ops without ids get some.
hyc.param @w : tensor<4xf32> from #hyc.fill<0.0>
hyc.func @train(%n: tensor<i64> {hyc.input = "n", hyc.source = "token"}) -> (tensor<f32>, tensor<i64>) {
  %a = hyc.read @w : tensor<4xf32>
  %s = hyc.sin %a : tensor<4xf32>
  %b = hyc.read @w : tensor<4xf32>
  %t = hyc.add %s, %b : tensor<4xf32>
  %sum = hyc.reduce sum %t [0] : (tensor<4xf32>) -> tensor<f32>
  %m = hyc.neg %n : tensor<i64>
  hyc.return %sum, %m : tensor<f32>, tensor<i64>
}
// CHECK: hyc.read @w {id = "w.read"}
// CHECK: hyc.read @w {id = "w.read.2"}
// CHECK: %[[DT:.*]] = hyc.broadcast {{.*}} id = "reduce.grad"
// CHECK-NEXT: hyc.accumulate %[[DT]] into @w.grad {hyc.backward, id = "w.grad.accumulate"}
// CHECK: hyc.accumulate %{{.*}} into @w.grad {hyc.backward, id = "w.grad.accumulate.2"}

// -----

// What keeps a gradient counts as constant, and is gone with it: only the factor that is not kept gets one.
hyc.param @w : tensor<3x4xf32> from #hyc.fill<0.0>
hyc.param @only_kept : tensor<3x4xf32> from #hyc.fill<0.0>
hyc.func @train(%x: tensor<2x3xf32> {hyc.input = "x", hyc.source = "token"},
                %labels: tensor<2xi64> {hyc.input = "labels", hyc.source = "next_token"}) -> (tensor<f32>, tensor<i64>) {
  %w = hyc.read @w : tensor<3x4xf32>
  %v = hyc.read @only_kept : tensor<3x4xf32>
  %h = hyc.einsum "ik,kj->ij" %x, %w {id = "fc"} : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %t = hyc.einsum "ik,kj->ij" %x, %v {id = "target"} : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %k = hyc.stop_gradient %t {id = "target.detach"} : tensor<2x4xf32>
  %s = hyc.stop_gradient %h {id = "fc.detach"} : tensor<2x4xf32>
  %a = hyc.mul %h, %s {id = "scaled"} : tensor<2x4xf32>
  %y = hyc.mul %a, %k {id = "product"} : tensor<2x4xf32>
  %sum, %count, %lse = hyc.cross_entropy %y, %labels {id = "loss"} : (tensor<2x4xf32>, tensor<2xi64>) -> (tensor<f32>, tensor<i64>, tensor<2xf32>)
  hyc.return %sum, %count : tensor<f32>, tensor<i64>
}
// CHECK-NOT: only_kept.grad
// CHECK: hyc.func @microbatch
// CHECK: %[[H:.*]] = hyc.einsum {{.*}} {id = "fc"}
// CHECK: %[[T:.*]] = hyc.einsum {{.*}} {id = "target"}
// CHECK-NOT: hyc.stop_gradient
// CHECK: %[[A:.*]] = hyc.mul %[[H]], %[[H]] {id = "scaled"}
// CHECK: hyc.mul %[[A]], %[[T]] {id = "product"}
// CHECK: %[[DA:.*]] = hyc.mul %{{.*}}, %[[T]] {hyc.backward, id = "product.grad.lhs"}
// CHECK-NEXT: %[[DH:.*]] = hyc.mul %[[DA]], %[[H]] {hyc.backward, id = "scaled.grad.lhs"}
// CHECK-NEXT: hyc.einsum "{{.*}}" %{{.*}}, %[[DH]] {hyc.backward, id = "fc.grad.rhs"}

// -----

// The padding row has no gradient: what its ids read is masked before the rows are added up.
hyc.param @table : tensor<5x4xf32> from #hyc.fill<0.0>
hyc.func @train(%ids: tensor<2xi64> {hyc.input = "ids", hyc.source = "token"},
                %labels: tensor<2xi64> {hyc.input = "labels", hyc.source = "next_token"}) -> (tensor<f32>, tensor<i64>) {
  %t = hyc.read @table : tensor<5x4xf32>
  %y = hyc.embedding %ids, %t padding 1 {id = "embed"} : (tensor<2xi64>, tensor<5x4xf32>) -> tensor<2x4xf32>
  %sum, %count, %lse = hyc.cross_entropy %y, %labels {id = "loss"} : (tensor<2x4xf32>, tensor<2xi64>) -> (tensor<f32>, tensor<i64>, tensor<2xf32>)
  hyc.return %sum, %count : tensor<f32>, tensor<i64>
}
// CHECK: hyc.func @microbatch(%[[IDS:[^:]*]]: tensor<2xi64>
// CHECK: %[[DY:.*]] = hyc.cross_entropy_grad
// CHECK-NEXT: %[[ONE:.*]] = hyc.constant {hyc.backward, id = "embed.grad.padding"} dense<1> : tensor<2xi64>
// CHECK-NEXT: %[[IS:.*]] = hyc.compare eq %[[IDS]], %[[ONE]] {hyc.backward, id = "embed.grad.is_padding"}
// CHECK-NEXT: %[[ROWS:.*]] = hyc.broadcast %[[IS]] [0] {hyc.backward, id = "embed.grad.is_padding.rows"}
// CHECK: %[[KEPT:.*]] = hyc.select %[[ROWS]], %{{.*}}, %[[DY]] {hyc.backward, id = "embed.grad.padded"}
// CHECK-NEXT: hyc.embedding_grad %[[IDS]], %[[KEPT]] {hyc.backward, id = "embed.grad"}

// -----

// Slices of one value: those beside one another are joined, with zeros where none is; one that overlaps is added.
hyc.param @w : tensor<8xf32> from #hyc.fill<0.0>
hyc.func @train(%n: tensor<i64> {hyc.input = "n", hyc.source = "token"}) -> (tensor<f32>, tensor<i64>) {
  %w = hyc.read @w {id = "w"} : tensor<8xf32>
  %x = hyc.exp %w {id = "x"} : tensor<8xf32>
  %a = hyc.slice %x offsets [0] strides [1] {id = "a"} : (tensor<8xf32>) -> tensor<3xf32>
  %b = hyc.slice %x offsets [4] strides [1] {id = "b"} : (tensor<8xf32>) -> tensor<3xf32>
  %c = hyc.slice %x offsets [2] strides [1] {id = "c"} : (tensor<8xf32>) -> tensor<3xf32>
  %ab = hyc.mul %a, %b {id = "ab"} : tensor<3xf32>
  %abc = hyc.mul %ab, %c {id = "abc"} : tensor<3xf32>
  %sum = hyc.reduce sum %abc [0] {id = "sum"} : (tensor<3xf32>) -> tensor<f32>
  %count = hyc.neg %n {id = "count"} : tensor<i64>
  hyc.return %sum, %count : tensor<f32>, tensor<i64>
}
// CHECK: %[[DAB:.*]] = hyc.mul {{.*}} {hyc.backward, id = "abc.grad.lhs"}
// CHECK: %[[DC:.*]] = hyc.mul {{.*}} {hyc.backward, id = "abc.grad.rhs"}
// CHECK: %[[DA:.*]] = hyc.mul {{.*}} {hyc.backward, id = "ab.grad.lhs"}
// CHECK: %[[DB:.*]] = hyc.mul {{.*}} {hyc.backward, id = "ab.grad.rhs"}
// CHECK: %[[PC:.*]] = hyc.pad %[[DC]] offsets [2]
// CHECK: %[[Z3:.*]] = hyc.constant {hyc.backward, id = "a.grad.zero.3"} dense<0.000000e+00> : tensor<1xf32>
// CHECK: %[[Z7:.*]] = hyc.constant {hyc.backward, id = "a.grad.zero.7"} dense<0.000000e+00> : tensor<1xf32>
// CHECK: %[[AB:.*]] = hyc.concat %[[DA]], %[[Z3]], %[[DB]], %[[Z7]] dim 0 {hyc.backward, id = "a.grad"}
// CHECK: hyc.add %[[PC]], %[[AB]] {hyc.backward, id = "x.grad.sum"}

// -----

// What a slice of a sum gives is the cotangent of both terms, one of which has other slices beside it: what is joined for the
// one is still there for the other, and no pad stays that nobody reads.
hyc.param @a : tensor<4xf32> from #hyc.fill<1.0>
hyc.param @b : tensor<4xf32> from #hyc.fill<2.0>
hyc.func @train(%n: tensor<i64>) -> (tensor<f32>, tensor<i64>) {
  %a = hyc.read @a : tensor<4xf32>
  %b = hyc.read @b : tensor<4xf32>
  %x = hyc.neg %a {id = "x"} : tensor<4xf32>
  %z = hyc.exp %b {id = "z"} : tensor<4xf32>
  %right = hyc.slice %x offsets [2] strides [1] {id = "right"} : (tensor<4xf32>) -> tensor<2xf32>
  %y = hyc.add %x, %z {id = "y"} : tensor<4xf32>
  %left = hyc.slice %y offsets [0] strides [1] {id = "left"} : (tensor<4xf32>) -> tensor<2xf32>
  %both = hyc.mul %left, %right {id = "both"} : tensor<2xf32>
  %sum = hyc.reduce sum %both [0] {id = "sum"} : (tensor<2xf32>) -> tensor<f32>
  %count = hyc.neg %n {id = "count"} : tensor<i64>
  hyc.return %sum, %count : tensor<f32>, tensor<i64>
}
// CHECK: %[[DL:.*]] = hyc.mul {{.*}} {hyc.backward, id = "both.grad.lhs"}
// CHECK: %[[DR:.*]] = hyc.mul {{.*}} {hyc.backward, id = "both.grad.rhs"}
// CHECK: %[[DY:.*]] = hyc.pad %[[DL]] offsets [0]
// CHECK-NOT: hyc.pad
// CHECK: hyc.mul %[[DY]], {{.*}} {hyc.backward, id = "z.grad"}
// CHECK: %[[DX:.*]] = hyc.concat %[[DL]], %[[DR]] dim 0
// CHECK: hyc.neg %[[DX]] {hyc.backward, id = "x.grad"}
// CHECK-NOT: hyc.pad
