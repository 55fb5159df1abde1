// What the loader may put into an input: indices below the size of what they index, and where they are labels alone, the one
// that the loss does not count. Of an embedding it would be wrong.
// RUN: hyc-opt %s --hyc-form-clusters --hyc-lower-to-rank | FileCheck %s

// CHECK: rank.program @stage0
// CHECK-DAG: rank.input @ids source "sample" bound 8 in @feeds : {{[^{]*$}}
// CHECK-DAG: rank.input @labels source "sample" bound 4 in @feeds : {{.*}} {uncounted = -100 : i64}
dist.mesh @mesh axes ["dp", "tp"] sizes [1, 1] stages 1 batch <{dp}> tensor <{tp}>
dist.schedule stage 0 slots 1 [#dist.do<begin_step>, #dist.do<forward micro_batch 0 slot 0>, #dist.do<backward micro_batch 0 slot 0>,
  #dist.do<reduce>, #dist.do<apply>]
hyc.param @table : tensor<8x4xf32> from #hyc.fill<0.5 : f64> frozen {dist.sharding = #dist.sharding<[{}, {}]>}
hyc.state @loss_sum role "loss_sum" : tensor<f32> from #hyc.fill<0.0 : f64>
hyc.func @forward.0(%ids: tensor<2xi64> {hyc.input = "ids", hyc.source = "sample"},
                    %labels: tensor<2xi64> {hyc.input = "labels", hyc.source = "sample"}) {
  %table = hyc.read @table : tensor<8x4xf32>
  %logits = hyc.embedding %ids, %table {id = "logits"} : (tensor<2xi64>, tensor<8x4xf32>) -> tensor<2x4xf32>
  %sum, %count, %lse = hyc.cross_entropy %logits, %labels {id = "loss"}
      : (tensor<2x4xf32>, tensor<2xi64>) -> (tensor<f32>, tensor<i64>, tensor<2xf32>)
  hyc.write %sum into @loss_sum {id = "loss_sum.write"} : tensor<f32>
  hyc.return
}
hyc.func @backward.0() {
  hyc.return
}
hyc.func @reduce.0() {
  hyc.return
}
hyc.func @apply.0() {
  hyc.return
}
