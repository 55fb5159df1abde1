// Attention written out: 16 positions of size 4, scores 16×16. Scores and their exponentials are 8 times as large as what
// they come from and cost 2.25 operations a saved byte, the forward as a whole 3.8: selective recomputation takes them, and
// leaves the products with weights and the context.
// RUN: hyc-opt %s --hyc-create-mesh --hyc-propagate-shardings --hyc-assign-stages --hyc-build-schedule='schedule=gpipe micro-batches=3' \
// RUN:   --hyc-assign-lifetimes='mode=selective' | FileCheck %s --check-prefix=SELECTIVE
// With a budget of everything nothing is computed again; 1,536 bytes are what q, the exponentials and the context take.
// RUN: hyc-opt %s --hyc-create-mesh --hyc-propagate-shardings --hyc-assign-stages --hyc-build-schedule='schedule=gpipe micro-batches=3' \
// RUN:   --hyc-assign-lifetimes='mode=auto budgets=4608' | FileCheck %s --check-prefix=ALL
// Too little by a byte for each of three micro-batches: the exponentials, the costliest but the only ones to give way. q
// crosses from one unit of the graph to the next and stays, the context would need what is larger than itself.
// RUN: hyc-opt %s --hyc-create-mesh --hyc-propagate-shardings --hyc-assign-stages --hyc-build-schedule='schedule=gpipe micro-batches=3' \
// RUN:   --hyc-assign-lifetimes='mode=auto budgets=4605' | FileCheck %s --check-prefix=LESS
// RUN: not hyc-opt %s --hyc-create-mesh --hyc-assign-lifetimes='mode=auto' 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: error: recomputation mode is "auto", which needs budgets

hyc.param @w : tensor<4x4xf32> from #hyc.fill<0.0 : f64>
hyc.state @sum role "loss_sum" : tensor<16x4xf32> from #hyc.fill<0.0 : f64>
hyc.func @microbatch(%x: tensor<16x4xf32> {hyc.input = "x"}) {
  %w = hyc.read @w : tensor<4x4xf32>
  // SELECTIVE: hyc.einsum {{.*}} {dist.shardings = {{.*}}id = "q"
  // ALL-NOT: dist.lifetime
  // LESS: hyc.einsum {{.*}} {dist.shardings = {{.*}}id = "q"
  %q = hyc.einsum "sk,kd->sd" %x, %w {id = "q"} : (tensor<16x4xf32>, tensor<4x4xf32>) -> tensor<16x4xf32>
  %k = hyc.einsum "sk,kd->sd" %x, %w {id = "k"} : (tensor<16x4xf32>, tensor<4x4xf32>) -> tensor<16x4xf32>
  %v = hyc.einsum "sk,kd->sd" %x, %w {id = "v"} : (tensor<16x4xf32>, tensor<4x4xf32>) -> tensor<16x4xf32>
  // SELECTIVE: hyc.einsum {{.*}}#dist.lifetime<recompute>{{.*}}id = "scores"
  // LESS: hyc.einsum {{.*}}#dist.lifetime<recompute>{{.*}}id = "scores"
  %scores = hyc.einsum "sd,td->st" %q, %k {id = "scores"} : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<16x16xf32>
  // SELECTIVE-NEXT: hyc.exp {{.*}}#dist.lifetime<recompute>
  // LESS-NEXT: hyc.exp {{.*}}#dist.lifetime<recompute>
  %e = hyc.exp %scores {id = "e"} : tensor<16x16xf32>
  // SELECTIVE-NEXT: hyc.einsum {{.*}} {dist.shardings = {{.*}}id = "context"
  // SELECTIVE-NOT: dist.lifetime
  // LESS-NOT: dist.lifetime
  %context = hyc.einsum "st,td->sd" %e, %v {id = "context"} : (tensor<16x16xf32>, tensor<16x4xf32>) -> tensor<16x4xf32>
  hyc.accumulate %context into @sum : tensor<16x4xf32>
  %dc = hyc.neg %context {id = "context.grad", hyc.backward} : tensor<16x4xf32>
  %de = hyc.neg %e {id = "e.grad", hyc.backward} : tensor<16x16xf32>
  %dq = hyc.neg %q {id = "q.grad", hyc.backward} : tensor<16x4xf32>
  hyc.return
}
