// RUN: hyc-opt %s --split-input-file --hyc-shard-states="zero=1" | FileCheck %s --check-prefixes=CHECK,ONE
// RUN: hyc-opt %s --split-input-file --hyc-shard-states="zero=2 persistence-threshold=0" | FileCheck %s --check-prefixes=CHECK,TWO
// RUN: hyc-opt %s --split-input-file --hyc-shard-states="zero=3 persistence-threshold=5000 prefetch=2" | FileCheck %s --check-prefixes=CHECK,THREE
// RUN: hyc-opt %s --split-input-file --hyc-shard-states="zero=3 gradient-reduction=step persistence-threshold=0" | FileCheck %s --check-prefixes=CHECK,STEP

// 64 × 64 local elements are four blocks: two a rank. A gradient that is summed once a step stays whole.
dist.mesh @mesh axes ["dp", "tp"] sizes [2, 2] stages 1 batch <{dp}> tensor <{tp}>
// ONE: hyc.param @w {{.*}}dist.sharding = #dist.sharding<[{}, {tp}]>
// TWO: hyc.param @w {{.*}}dist.sharding = #dist.sharding<[{}, {tp}]>
// THREE: hyc.param @w {{.*}}dist.prefetch = 2 {{.*}}dist.sharding = #dist.sharding<[{}, {tp}] flat {dp}>
// STEP: hyc.param @w {{.*}}dist.sharding = #dist.sharding<[{}, {tp}] flat {dp}>
hyc.param @w : tensor<64x128xf32> from #hyc.fill<0.5 : f64> {dist.sharding = #dist.sharding<[{}, {tp}]>}
// ONE: hyc.state @w.grad {{.*}}dist.owned = #dist.axes<{dp}>, dist.reduction = "step", dist.sharding = #dist.sharding<[{}, {tp}] partial {dp}>
// TWO: hyc.state @w.grad {{.*}}dist.reduction = "micro_batch", dist.sharding = #dist.sharding<[{}, {tp}] flat {dp}>
// THREE: hyc.state @w.grad {{.*}}dist.reduction = "micro_batch", dist.sharding = #dist.sharding<[{}, {tp}] flat {dp}>
// STEP: hyc.state @w.grad {{.*}}dist.owned = #dist.axes<{dp}>, dist.reduction = "step", dist.sharding = #dist.sharding<[{}, {tp}] partial {dp}>
hyc.state @w.grad of @w role "gradient" : tensor<64x128xf32> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[{}, {tp}] partial {dp}>}
// CHECK: hyc.state @w.m {{.*}}dist.sharding = #dist.sharding<[{}, {tp}] flat {dp}>
hyc.state @w.m of @w role "adam.m" : tensor<64x128xf32> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[{}, {tp}]>}

// One block: its shard would be no smaller.
// CHECK: hyc.param @bias {{.*}}dist.sharding = #dist.sharding<[{}]>
hyc.param @bias : tensor<1024xf32> from #hyc.fill<0.5 : f64> {dist.sharding = #dist.sharding<[{}]>}
// CHECK: hyc.state @bias.m {{.*}}dist.sharding = #dist.sharding<[{}]>
hyc.state @bias.m of @bias role "adam.m" : tensor<1024xf32> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[{}]>}

// No more elements than the threshold: the parameter stays whole, its states do not.
// THREE: hyc.param @small {{.*}}dist.sharding = #dist.sharding<[{}]>
// STEP: hyc.param @small {{.*}}dist.sharding = #dist.sharding<[{}] flat {dp}>
hyc.param @small : tensor<4096xf32> from #hyc.fill<0.5 : f64> {dist.sharding = #dist.sharding<[{}]>}
// THREE: hyc.state @small.grad {{.*}}dist.sharding = #dist.sharding<[{}] flat {dp}>
hyc.state @small.grad of @small role "gradient" : tensor<4096xf32> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[{}] partial {dp}>}
hyc.state @small.m of @small role "adam.m" : tensor<4096xf32> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[{}]>}

// -----

// What a plan file says of a state wins; an axis of one rank cuts nothing.
dist.mesh @mesh axes ["dp", "tp"] sizes [2, 1] stages 1 batch <{dp}> tensor <{tp}>
// CHECK-LABEL: dist.mesh @mesh axes ["dp", "tp"] sizes [2, 1]
// CHECK: hyc.param @v {{.*}}dist.sharding = #dist.sharding<[{}]>
hyc.param @v : tensor<4096xf32> from #hyc.fill<0.5 : f64> {dist.sharding = #dist.sharding<[{}]>, dist.flat = #dist.axes<{tp}>}
// CHECK: hyc.state @v.grad {{.*}}dist.reduction = "micro_batch", dist.sharding = #dist.sharding<[{}]>
hyc.state @v.grad of @v role "gradient" : tensor<4096xf32> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[{}] partial {dp}>, dist.flat = #dist.axes<{}>, dist.reduction = "micro_batch"}
// CHECK: hyc.state @v.m {{.*}}dist.sharding = #dist.sharding<[{}]>
hyc.state @v.m of @v role "adam.m" : tensor<4096xf32> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[{}]>, dist.flat = #dist.axes<{}>}

// -----

// Beside a copy in the compute type the master is one of the optimizer's states; the copy is what the stages of ZeRO
// call the parameter.
dist.mesh @mesh axes ["dp", "tp"] sizes [2, 1] stages 1 batch <{dp}> tensor <{tp}>
// CHECK-LABEL: dist.mesh @mesh axes ["dp", "tp"] sizes [2, 1]
// CHECK: hyc.param @u {{.*}}dist.sharding = #dist.sharding<[{}] flat {dp}>
hyc.param @u : tensor<8192xf32> from #hyc.fill<0.5 : f64> {dist.sharding = #dist.sharding<[{}]>}
// ONE: hyc.state @u.compute {{.*}}dist.sharding = #dist.sharding<[{}]>
// TWO: hyc.state @u.compute {{.*}}dist.sharding = #dist.sharding<[{}]>
// THREE: hyc.state @u.compute {{.*}}dist.prefetch = 2 {{.*}}dist.sharding = #dist.sharding<[{}] flat {dp}>
// STEP: hyc.state @u.compute {{.*}}dist.sharding = #dist.sharding<[{}] flat {dp}>
hyc.state @u.compute of @u role "compute" : tensor<8192xbf16> from #hyc.fill<0.5 : f64> {dist.sharding = #dist.sharding<[{}]>}
hyc.state @u.grad of @u role "gradient" : tensor<8192xf32> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[{}] partial {dp}>}
hyc.state @u.m of @u role "adam.m" : tensor<8192xf32> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[{}]>}

// A master that forward reads too is used as the copy is.
// ONE: hyc.param @both {{.*}}dist.sharding = #dist.sharding<[{}]>
// TWO: hyc.param @both {{.*}}dist.sharding = #dist.sharding<[{}]>
// THREE: hyc.param @both {{.*}}dist.sharding = #dist.sharding<[{}] flat {dp}>
hyc.param @both : tensor<8192xf32> from #hyc.fill<0.5 : f64> {dist.sharding = #dist.sharding<[{}]>}
hyc.state @both.compute of @both role "compute" : tensor<8192xbf16> from #hyc.fill<0.5 : f64> {dist.sharding = #dist.sharding<[{}]>}
hyc.state @both.grad of @both role "gradient" : tensor<8192xf32> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[{}] partial {dp}>}
hyc.state @both.m of @both role "adam.m" : tensor<8192xf32> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[{}]>}
hyc.func @microbatch() {
  %w = hyc.read @both : tensor<8192xf32>
  hyc.return
}
