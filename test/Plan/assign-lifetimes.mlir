// Three equal layers: what crosses from one to the next is saved, the rest is computed again. The last layer's backward
// follows its forward at once where one micro-batch is in flight, and is left alone; under gpipe it is not.
// RUN: hyc-opt %s --hyc-create-mesh --hyc-propagate-shardings --hyc-assign-stages --hyc-build-schedule='micro-batches=2' \
// RUN:   --hyc-assign-lifetimes='mode=layer' | FileCheck %s --check-prefixes=CHECK,ONE
// RUN: hyc-opt %s --hyc-create-mesh --hyc-propagate-shardings --hyc-assign-stages --hyc-build-schedule='schedule=gpipe micro-batches=2' \
// RUN:   --hyc-assign-lifetimes='mode=layer' | FileCheck %s --check-prefixes=CHECK,MANY
// RUN: hyc-opt %s --hyc-create-mesh='tp=2' --hyc-propagate-shardings --hyc-assign-stages --hyc-build-schedule \
// RUN:   --hyc-assign-lifetimes='mode=layer partition-activations' | FileCheck %s --check-prefix=PARTS
// RUN: not hyc-opt %s --hyc-create-mesh --hyc-assign-lifetimes=mode=some 2>&1 | FileCheck %s --check-prefix=MODE
// MODE: error: recomputation mode is "some", expected none, layer, selective, auto or planned

hyc.param @w : tensor<8x8xf32> from #hyc.fill<0.0 : f64>
hyc.param @b : tensor<8xf32> from #hyc.fill<0.0 : f64>
hyc.state @sum role "loss_sum" : tensor<2x8xf32> from #hyc.fill<0.0 : f64>
hyc.func @microbatch(%x: tensor<2x8xf32> {hyc.input = "x"}) {
  %w = hyc.read @w : tensor<8x8xf32>
  %b = hyc.read @b : tensor<8xf32>
  // Of parameters alone, but no read: computed again.
  // CHECK: hyc.exp {{.*}}#dist.lifetime<recompute>
  %e = hyc.exp %b {id = "e"} : tensor<8xf32>
  %r = hyc.broadcast %e [1] {id = "r"} : (tensor<8xf32>) -> tensor<2x8xf32>
  // CHECK: hyc.einsum {{.*}}dist.lifetime = #dist.lifetime<recompute>{{.*}}id = "l0.h"
  %h0 = hyc.einsum "bk,kn->bn" %x, %w {id = "l0.h"} : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
  // CHECK-NEXT: hyc.gelu {{.*}}dist.lifetime = #dist.lifetime<recompute>{{.*}}id = "l0.a"
  %a0 = hyc.gelu %h0 {id = "l0.a"} : tensor<2x8xf32>
  // CHECK-NEXT: hyc.add {{.*}}dist.lifetime = #dist.lifetime<recompute>
  %s0 = hyc.add %a0, %r {id = "l0.s"} : tensor<2x8xf32>
  // CHECK-NEXT: hyc.mul %{{[0-9]+}}, %{{[0-9]+}} {dist.shardings = {{.*}}id = "l0.y"
  // PARTS: hyc.mul {{.*}}dist.lifetime = #dist.lifetime<save over {tp}>{{.*}}id = "l0.y"
  %y0 = hyc.mul %s0, %h0 {id = "l0.y"} : tensor<2x8xf32>
  %h1 = hyc.einsum "bk,kn->bn" %y0, %w {id = "l1.h"} : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
  %a1 = hyc.gelu %h1 {id = "l1.a"} : tensor<2x8xf32>
  %s1 = hyc.add %a1, %r {id = "l1.s"} : tensor<2x8xf32>
  // CHECK: hyc.mul %{{[0-9]+}}, %{{[0-9]+}} {dist.shardings = {{.*}}id = "l1.y"
  %y1 = hyc.mul %s1, %h1 {id = "l1.y"} : tensor<2x8xf32>
  // ONE-NOT: dist.lifetime
  // MANY-NEXT: hyc.einsum {{.*}}dist.lifetime = #dist.lifetime<recompute>{{.*}}id = "l2.h"
  %h2 = hyc.einsum "bk,kn->bn" %y1, %w {id = "l2.h"} : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
  %a2 = hyc.gelu %h2 {id = "l2.a"} : tensor<2x8xf32>
  %s2 = hyc.add %a2, %r {id = "l2.s"} : tensor<2x8xf32>
  %y2 = hyc.mul %s2, %h2 {id = "l2.y"} : tensor<2x8xf32>
  // CHECK: hyc.accumulate
  // CHECK-NOT: dist.lifetime
  hyc.accumulate %y2 into @sum : tensor<2x8xf32>
  %g = hyc.neg %y2 {id = "l2.y.grad", hyc.backward} : tensor<2x8xf32>
  hyc.return
}
