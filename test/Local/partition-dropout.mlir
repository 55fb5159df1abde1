// A rank draws its part of each sample's mask: it learns where that begins, and how far apart neighbours of the whole
// sample are. Rows count 12 elements, the 10 that there are and two that fill the last block of four.
// RUN: hyc-opt %s --hyc-create-mesh='dp=2 tp=2' --hyc-propagate-shardings --hyc-assign-stages --hyc-partition | FileCheck %s

hyc.state @sum role "loss_sum" : tensor<4x6x10xf32> from #hyc.fill<0.0 : f64>
hyc.func @microbatch(%x: tensor<4x6x10xf32> {hyc.input = "x", dist.sharding = #dist.sharding<[{dp}, {tp}, {}]>},
                     %k: tensor<4x2xi64> {hyc.input = "random_keys", dist.sharding = #dist.sharding<[{dp}, {}]>}) {
  // CHECK: %[[PLACE:.*]] = dist.shard_offset <{tp}> size 36 {{.*}}id = "m.offset"
  // CHECK-NEXT: %[[MASK:.*]] = hyc.dropout_mask %{{.*}} column 1 offsets %[[PLACE]] strides [12, 1] rate 1.000000e-01 {{.*}} : (tensor<2x2xi64>, tensor<i64>) -> tensor<2x3x10xi1>
  // CHECK: hyc.dropout %{{.*}} mask %[[MASK]] {{.*}} -> tensor<2x3x10xf32>
  %m = hyc.dropout_mask %k column 1 rate 1.0e-1 {id = "m"} : (tensor<4x2xi64>) -> tensor<4x6x10xi1>
  %y = hyc.dropout %x mask %m rate 1.0e-1 {id = "y"} : (tensor<4x6x10xf32>, tensor<4x6x10xi1>) -> tensor<4x6x10xf32>
  hyc.accumulate %y into @sum {id = "sum"} : tensor<4x6x10xf32>
  hyc.return
}
