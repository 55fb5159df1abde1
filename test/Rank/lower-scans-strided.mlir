// What is carried and stacked is one: where a stack lies between other elements, whatever a kernel gives dense is copied there
// once a step, and the next step reads it where it lies.
// RUN: hyc-opt %s --hyc-hoist-invariants --hyc-form-clusters --hyc-lower-to-rank | FileCheck %s

dist.mesh @mesh axes ["dp", "tp"] sizes [1, 1] stages 1 batch <{dp}> tensor <{tp}>
hyc.state @y role "output" : tensor<8x2x7xf32> from #hyc.fill<0.0 : f64>

// CHECK-LABEL: rank.program @stage0
// CHECK: %[[FIRST:[0-9]+]] = rank.view {{.*}} to <2x4xf32, strides [7, 1]>
// CHECK: rank.launch
// CHECK: %[[DENSE:[0-9]+]] = rank.alloc @activations {{.*}} : <2x4xf32>
// CHECK: rank.call "gather" %[[DENSE]] =
// CHECK: rank.call "strided_copy" %[[FIRST]] = %[[DENSE]]
// CHECK-NOT: strided_copy
// CHECK: rank.repeat 7
// CHECK-DAG: %[[BEFORE:[0-9]+]] = rank.turn %[[STACK:[0-9]+]] + 0 step 14 : {{.*}} to <2x4xf32, strides [7, 1]>
// CHECK-DAG: %[[PLACE:[0-9]+]] = rank.turn %[[STACK]] + 14 step 14 : {{.*}} to <2x4xf32, strides [7, 1]>
// CHECK: rank.launch {{.*}} = %[[BEFORE]]
// CHECK: rank.call "gather" %[[MADE:[0-9]+]] =
// CHECK: rank.call "strided_copy" %[[PLACE]] = %[[MADE]]
// CHECK-NOT: strided_copy
// CHECK: {{^      }}}
hyc.func @forward.0(%x: tensor<2x4xf32> {hyc.input = "x"}, %ids: tensor<8x2xi64> {hyc.input = "ids"}, %beside: tensor<8x2x3xf32> {hyc.input = "beside"}) attributes {dist.stage = 0 : i64} {
  %last, %all = hyc.scan 8 init(%x) over(%ids) attributes {id = "scan"} : (tensor<2x4xf32>, tensor<8x2xi64>) -> (tensor<2x4xf32>, tensor<8x2x4xf32>) {
  ^bb0(%h: tensor<2x4xf32>, %i: tensor<2xi64>):
    %t = hyc.tanh %h {id = "t"} : tensor<2x4xf32>
    %rows = hyc.gather %t, %i dim 0 batch 0 {id = "rows"} : (tensor<2x4xf32>, tensor<2xi64>) -> tensor<2x4xf32>
    hyc.yield %rows, %rows : tensor<2x4xf32>, tensor<2x4xf32>
  }
  %both = hyc.concat %all, %beside dim 2 {id = "both"} : (tensor<8x2x4xf32>, tensor<8x2x3xf32>) -> tensor<8x2x7xf32>
  hyc.write %both into @y : tensor<8x2x7xf32>
  hyc.return
}
hyc.func @backward.0() attributes {dist.stage = 0 : i64} { hyc.return }
hyc.func @reduce.0() attributes {dist.stage = 0 : i64} { hyc.return }
hyc.func @apply.0() attributes {dist.stage = 0 : i64} { hyc.return }
dist.schedule stage 0 slots 1 [#dist.do<begin_step>, #dist.do<forward micro_batch 0 slot 0>]
