// Five equal layers, found by their structure, over two and four stages; backward ops follow the op that they derive from.
// RUN: hyc-opt %s --hyc-create-mesh='pp=2' --hyc-assign-stages=method=uniform | FileCheck %s --check-prefix=TWO
// RUN: hyc-opt %s --hyc-create-mesh='pp=4' --hyc-assign-stages=method=uniform | FileCheck %s --check-prefix=FOUR
// RUN: hyc-opt %s --hyc-create-mesh='pp=2' --hyc-assign-stages='method=type:l[34]' | FileCheck %s --check-prefix=TYPE
// RUN: not hyc-opt %s --hyc-create-mesh='pp=9' --hyc-assign-stages 2>&1 | FileCheck %s --check-prefix=MANY

// RUN: hyc-opt %s --hyc-create-mesh='pp=2 virtual-stages=2' --hyc-assign-stages=method=uniform | FileCheck %s --check-prefix=VIRTUAL
// RUN: not hyc-opt %s --hyc-create-mesh='pp=2 virtual-stages=3' --hyc-assign-stages 2>&1 | FileCheck %s --check-prefix=CHUNKS
// RUN: not hyc-opt %s --hyc-create-mesh='pp=4 virtual-stages=2' --hyc-assign-stages 2>&1 | FileCheck %s --check-prefix=PIPES
// RUN: not hyc-opt %s --hyc-create-mesh='pp=1 virtual-stages=2' 2>&1 | FileCheck %s --check-prefix=ALONE

// CHUNKS: error: has 5 layers, expected at least 6 = --pp 2 × --virtual-stages 3, one a virtual stage; lower --virtual-stages to at most 2
// PIPES: error: has 5 layers, expected at least 8 = --pp 4 × --virtual-stages 2, one a virtual stage; lower --pp, or leave out --virtual-stages
// ALONE: error: has 2 virtual stages of 1 stages, expected 1
// MANY: error: has 5 layers, expected at least 9, one a pipeline stage; lower --pp to at most 5

// Four chunks lie on two stages in turn: l4's is the last one, l0's the first.
// VIRTUAL: dist.mesh @mesh axes ["dp", "tp"] sizes [1, 1] stages 2 virtual_stages 2 batch <{dp}> tensor <{tp}>
// VIRTUAL: hyc.param @w0 {{.*}}dist.stages = array<i64: 0, 1>
// VIRTUAL: hyc.param @w4 {{.*}}dist.stages = array<i64: 1>
// VIRTUAL: dist.stage = 0 : i64, id = "l0"
// VIRTUAL: dist.stage = 1 : i64, id = "l1"
// VIRTUAL: dist.stage = 2 : i64, id = "l2"
// VIRTUAL: dist.stage = 3 : i64, id = "l4"
// VIRTUAL: dist.stage = 0 : i64, hyc.backward, id = "l0.grad.lhs"

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
