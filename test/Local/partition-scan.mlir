// A scan is split along what goes through its steps untouched: the samples. What a step contracts or cuts stays whole, so that
// the weight, split over tp where others use it, is gathered before the scan.
// RUN: hyc-opt %s --hyc-create-mesh='dp=2 tp=2' --hyc-seed-shardings --hyc-propagate-shardings --hyc-partition | FileCheck %s

hyc.param @w : tensor<8x8xf32> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[{}, {tp}]>}
hyc.state @out role "out" : tensor<f32> from #hyc.fill<0.0 : f64>

// CHECK-LABEL: hyc.func @microbatch(%arg0: tensor<2x5x8xf32>
hyc.func @microbatch(%x: tensor<4x5x8xf32> {hyc.input = "x"}) {
  %w = hyc.read @w : tensor<8x8xf32>
  %t = hyc.transpose %x [1, 0, 2] {id = "turned", dist.stage = 0} : (tensor<4x5x8xf32>) -> tensor<5x4x8xf32>
  %zero = hyc.constant dense<0.0> : tensor<4x8xf32>
  // CHECK: %[[READ:.*]] = hyc.read @w : tensor<8x4xf32>
  // CHECK: dist.all_gather_start %[[READ]]
  // CHECK: %[[W:.*]] = dist.wait {{.*}} -> tensor<8x8xf32>
  // CHECK: hyc.scan 5 init(%{{.*}}) over(%{{.*}}) with(%[[W]]) attributes {{.*}} : (tensor<2x8xf32>, tensor<5x2x8xf32>, tensor<8x8xf32>) -> (tensor<2x8xf32>, tensor<5x2x8xf32>)
  // CHECK-NEXT: ^bb0(%{{.*}}: tensor<2x8xf32>, %{{.*}}: tensor<2x8xf32>, %{{.*}}: tensor<8x8xf32>):
  // CHECK: hyc.einsum "bk,kn->bn" {{.*}} : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
  // CHECK: hyc.constant {{.*}}dense<5.000000e-01> : tensor<2x8xf32>
  %last, %all = hyc.scan 5 init(%zero) over(%t) with(%w) attributes {id = "scan", dist.stage = 0} : (tensor<4x8xf32>, tensor<5x4x8xf32>, tensor<8x8xf32>) -> (tensor<4x8xf32>, tensor<5x4x8xf32>) {
  ^bb0(%h: tensor<4x8xf32>, %e: tensor<4x8xf32>, %in: tensor<8x8xf32>):
    %0 = hyc.einsum "bk,kn->bn" %h, %in {id = "product"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %half = hyc.constant {id = "half"} dense<0.5> : tensor<4x8xf32>
    %1 = hyc.mul %0, %half {id = "halved"} : tensor<4x8xf32>
    %2 = hyc.add %1, %e {id = "next"} : tensor<4x8xf32>
    hyc.yield %2, %2 : tensor<4x8xf32>, tensor<4x8xf32>
  }
  %s = hyc.reduce sum %all [0, 1, 2] {id = "sum", dist.stage = 0} : (tensor<5x4x8xf32>) -> tensor<f32>
  hyc.accumulate %s into @out {dist.stage = 0} : tensor<f32>
  hyc.return
}
