// Norms in @apply.S: the global one takes every stage's squares; that of one parameter, which LAMB asks for, is taken where
// the parameter is held, over the axes that split it, and needs no other stage.
// RUN: hyc-opt %s --hyc-distribute-update | FileCheck %s

dist.mesh @mesh axes ["dp", "tp"] sizes [2, 4] stages 2 batch <{dp}> tensor <{tp}>
hyc.param @split : tensor<8x2xf32> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[{}, {tp}]>, dist.stages = array<i64: 0>, global_type = tensor<8x8xf32>}
hyc.param @tied : tensor<8xf32> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[{}]>, dist.stages = array<i64: 0, 1>}
hyc.state @split.grad of @split role "gradient" : tensor<8x2xf32> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[{}, {tp}] partial {dp}>, dist.stages = array<i64: 0>, global_type = tensor<8x8xf32>}
hyc.state @tied.grad of @tied role "gradient" : tensor<8xf32> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[{}] partial {dp}>, dist.stages = array<i64: 0, 1>}
hyc.state @split.m of @split role "lamb.m" : tensor<8x2xf32> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[{}, {tp}]>, dist.stages = array<i64: 0>, global_type = tensor<8x8xf32>}
hyc.state @split.v of @split role "lamb.v" : tensor<8x2xf32> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[{}, {tp}]>, dist.stages = array<i64: 0>, global_type = tensor<8x8xf32>}
hyc.state @token_count role "token_count" : tensor<i64> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[]>, dist.stages = array<i64: 0, 1>}
hyc.state @grad_norm role "grad_norm" : tensor<f32> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[]>, dist.stages = array<i64: 0, 1>}
hyc.state @step role "step" : tensor<i64> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[]>, dist.stages = array<i64: 0, 1>}

hyc.func @apply(%lr: tensor<f32> {hyc.scalar = "lr"}) {
  %squares = hyc.sum_of_squares [@split.grad, @tied.grad] {id = "apply.sum_of_squares"} : tensor<f64>
  %count = hyc.read @token_count {id = "apply.count"} : tensor<i64>
  %scale, %norm = hyc.gradient_scale %squares, %count {id = "apply.scale"} : (tensor<f64>, tensor<i64>) -> (tensor<f32>, tensor<f32>)
  hyc.write %norm into @grad_norm {id = "apply.norm"} : tensor<f32>
  %t = hyc.increment @step {id = "apply.step"} : tensor<i64>
  hyc.lamb_direction @split, @split.grad, @split.m, @split.v step %t scale %scale
    {beta1 = 0.9, beta2 = 0.999, epsilon = 1.0e-8, weight_decay = 0.0, id = "split.direction"} : tensor<i64>, tensor<f32>
  %p = hyc.sum_of_squares [@split] {id = "split.param_squares"} : tensor<f64>
  %u = hyc.sum_of_squares [@split.grad] {id = "split.direction_squares"} : tensor<f64>
  %r = hyc.trust_ratio %p, %u {least = 0.01, most = 10.0, id = "split.trust_ratio"} : (tensor<f64>, tensor<f64>) -> tensor<f64>
  hyc.lamb @split, @split.grad lr %lr ratio %r {id = "split.update"} : tensor<f32>, tensor<f64>
  %q = hyc.sum_of_squares [@tied] {id = "tied.param_squares"} : tensor<f64>
  %v = hyc.sum_of_squares [@tied.grad] {id = "tied.direction_squares"} : tensor<f64>
  %s = hyc.trust_ratio %q, %v {least = 0.01, most = 10.0, id = "tied.trust_ratio"} : (tensor<f64>, tensor<f64>) -> tensor<f64>
  hyc.lamb @tied, @tied.grad lr %lr ratio %s {id = "tied.update"} : tensor<f32>, tensor<f64>
  hyc.return
}

// CHECK-LABEL: hyc.func @apply.0
// CHECK: hyc.sum_of_squares [@tied.grad]
// CHECK: hyc.sum_of_squares [@split.grad]
// CHECK: dist.all_reduce_start sum %{{.*}} over <{tp}> {cause = "grad_norm"
// CHECK: dist.all_reduce_start sum %{{.*}} over <{} stages [0, 1]> {cause = "grad_norm"
// CHECK: hyc.lamb_direction @split
// CHECK: %[[P:.*]] = hyc.sum_of_squares [@split] :
// CHECK-NEXT: %[[PP:.*]] = dist.all_reduce_start sum %[[P]] over <{tp}> {cause = "split.param_squares", why = "squares of a split tensor"}
// CHECK-NEXT: %[[PX:.*]] = dist.wait %[[PP]]
// CHECK-NEXT: %[[PW:.*]] = hyc.round_sum %[[PX]]
// CHECK-NEXT: %[[U:.*]] = hyc.sum_of_squares [@split.grad] :
// CHECK-NEXT: %[[UP:.*]] = dist.all_reduce_start sum %[[U]] over <{tp}>
// CHECK-NEXT: %[[UX:.*]] = dist.wait %[[UP]]
// CHECK-NEXT: %[[UW:.*]] = hyc.round_sum %[[UX]]
// CHECK-NEXT: hyc.trust_ratio %[[PW]], %[[UW]]
// CHECK-NEXT: hyc.lamb @split
// CHECK-NEXT: %[[QX:.*]] = hyc.sum_of_squares [@tied] :
// CHECK-NEXT: %[[Q:.*]] = hyc.round_sum %[[QX]]
// CHECK-NEXT: %[[VX:.*]] = hyc.sum_of_squares [@tied.grad] :
// CHECK-NEXT: %[[V:.*]] = hyc.round_sum %[[VX]]
// CHECK-NEXT: hyc.trust_ratio %[[Q]], %[[V]]

// The second stage holds the tied parameter alone, and takes its norms for itself.
// CHECK-LABEL: hyc.func @apply.1
// CHECK-NOT: @split
// CHECK: dist.all_reduce_start sum %{{.*}} over <{} stages [0, 1]>
// CHECK-NOT: dist.all_reduce_start
// CHECK: hyc.sum_of_squares [@tied] :
// CHECK-NEXT: hyc.round_sum
// CHECK-NEXT: hyc.sum_of_squares [@tied.grad] :
// CHECK-NEXT: hyc.round_sum
// CHECK-NEXT: hyc.trust_ratio
// CHECK-NEXT: hyc.lamb @tied
