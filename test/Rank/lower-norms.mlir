// RUN: hyc-opt %s --hyc-lower-to-rank --hyc-reuse-operands | FileCheck %s

// One call each. A cotangent goes where the one before it was; the gradient of a scale is added where it is kept.
dist.mesh @mesh axes ["dp"] sizes [1] stages 1 batch <{dp}>
dist.schedule stage 0 slots 1 [#dist.do<begin_step>, #dist.do<forward micro_batch 0 slot 0>, #dist.do<backward micro_batch 0 slot 0>,
  #dist.do<reduce>, #dist.do<apply>]
hyc.param @w : tensor<8xf32> from #hyc.fill<1.0 : f64> {dist.sharding = #dist.sharding<[{}]>}
hyc.state @w.grad of @w role "gradient" : tensor<8xf32> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[{}]>}

// CHECK-LABEL: rank.func @forward()
hyc.func @forward.0(%x: tensor<2x4x8xf32> {hyc.input = "x", hyc.source = "token"})
    -> (tensor<2x4xf32> {hyc.saved = "rstd"}, tensor<2x4x2x4xf32> {hyc.saved = "turned"}) {
  %w = hyc.read @w : tensor<8xf32>
  // CHECK: %[[X:.*]] = rank.address @x
  // CHECK: %[[W:.*]] = rank.address @w
  // CHECK: rank.call "rms_norm" %{{.*}}, %{{.*}} = %[[X]], %[[W]] {epsilon = {{.*}}, id = "norm"}
  %y, %rstd = hyc.rms_norm %x, %w epsilon 1.0e-5 {id = "norm"} : (tensor<2x4x8xf32>, tensor<8xf32>) -> (tensor<2x4x8xf32>, tensor<2x4xf32>)
  // CHECK: rank.call "rotary_table" %[[C:.*]], %[[S:.*]] = {factor = 1.000000e+00 : f64, frequencies = dense<[1.000000e+00, 1.000000e-01]> : tensor<2xf32>
  %cos, %sin = hyc.rotary_table [1.0, 0.1] factor 1.0 {id = "table"} : () -> (tensor<4x2xf32>, tensor<4x2xf32>)
  %heads = hyc.reshape %y : (tensor<2x4x8xf32>) -> tensor<2x4x2x4xf32>
  // CHECK: rank.call "rope" %{{.*}} = %{{.*}}, %[[C]], %[[S]] {id = "turned"}
  %turned = hyc.rope %heads, %cos, %sin {id = "turned"} : (tensor<2x4x2x4xf32>, tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<2x4x2x4xf32>
  hyc.return %rstd, %turned : tensor<2x4xf32>, tensor<2x4x2x4xf32>
}

// CHECK-LABEL: rank.func @backward()
hyc.func @backward.0(%x: tensor<2x4x8xf32> {hyc.input = "x", hyc.source = "token"}, %rstd: tensor<2x4xf32> {hyc.saved = "rstd"},
                     %turned: tensor<2x4x2x4xf32> {hyc.saved = "turned"}) {
  %w = hyc.read @w : tensor<8xf32>
  %cos, %sin = hyc.rotary_table [1.0, 0.1] factor 1.0 {id = "table"} : () -> (tensor<4x2xf32>, tensor<4x2xf32>)
  // CHECK: %[[DY:.*]] = rank.alloc {{.*}}<2x4x8xf32>
  // CHECK: rank.call "rope" {{.*}} {id = "turned.grad", inverse}
  %dheads = hyc.rope inverse %turned, %cos, %sin {id = "turned.grad"} : (tensor<2x4x2x4xf32>, tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<2x4x2x4xf32>
  %dy = hyc.reshape %dheads : (tensor<2x4x2x4xf32>) -> tensor<2x4x8xf32>
  // The workspace holds one sum of a row's length for each eight rows.
  // CHECK: %[[GRAD:.*]] = rank.address @w.grad
  // CHECK: %[[WORK:.*]] = rank.alloc {{.*}}<8xf32>
  // CHECK: rank.call "rms_norm_grad" %[[DY]], %[[GRAD]], %[[WORK]] = {{.*}}, %[[DY]] {id = "norm.grad", mode = #rank<mode first>}
  %dx, %dw = hyc.rms_norm_grad %dy, %x, %w, %rstd {id = "norm.grad"} : (tensor<2x4x8xf32>, tensor<2x4x8xf32>, tensor<8xf32>, tensor<2x4xf32>) -> (tensor<2x4x8xf32>, tensor<8xf32>)
  hyc.accumulate %dw into @w.grad : tensor<8xf32>
  hyc.return
}
hyc.func @reduce.0() {
  hyc.return
}
hyc.func @apply.0() {
  hyc.return
}
