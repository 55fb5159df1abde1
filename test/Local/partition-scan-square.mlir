// An index that stands on two dimensions of a value of the body, as a transpose of what is carried makes of rows and columns,
// stays whole: ranks that split it would hold blocks of the diagonal.
// RUN: hyc-opt %s --hyc-create-mesh='dp=2' --hyc-seed-shardings --hyc-propagate-shardings --hyc-partition | FileCheck %s

hyc.state @out role "out" : tensor<f32> from #hyc.fill<0.0 : f64>

// CHECK-LABEL: hyc.func @microbatch(%arg0: tensor<2x4xf32>
hyc.func @microbatch(%h: tensor<4x4xf32> {hyc.input = "h"}) {
  // CHECK: dist.all_gather_start %arg0 dim 0 over <{dp}>
  // CHECK: hyc.scan 5 init(%{{.*}}) attributes {{.*}} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  // CHECK: hyc.transpose {{.*}} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %last = hyc.scan 5 init(%h) attributes {id = "scan", dist.stage = 0} : (tensor<4x4xf32>) -> tensor<4x4xf32> {
  ^bb0(%own: tensor<4x4xf32>):
    %0 = hyc.transpose %own [1, 0] {id = "turned"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %1 = hyc.sin %0 {id = "next"} : tensor<4x4xf32>
    hyc.yield %1 : tensor<4x4xf32>
  }
  %s = hyc.reduce sum %last [0, 1] {id = "sum", dist.stage = 0} : (tensor<4x4xf32>) -> tensor<f32>
  hyc.accumulate %s into @out {dist.stage = 0} : tensor<f32>
  hyc.return
}
