// Beside a weight whose outputs are split B is, beside one whose inputs are split A is; the rank stays whole, though it is an
// inner factor with fewer uses than any other.
// RUN: hyc-opt %s --hyc-freeze-parameters=adapted --hyc-insert-adapters="rank=4 alpha=4 targets=up,down" --hyc-attach-loss="loss=mse labels=target" --hyc-key-random-ops --hyc-differentiate --hyc-attach-optimizer --hyc-create-mesh="tp=2" --hyc-seed-shardings | FileCheck %s

// CHECK: @up.weight {{.*}} frozen {dist.sharding = #dist.sharding<[{}, {tp}]>}
// CHECK-NEXT: @up.lora_A.weight : tensor<4x8xf32> {{.*}}dist.sharding = #dist.sharding<[{}, {}]>
// CHECK-NEXT: @up.lora_B.weight : tensor<16x4xf32> {{.*}}dist.sharding = #dist.sharding<[{tp}, {}]>
// CHECK: @down.weight {{.*}} frozen {dist.sharding = #dist.sharding<[{tp}, {}]>}
// CHECK-NEXT: @down.lora_A.weight : tensor<4x16xf32> {{.*}}dist.sharding = #dist.sharding<[{}, {tp}]>
// CHECK-NEXT: @down.lora_B.weight : tensor<8x4xf32> {{.*}}dist.sharding = #dist.sharding<[{}, {}]>
hyc.param @up.weight : tensor<8x16xf32> from #hyc.fill<0.0 : f64>
hyc.param @down.weight : tensor<16x8xf32> from #hyc.fill<0.0 : f64>
hyc.func @train(%x: tensor<2x8xf32> {hyc.input = "x"}) -> (tensor<2x8xf32> {hyc.output = "y"}) {
  %up = hyc.read @up.weight : tensor<8x16xf32>
  %h = hyc.einsum "bk,kn->bn" %x, %up {id = "up.einsum"} : (tensor<2x8xf32>, tensor<8x16xf32>) -> tensor<2x16xf32>
  %a = hyc.gelu %h {id = "act"} : tensor<2x16xf32>
  %down = hyc.read @down.weight : tensor<16x8xf32>
  %y = hyc.einsum "bn,nk->bk" %a, %down {id = "down.einsum"} : (tensor<2x16xf32>, tensor<16x8xf32>) -> tensor<2x8xf32>
  hyc.return %y : tensor<2x8xf32>
}
