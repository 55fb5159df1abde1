// What is not saved is computed again in backward, from what is; exchanges and reads of parameters with it.
// RUN: hyc-opt %s --split-input-file --hyc-recompute-activations | FileCheck %s
// RUN: hyc-opt %s --split-input-file --hyc-recompute-activations --hyc-cut-stages | FileCheck %s --check-prefix=CUT

// One micro-batch's forward and backward of two matrix products over tp. Everything between %x and %y is computed again,
// the closed sum included, right before its first user; what nothing in backward needs (%z) is not.
// CHECK-LABEL: hyc.func @microbatch
// CUT-LABEL: hyc.func @forward.0
// CUT-NOT: hyc.saved
// CUT: hyc.func @backward.0
dist.mesh @mesh axes ["dp", "tp"] sizes [1, 2] stages 1 batch <{dp}> tensor <{tp}>
hyc.param @w : tensor<8x8xf32> from #hyc.fill<0.5 : f64>
hyc.state @w.grad of @w role "gradient" : tensor<8x8xf32> from #hyc.fill<0.0 : f64>
hyc.state @loss_sum role "loss_sum" : tensor<2x8xf32> from #hyc.fill<0.0 : f64>
hyc.func @microbatch(%x: tensor<2x8xf32> {hyc.input = "x"}) {
  %w = hyc.read @w {dist.stage = 0} : tensor<8x8xf32>
  %h = hyc.einsum "bk,kn->bn" %x, %w {id = "h", dist.stage = 0, dist.lifetime = #dist.lifetime<recompute>} : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
  %p = dist.all_reduce_start sum %h over <{tp}> {dist.stage = 0, dist.lifetime = #dist.lifetime<recompute>} : tensor<2x8xf32> -> !dist.pending<tensor<2x8xf32>>
  %s = dist.wait %p {dist.stage = 0, dist.lifetime = #dist.lifetime<recompute>} : !dist.pending<tensor<2x8xf32>> -> tensor<2x8xf32>
  %a = hyc.gelu %s {id = "a", dist.stage = 0, dist.lifetime = #dist.lifetime<recompute>} : tensor<2x8xf32>
  %y = hyc.einsum "bk,kn->bn" %a, %w {id = "y", dist.stage = 0} : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
  %z = hyc.neg %a {id = "z", dist.stage = 0, dist.lifetime = #dist.lifetime<recompute>} : tensor<2x8xf32>
  // CHECK: hyc.accumulate %{{.*}} into @loss_sum
  // CHECK-NOT: dist.lifetime
  hyc.accumulate %y into @loss_sum {dist.stage = 0} : tensor<2x8xf32>
  // CHECK: %[[DY:.*]] = hyc.constant
  %dy = hyc.constant {id = "dy", hyc.backward, dist.stage = 0} dense<1.0> : tensor<2x8xf32>
  // CHECK-NEXT: %[[H:.*]] = hyc.einsum {{.*}}hyc.backward, id = "h.again"
  // CHECK-NEXT: %[[P:.*]] = dist.all_reduce_start sum %[[H]] over <{tp}> {{.*}}hyc.backward
  // CHECK-NEXT: %[[S:.*]] = dist.wait %[[P]] {{.*}}hyc.backward
  // CHECK-NEXT: %[[A:.*]] = hyc.gelu %[[S]] {{.*}}hyc.backward, id = "a.again"
  // CHECK-NEXT: hyc.einsum "bk,bn->kn" %[[A]], %[[DY]]
  %dw = hyc.einsum "bk,bn->kn" %a, %dy {id = "dw", hyc.backward, dist.stage = 0} : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<8x8xf32>
  // CHECK-NEXT: hyc.accumulate
  hyc.accumulate %dw into @w.grad {hyc.backward, dist.stage = 0} : tensor<8x8xf32>
  // The sum is there already.
  // CHECK-NEXT: hyc.gelu_grad %[[DY]], %[[S]]
  %ds = hyc.gelu_grad %dy, %s {id = "ds", hyc.backward, dist.stage = 0} : tensor<2x8xf32>
  // CHECK-NOT: "z.again"
  hyc.accumulate %ds into @loss_sum {hyc.backward, dist.stage = 0} : tensor<2x8xf32>
  hyc.return
}

// -----

// A later stage does not compute again what an earlier one has: %a has crossed, and is saved where it arrived. %b, made
// on stage 1 and saved, stays saved, although its operand would be computed again.
// CHECK-LABEL: hyc.func @microbatch
// CUT: hyc.func @forward.1(%{{.*}}: tensor<2x8xf32> {dist.channel = "a"}) -> (tensor<2x8xf32> {hyc.saved = "b"}, tensor<2x8xf32> {hyc.saved = "a"})
// CUT: hyc.func @backward.0
// CUT-NOT: gelu
// CUT: hyc.func @backward.1
// CUT: hyc.gelu %{{.*}}id = "c.again"
dist.mesh @mesh axes ["dp", "tp"] sizes [1, 1] stages 2 batch <{dp}> tensor <{tp}>
hyc.state @sum role "loss_sum" : tensor<2x8xf32> from #hyc.fill<0.0 : f64>
hyc.func @microbatch(%x: tensor<2x8xf32> {hyc.input = "x"}) {
  %a = hyc.gelu %x {id = "a", dist.stage = 0, dist.lifetime = #dist.lifetime<recompute>} : tensor<2x8xf32>
  %b = hyc.gelu %a {id = "b", dist.stage = 1} : tensor<2x8xf32>
  %c = hyc.gelu %b {id = "c", dist.stage = 1, dist.lifetime = #dist.lifetime<recompute>} : tensor<2x8xf32>
  hyc.accumulate %c into @sum {dist.stage = 1} : tensor<2x8xf32>
  // CHECK: %[[C:.*]] = hyc.gelu %{{.*}}id = "c.again"
  // CHECK-NEXT: hyc.gelu_grad %[[C]], %[[C]]
  %dc = hyc.gelu_grad %c, %c {id = "dc", hyc.backward, dist.stage = 1} : tensor<2x8xf32>
  %db = hyc.gelu_grad %dc, %a {id = "db", hyc.backward, dist.stage = 1} : tensor<2x8xf32>
  hyc.accumulate %db into @sum {hyc.backward, dist.stage = 1} : tensor<2x8xf32>
  hyc.return
}

// -----

// A value that every rank of tp has is kept in halves, and joined once for all that need it, through a reshape too. Five
// elements cannot be halved: they are kept whole.
// CHECK-LABEL: hyc.func @microbatch
// CHECK: %[[A:.*]] = hyc.gelu
// CHECK-NEXT: %[[PART:.*]] = dist.slice %[[A]] dim 1 over <{tp}> {{.*}}id = "a.part"{{.*}} : tensor<5x8xf32> -> tensor<5x4xf32>
// CHECK: hyc.neg
// CHECK: %[[P:.*]] = dist.all_gather_start %[[PART]] dim 1 over <{tp}> {cause = "a"
// CHECK-NEXT: %[[WHOLE:.*]] = dist.wait %[[P]]
// CHECK-NEXT: %[[FLAT:.*]] = hyc.reshape %[[WHOLE]]
// CHECK-NEXT: hyc.gelu_grad %[[FLAT]], %[[FLAT]]
// CHECK-NEXT: hyc.gelu_grad %[[WHOLE]], %[[WHOLE]]
// CHECK-NOT: all_gather
// CUT: hyc.func @forward.0({{.*}}) -> (tensor<5x4xf32> {hyc.saved = "a.part"}, tensor<5xf32> {hyc.saved = "b"})
dist.mesh @mesh axes ["dp", "tp"] sizes [1, 2] stages 1 batch <{dp}> tensor <{tp}>
hyc.state @sum role "loss_sum" : tensor<5x8xf32> from #hyc.fill<0.0 : f64>
hyc.state @flat_sum role "loss_sum" : tensor<40xf32> from #hyc.fill<0.0 : f64>
hyc.state @row_sum role "loss_sum" : tensor<5xf32> from #hyc.fill<0.0 : f64>
hyc.func @microbatch(%x: tensor<5x8xf32> {hyc.input = "x"}, %r: tensor<5xf32> {hyc.input = "r"}) {
  %a = hyc.gelu %x {id = "a", dist.stage = 0, dist.lifetime = #dist.lifetime<save over {tp}>} : tensor<5x8xf32>
  %b = hyc.gelu %r {id = "b", dist.stage = 0, dist.lifetime = #dist.lifetime<save over {tp}>} : tensor<5xf32>
  %flat = hyc.reshape %a {id = "flat", dist.stage = 0} : (tensor<5x8xf32>) -> tensor<40xf32>
  %n = hyc.neg %a {id = "n", dist.stage = 0} : tensor<5x8xf32>
  hyc.accumulate %n into @sum {dist.stage = 0} : tensor<5x8xf32>
  %df = hyc.gelu_grad %flat, %flat {id = "df", hyc.backward, dist.stage = 0} : tensor<40xf32>
  %da = hyc.gelu_grad %a, %a {id = "da", hyc.backward, dist.stage = 0} : tensor<5x8xf32>
  %db = hyc.gelu_grad %b, %b {id = "db", hyc.backward, dist.stage = 0} : tensor<5xf32>
  hyc.accumulate %df into @flat_sum {hyc.backward, dist.stage = 0} : tensor<40xf32>
  hyc.accumulate %da into @sum {hyc.backward, dist.stage = 0} : tensor<5x8xf32>
  hyc.accumulate %db into @row_sum {hyc.backward, dist.stage = 0} : tensor<5xf32>
  hyc.return
}
