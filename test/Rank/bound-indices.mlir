// Indices that the model computes are marked, so that they are checked where they are used; those of an input, in any
// order or width, the loader holds to the bound of all their uses; what was saved was checked when it was made.
// RUN: hyc-opt %s --hyc-form-clusters --hyc-lower-to-rank | FileCheck %s

dist.mesh @mesh axes ["dp", "tp"] sizes [1, 1] stages 1 batch <{dp}> tensor <{tp}>
hyc.param @table : tensor<9x4xf32> from #hyc.fill<1.0> {dist.sharding = #dist.sharding<[{}, {}]>, dist.stages = array<i64: 0>}
hyc.param @short : tensor<5x4xf32> from #hyc.fill<1.0> {dist.sharding = #dist.sharding<[{}, {}]>, dist.stages = array<i64: 0>}
dist.schedule stage 0 slots 1 [#dist.do<begin_step>, #dist.do<forward micro_batch 0 slot 0>, #dist.do<backward micro_batch 0 slot 0>, #dist.do<reduce>, #dist.do<apply>]

// CHECK: rank.input @ids {{.*}}bound 5 in
// CHECK: rank.input @others {{.*}}bound 9223372036854775807 in
// CHECK-LABEL: @forward
hyc.func @forward.0(%ids: tensor<2x3xi64> {hyc.input = "ids", hyc.source = "sample"}, %others: tensor<2x3xi64> {hyc.input = "others", hyc.source = "sample"}) -> (tensor<2x3xi64> {hyc.saved = "sum"}, tensor<6x4xf32> {hyc.saved = "rows"}) attributes {dist.stage = 0 : i64} {
  %table = hyc.read @table {id = "table.read"} : tensor<9x4xf32>
  %short = hyc.read @short {id = "short.read"} : tensor<5x4xf32>
  // CHECK: rank.call "embedding" {{.*}}id = "whole"
  // CHECK-NOT: index_bound
  // CHECK: rank.call "embedding" {{.*}}id = "row"
  // CHECK-NOT: index_bound
  %a = hyc.embedding %ids, %table {id = "whole"} : (tensor<2x3xi64>, tensor<9x4xf32>) -> tensor<2x3x4xf32>
  %flat = hyc.reshape %ids {id = "flat"} : (tensor<2x3xi64>) -> tensor<6xi64>
  %b = hyc.embedding %flat, %short {id = "row"} : (tensor<6xi64>, tensor<5x4xf32>) -> tensor<6x4xf32>
  %sum = hyc.add %others, %ids {id = "sum"} : tensor<2x3xi64>
  // CHECK: rank.call "embedding" {{.*}}id = "of_sum", index_bound = 9 : i64, index_operand = "ids"
  %c = hyc.embedding %sum, %table {id = "of_sum"} : (tensor<2x3xi64>, tensor<9x4xf32>) -> tensor<2x3x4xf32>
  // CHECK: rank.call "gather" {{.*}}id = "picked", index_bound = 6 : i64, index_operand = "indices"
  %d = hyc.gather %b, %sum dim 0 batch 0 {id = "picked"} : (tensor<6x4xf32>, tensor<2x3xi64>) -> tensor<2x3x4xf32>
  // A constant that lies within needs no check, another is found when it is used.
  %within = hyc.constant {id = "within"} dense<[0, 5]> : tensor<2xi64>
  %beyond = hyc.constant {id = "beyond"} dense<[0, 6]> : tensor<2xi64>
  // CHECK: rank.call "gather" {{.*}}id = "known"
  // CHECK-NOT: index_bound
  // CHECK: rank.call "gather" {{.*}}id = "outside", index_bound = 6 : i64
  %e = hyc.gather %b, %within dim 0 batch 0 {id = "known"} : (tensor<6x4xf32>, tensor<2xi64>) -> tensor<2x4xf32>
  %f = hyc.gather %b, %beyond dim 0 batch 0 {id = "outside"} : (tensor<6x4xf32>, tensor<2xi64>) -> tensor<2x4xf32>
  hyc.return %sum, %b : tensor<2x3xi64>, tensor<6x4xf32>
}
// CHECK-LABEL: @backward
// CHECK-NOT: index_bound
hyc.func @backward.0(%sum: tensor<2x3xi64> {hyc.saved = "sum"}, %b: tensor<6x4xf32> {hyc.saved = "rows"}) attributes {dist.stage = 0 : i64} {
  %d = hyc.gather %b, %sum dim 0 batch 0 {hyc.backward, id = "again"} : (tensor<6x4xf32>, tensor<2x3xi64>) -> tensor<2x3x4xf32>
  hyc.return
}

hyc.func @reduce.0() attributes {dist.stage = 0 : i64} {
  hyc.return
}
hyc.func @apply.0() attributes {dist.stage = 0 : i64} {
  hyc.return
}
