// Codes are split as their weight is, rows or columns; what they are multiplied with is whole, and where this rank's part of
// the matrix begins is a number.
// RUN: hyc-opt %s --hyc-create-mesh='dp=2 tp=2' --hyc-propagate-shardings --hyc-assign-stages --hyc-partition | FileCheck %s

// CHECK-DAG: hyc.state @up.codes of @up role "codes" : tensor<4x16xui8> {{.*}}global_type = tensor<8x16xui8>
// CHECK-DAG: hyc.state @down.codes of @down role "codes" : tensor<16x2xui8> {{.*}}global_type = tensor<16x4xui8>
// CHECK-DAG: hyc.state @up.scale role "codes.scale" : tensor<8xf32>
hyc.param @up : tensor<8x16xf32> from #hyc.fill<0.0 : f64> frozen {dist.sharding = #dist.sharding<[{tp}, {}]>}
hyc.param @down : tensor<16x8xf32> from #hyc.fill<0.0 : f64> frozen {dist.sharding = #dist.sharding<[{}, {tp}]>}
hyc.state @up.codes of @up role "codes" : tensor<8x16xui8> from #hyc.of_weight<int8_codes of "up" from #hyc.fill<0.0 : f64>, outputs = 8, inputs = 16, inputs_first = false>
hyc.state @up.scale role "codes.scale" : tensor<8xf32> from #hyc.of_weight<int8_absmax of "up" from #hyc.fill<0.0 : f64>, outputs = 8, inputs = 16, inputs_first = false>
hyc.state @down.codes of @down role "codes" : tensor<16x4xui8> from #hyc.of_weight<nf4_codes of "down" from #hyc.fill<0.0 : f64>, outputs = 16, inputs = 8, inputs_first = false>
hyc.state @down.absmax role "codes.scale" : tensor<2xui8> from #hyc.of_weight<nf4_absmax of "down" from #hyc.fill<0.0 : f64>, outputs = 16, inputs = 8, inputs_first = false>
hyc.state @down.scale role "codes.scale" : tensor<1xf32> from #hyc.of_weight<nf4_scale of "down" from #hyc.fill<0.0 : f64>, outputs = 16, inputs = 8, inputs_first = false>
hyc.state @down.mean role "codes.scale" : tensor<f32> from #hyc.of_weight<nf4_mean of "down" from #hyc.fill<0.0 : f64>, outputs = 16, inputs = 8, inputs_first = false>
hyc.state @sum role "loss_sum" : tensor<4x16xf32> from #hyc.fill<0.0 : f64>
hyc.func @microbatch(%x: tensor<4x16xf32> {hyc.input = "x", dist.sharding = #dist.sharding<[{dp}, {}]>}) {
  // CHECK: %[[ROWS:.*]] = dist.shard_offset <{tp}> size 64 {{.*}}id = "up.w.offset"
  // CHECK-NEXT: hyc.dequantize int8 %{{.*}}, %{{.*}}, %[[ROWS]] block 16 strides [16, 1] {{.*}} : (tensor<4x16xui8>, tensor<8xf32>, tensor<i64>) -> tensor<4x16xf32>
  %c = hyc.read @up.codes {id = "up.c"} : tensor<8x16xui8>
  %s = hyc.read @up.scale {id = "up.s"} : tensor<8xf32>
  %w = hyc.dequantize int8 %c, %s block 16 strides [16, 1] {id = "up.w"} : (tensor<8x16xui8>, tensor<8xf32>) -> tensor<8x16xf32>
  %h = hyc.einsum "bk,nk->bn" %x, %w {id = "up"} : (tensor<4x16xf32>, tensor<8x16xf32>) -> tensor<4x8xf32>
  // CHECK: %[[COLUMNS:.*]] = dist.shard_offset <{tp}> size 4 {{.*}}id = "down.w.offset"
  // CHECK-NEXT: hyc.dequantize nf4 %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %[[COLUMNS]] block 64 strides [8, 1] {{.*}} -> tensor<16x4xf32>
  %dc = hyc.read @down.codes {id = "down.c"} : tensor<16x4xui8>
  %da = hyc.read @down.absmax {id = "down.a"} : tensor<2xui8>
  %ds = hyc.read @down.scale {id = "down.s"} : tensor<1xf32>
  %dm = hyc.read @down.mean {id = "down.m"} : tensor<f32>
  %dw = hyc.dequantize nf4 %dc, %da, %ds, %dm block 64 strides [8, 1] {id = "down.w"} : (tensor<16x4xui8>, tensor<2xui8>, tensor<1xf32>, tensor<f32>) -> tensor<16x8xf32>
  %y = hyc.einsum "bk,nk->bn" %h, %dw {id = "down"} : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  hyc.accumulate %y into @sum {id = "sum"} : tensor<4x16xf32>
  hyc.return
}
