// RUN: hyc-opt %s --hyc-lower-to-rank --hyc-reuse-operands | FileCheck %s

// One call each. Gradients of scale and bias are added where they are kept, seen as groups of channels; the workspace holds
// four vectors of the channels for each sample.
dist.mesh @mesh axes ["dp"] sizes [1] stages 1 batch <{dp}>
dist.schedule stage 0 slots 1 [#dist.do<begin_step>, #dist.do<forward micro_batch 0 slot 0>, #dist.do<backward micro_batch 0 slot 0>,
  #dist.do<reduce>, #dist.do<apply>]
hyc.param @w : tensor<6xf32> from #hyc.fill<1.0 : f64> {dist.sharding = #dist.sharding<[{}]>}
hyc.param @b : tensor<6xf32> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[{}]>}
hyc.state @w.grad of @w role "gradient" : tensor<6xf32> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[{}]>}
hyc.state @b.grad of @b role "gradient" : tensor<6xf32> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[{}]>}

// CHECK-LABEL: rank.func @forward()
hyc.func @forward.0(%x: tensor<2x2x3x16xf32> {hyc.input = "x", hyc.source = "token"})
    -> (tensor<2x2xf32> {hyc.saved = "mean"}, tensor<2x2xf32> {hyc.saved = "rstd"}, tensor<2x2x3x16xf32> {hyc.saved = "y"}) {
  %w = hyc.read @w : tensor<6xf32>
  %b = hyc.read @b : tensor<6xf32>
  %scale = hyc.reshape %w : (tensor<6xf32>) -> tensor<2x3xf32>
  %bias = hyc.reshape %b : (tensor<6xf32>) -> tensor<2x3xf32>
  // CHECK: rank.call "group_norm" %{{.*}}, %{{.*}}, %{{.*}} = {{.*}} {epsilon = {{.*}}, id = "norm"}
  %y, %mean, %rstd = hyc.group_norm %x, %scale, %bias epsilon 1.0e-5 {id = "norm"}
    : (tensor<2x2x3x16xf32>, tensor<2x3xf32>, tensor<2x3xf32>) -> (tensor<2x2x3x16xf32>, tensor<2x2xf32>, tensor<2x2xf32>)
  hyc.return %mean, %rstd, %y : tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2x3x16xf32>
}

// CHECK-LABEL: rank.func @backward()
hyc.func @backward.0(%x: tensor<2x2x3x16xf32> {hyc.input = "x", hyc.source = "token"}, %mean: tensor<2x2xf32> {hyc.saved = "mean"},
                     %rstd: tensor<2x2xf32> {hyc.saved = "rstd"}, %y: tensor<2x2x3x16xf32> {hyc.saved = "y"}) {
  %w = hyc.read @w : tensor<6xf32>
  %scale = hyc.reshape %w : (tensor<6xf32>) -> tensor<2x3xf32>
  // CHECK: %[[WORK:.*]] = rank.alloc {{.*}}<48xf32>
  // CHECK: rank.call "group_norm_grad" %{{.*}}, %{{.*}}, %{{.*}}, %[[WORK]] = {{.*}} {id = "norm.grad", mode = #rank<mode first>}
  // CHECK-NOT: rank.call "add
  %dx, %dw, %db = hyc.group_norm_grad %y, %x, %scale, %mean, %rstd {id = "norm.grad"}
    : (tensor<2x2x3x16xf32>, tensor<2x2x3x16xf32>, tensor<2x3xf32>, tensor<2x2xf32>, tensor<2x2xf32>)
    -> (tensor<2x2x3x16xf32>, tensor<2x3xf32>, tensor<2x3xf32>)
  %wgrad = hyc.reshape %dw : (tensor<2x3xf32>) -> tensor<6xf32>
  %bgrad = hyc.reshape %db : (tensor<2x3xf32>) -> tensor<6xf32>
  hyc.accumulate %wgrad into @w.grad : tensor<6xf32>
  hyc.accumulate %bgrad into @b.grad : tensor<6xf32>
  hyc.return
}
hyc.func @reduce.0() {
  hyc.return
}
hyc.func @apply.0() {
  hyc.return
}
