// Tensors get their local shapes; the partial result of the second product is closed by an all_reduce before it is used.
// RUN: hyc-opt %s --hyc-create-mesh='dp=2 tp=2' --hyc-seed-shardings --hyc-propagate-shardings --hyc-partition | FileCheck %s

// CHECK: hyc.param @fc1.weight : tensor<64x128xf32> {{.*}} global_type = tensor<64x256xf32>
hyc.param @fc1.weight : tensor<64x256xf32> from #hyc.fill<0.0 : f64>
// CHECK: hyc.param @fc2.weight : tensor<128x64xf32> {{.*}} global_type = tensor<256x64xf32>
hyc.param @fc2.weight : tensor<256x64xf32> from #hyc.fill<0.0 : f64>
hyc.state @out role "out" : tensor<f32> from #hyc.fill<0.0 : f64>

// CHECK-LABEL: hyc.func @microbatch(%arg0: tensor<4x64xf32>
hyc.func @microbatch(%x: tensor<8x64xf32> {hyc.input = "x"}) {
  %w1 = hyc.read @fc1.weight : tensor<64x256xf32>
  // CHECK: hyc.einsum "bk,kn->bn" {{.*}} : (tensor<4x64xf32>, tensor<64x128xf32>) -> tensor<4x128xf32>
  %h = hyc.einsum "bk,kn->bn" %x, %w1 {id = "fc1", dist.stage = 0} : (tensor<8x64xf32>, tensor<64x256xf32>) -> tensor<8x256xf32>
  %a = hyc.gelu %h {dist.stage = 0} : tensor<8x256xf32>
  %w2 = hyc.read @fc2.weight : tensor<256x64xf32>
  // CHECK: %[[Y:.*]] = hyc.einsum "bn,nk->bk" {{.*}} : (tensor<4x128xf32>, tensor<128x64xf32>) -> tensor<4x64xf32>
  // CHECK: %[[P:.*]] = dist.all_reduce_start sum %[[Y]] over <{tp}> {cause = "fc2", {{.*}} why = "#dist.sharding<[{dp}, {}] partial {tp}>"}
  // CHECK: %[[R:.*]] = dist.wait %[[P]]
  %y = hyc.einsum "bn,nk->bk" %a, %w2 {id = "fc2", dist.stage = 0} : (tensor<8x256xf32>, tensor<256x64xf32>) -> tensor<8x64xf32>
  // CHECK: hyc.exp %[[R]]
  %e = hyc.exp %y {dist.stage = 0} : tensor<8x64xf32>
  // CHECK: hyc.reduce sum {{.*}} : (tensor<4x64xf32>) -> tensor<f32>
  %s = hyc.reduce sum %e [0, 1] {dist.stage = 0} : (tensor<8x64xf32>) -> tensor<f32>
  hyc.accumulate %s into @out {dist.stage = 0} : tensor<f32>
  hyc.return
}
