// A parameter that is broadcast once for layers of several stages: what costs nothing is repeated on each of them, so each
// holds the parameter.
// RUN: hyc-opt %s --hyc-create-mesh='pp=2' --hyc-assign-stages=method=uniform | FileCheck %s

// CHECK: hyc.param @query {{.*}}dist.stages = array<i64: 0, 1>
hyc.param @query : tensor<8xf32> from #hyc.fill<0.0 : f64>
// CHECK: hyc.param @w0 {{.*}}dist.stages = array<i64: 0>
hyc.param @w0 : tensor<8x8xf32> from #hyc.fill<0.0 : f64>
// CHECK: hyc.param @w1 {{.*}}dist.stages = array<i64: 1>
hyc.param @w1 : tensor<8x8xf32> from #hyc.fill<0.0 : f64>
hyc.func @microbatch(%x: tensor<2x8xf32> {hyc.input = "x"}) {
  %q = hyc.read @query : tensor<8xf32>
  %row = hyc.reshape %q {id = "row"} : (tensor<8xf32>) -> tensor<1x8xf32>
  %b = hyc.broadcast %row [1, 2] {id = "rows"} : (tensor<1x8xf32>) -> tensor<2x1x8xf32>
  %rows = hyc.reshape %b {id = "flat"} : (tensor<2x1x8xf32>) -> tensor<2x8xf32>
  %w0 = hyc.read @w0 : tensor<8x8xf32>
  %l0 = hyc.einsum "bk,kn->bn" %x, %w0 {id = "l0"} : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
  %a0 = hyc.add %l0, %rows {id = "a0"} : tensor<2x8xf32>
  %w1 = hyc.read @w1 : tensor<8x8xf32>
  %l1 = hyc.einsum "bk,kn->bn" %a0, %w1 {id = "l1"} : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
  %a1 = hyc.add %l1, %rows {id = "a1"} : tensor<2x8xf32>
  hyc.return
}
