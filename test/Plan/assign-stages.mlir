// Five equal layers, found by their structure, over two and four stages; backward ops follow the op that they derive from.
// RUN: hyc-opt %s --hyc-create-mesh='pp=2' --hyc-assign-stages=method=uniform | FileCheck %s --check-prefix=TWO
// RUN: hyc-opt %s --hyc-create-mesh='pp=4' --hyc-assign-stages=method=uniform | FileCheck %s --check-prefix=FOUR
// RUN: hyc-opt %s --hyc-create-mesh='pp=2' --hyc-assign-stages='method=type:l[34]' | FileCheck %s --check-prefix=TYPE
// RUN: not hyc-opt %s --hyc-create-mesh='pp=9' --hyc-assign-stages 2>&1 | FileCheck %s --check-prefix=MANY

// MANY: error: has 5 layers, expected at least 9, one a pipeline stage; lower --pp to at most 5

// TWO: hyc.param @w0 {{.*}}dist.stages = array<i64: 0, 1>
hyc.param @w0 : tensor<8x8xf32> from #hyc.fill<0.0 : f64>
// TWO: hyc.param @w4 {{.*}}dist.stages = array<i64: 1>
hyc.param @w4 : tensor<8x8xf32> from #hyc.fill<0.0 : f64>
hyc.func @microbatch(%x: tensor<2x8xf32> {hyc.input = "x"}) {
  %w0 = hyc.read @w0 : tensor<8x8xf32>
  // TWO: hyc.einsum {{.*}}dist.stage = 0 : i64, id = "l0"
  // FOUR: hyc.einsum {{.*}}dist.stage = 0 : i64, id = "l0"
  %l0 = hyc.einsum "bk,kn->bn" %x, %w0 {id = "l0"} : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
  %l1 = hyc.einsum "bk,kn->bn" %l0, %w0 {id = "l1"} : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
  // TWO: dist.stage = {{[01]}} : i64, id = "l2"
  %l2 = hyc.einsum "bk,kn->bn" %l1, %w0 {id = "l2"} : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
  // TYPE: dist.stage = 0 : i64, id = "l3"
  %l3 = hyc.einsum "bk,kn->bn" %l2, %w0 {id = "l3"} : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
  %w4 = hyc.read @w4 : tensor<8x8xf32>
  // TWO: hyc.einsum {{.*}}dist.stage = 1 : i64, id = "l4"
  // FOUR: hyc.einsum {{.*}}dist.stage = 3 : i64, id = "l4"
  // TYPE: dist.stage = 1 : i64, id = "l4"
  %l4 = hyc.einsum "bk,kn->bn" %l3, %w4 {id = "l4"} : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
  // TWO: hyc.neg {{.*}}dist.stage = 0 : i64, hyc.backward, id = "l0.grad.lhs"
  %g = hyc.neg %l4 {id = "l0.grad.lhs", hyc.backward} : tensor<2x8xf32>
  hyc.return
}
