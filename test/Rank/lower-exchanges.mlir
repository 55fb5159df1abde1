// An all_to_all cuts its operand into parts that lie one after the other, and joins what it receives; along outermost
// dimensions of even shards it needs no copies. A shift passes what lies in shared memory.
// RUN: hyc-opt %s --hyc-rank-phase | FileCheck %s

dist.mesh @mesh axes ["ep"] sizes [2] stages 1
hyc.state @uneven role "output" : tensor<2x5xf32> from #hyc.fill<0.0 : f64>
hyc.state @even role "output" : tensor<2x8xf32> from #hyc.fill<0.0 : f64>
hyc.state @passed role "output" : tensor<4x4xf32> from #hyc.fill<0.0 : f64>

// CHECK: rank.collective @[[UNEVEN:.*]] 0 "all_to_all" over <{ep}> cause "uneven" why ""
// CHECK: rank.collective @[[EVEN:.*]] 1 "all_to_all" over <{ep}> cause "even" why ""
// CHECK: rank.collective @[[SHIFT:.*]] 2 "shift" over <{ep}> cause "ring" why ""
hyc.func @forward.0(%x: tensor<3x3xf32> {hyc.input = "x"}, %y: tensor<4x4xf32> {hyc.input = "y"}) attributes {dist.stage = 0 : i64} {
  // Three rows over two ranks: parts of two, the last filled up with zeros; of five columns the last shard has two.
  // CHECK: rank.call "fill" %{{.*}} = {{.*}}!rank.buffer<2x2x3xf32>
  // CHECK: rank.call "strided_copy"
  // CHECK: rank.call "strided_copy"
  // CHECK: %[[T0:.*]] = rank.start "all_to_all" "sum" %{{.*}}, %{{.*}} into %{{.*}} count 6 {id = "uneven"} : !rank.buffer<2x2x3xf32> into !rank.buffer<2x2x3xf32>
  // CHECK: rank.wait %[[T0]]
  // CHECK: rank.call "strided_copy"
  // CHECK: rank.call "strided_copy"
  %0 = dist.all_to_all_start %x split 0 concat 1 over <{ep}> {cause = "uneven"} : tensor<3x3xf32> -> !dist.pending<tensor<2x5xf32>>
  %1 = dist.wait %0 : !dist.pending<tensor<2x5xf32>> -> tensor<2x5xf32>
  hyc.write %1 into @uneven : tensor<2x5xf32>
  // CHECK: %[[T1:.*]] = rank.start "all_to_all" "sum" %{{.*}}, %{{.*}} into %{{.*}} count 8 {id = "even"} : !rank.buffer<4x4xf32> into !rank.buffer<2x2x4xf32>
  // CHECK: rank.wait %[[T1]]
  %2 = dist.all_to_all_start %y split 0 concat 1 over <{ep}> {cause = "even"} : tensor<4x4xf32> -> !dist.pending<tensor<2x8xf32>>
  %3 = dist.wait %2 : !dist.pending<tensor<2x8xf32>> -> tensor<2x8xf32>
  hyc.write %3 into @even : tensor<2x8xf32>
  // CHECK: %[[T2:.*]] = rank.start "shift" "sum" %{{.*}}, %{{.*}} into %{{.*}} count 16 distance 1 {id = "ring"} : !rank.buffer<4x4xf32> into !rank.buffer<4x4xf32>
  // CHECK: rank.wait %[[T2]]
  %4 = dist.shift_start %y by 1 over <{ep}> {cause = "ring"} : tensor<4x4xf32> -> !dist.pending<tensor<4x4xf32>>
  %5 = dist.wait %4 : !dist.pending<tensor<4x4xf32>> -> tensor<4x4xf32>
  hyc.write %5 into @passed : tensor<4x4xf32>
  hyc.return
}
hyc.func @backward.0() attributes {dist.stage = 0 : i64} { hyc.return }
hyc.func @reduce.0() attributes {dist.stage = 0 : i64} { hyc.return }
hyc.func @apply.0() attributes {dist.stage = 0 : i64} { hyc.return }
dist.schedule stage 0 slots 1 [#dist.do<begin_step>, #dist.do<forward micro_batch 0 slot 0>]
