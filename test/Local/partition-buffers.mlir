// A buffer gets what all ranks have in common: a sum over the batch is closed before it is written.
// RUN: hyc-opt %s --hyc-create-mesh='dp=2' --hyc-seed-shardings --hyc-propagate-shardings --hyc-shard-states='zero=3 persistence-threshold=0' --hyc-partition | FileCheck %s

// CHECK: hyc.param @w : tensor<2048xf32> {{.*}}global_type = tensor<4096xf32>
hyc.param @w : tensor<4096xf32> from #hyc.fill<0.0 : f64>
// CHECK: hyc.param @mean : tensor<4096xf32> {{.*}}#dist.sharding<[{}]>
hyc.param @mean : tensor<4096xf32> from #hyc.fill<0.0 : f64> frozen
hyc.state @out role "out" : tensor<4096xf32> from #hyc.fill<0.0 : f64>

// CHECK-LABEL: hyc.func @microbatch(%arg0: tensor<4x4096xf32>
hyc.func @microbatch(%x: tensor<8x4096xf32> {hyc.input = "x"}) {
  %w = hyc.read @w : tensor<4096xf32>
  %old = hyc.read @mean : tensor<4096xf32>
  // CHECK: %[[S:.*]] = hyc.reduce sum
  // CHECK: %[[P:.*]] = dist.all_reduce_start sum %[[S]] over <{dp}>
  // CHECK: %[[R:.*]] = dist.wait %[[P]]
  %s = hyc.reduce sum %x [0] {id = "sum", dist.stage = 0} : (tensor<8x4096xf32>) -> tensor<4096xf32>
  // CHECK: %[[N:.*]] = hyc.add {{.*}}%[[R]]
  %next = hyc.add %old, %s {id = "next", dist.stage = 0} : tensor<4096xf32>
  // CHECK: hyc.write %[[N]] into @mean {dist.stage = 0 : i64, id = "mean.write"} : tensor<4096xf32>
  hyc.write %next into @mean {id = "mean.write", dist.stage = 0} : tensor<4096xf32>
  %y = hyc.mul %w, %s {id = "y", dist.stage = 0} : tensor<4096xf32>
  hyc.accumulate %y into @out {dist.stage = 0} : tensor<4096xf32>
  hyc.return
}
