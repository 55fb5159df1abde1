// RUN: hyc-opt %s --hyc-create-mesh="dp=1 tp=2" --hyc-seed-shardings --split-input-file --verify-diagnostics | FileCheck %s

// By structure the inner factor of fc1 and fc2 is split, and the class scores, which no product reads, are not. The model's
// authors want the one whole and the other split.
// CHECK-LABEL: module @published
// CHECK-DAG: hyc.param @layers.0.fc1.weight {{.*}}dist.sharding = #dist.sharding<[{}, {}]>
// CHECK-DAG: hyc.param @layers.0.fc2.weight {{.*}}dist.sharding = #dist.sharding<[{}, {}]>
// CHECK-DAG: hyc.param @score.weight {{.*}}dist.sharding = #dist.sharding<[{tp}, {}]>
module @published attributes {hyc.tensor_plan = ["layers.*.fc1=replicate", "score=colwise_rep"]} {
  hyc.param @layers.0.fc1.weight : tensor<16x8xf32> from #hyc.fill<0.0 : f64>
  hyc.param @layers.0.fc2.weight : tensor<8x16xf32> from #hyc.fill<0.0 : f64>
  hyc.param @score.weight : tensor<6x8xf32> from #hyc.fill<0.0 : f64>
  hyc.func @microbatch(%x: tensor<4x8xf32> {hyc.input = "x"}) -> tensor<4x6xf32> {
    %w1 = hyc.read @layers.0.fc1.weight : tensor<16x8xf32>
    %h = hyc.einsum "bk,nk->bn" %x, %w1 : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
    %w2 = hyc.read @layers.0.fc2.weight : tensor<8x16xf32>
    %y = hyc.einsum "bn,kn->bk" %h, %w2 : (tensor<4x16xf32>, tensor<8x16xf32>) -> tensor<4x8xf32>
    %w3 = hyc.read @score.weight : tensor<6x8xf32>
    %s = hyc.einsum "bk,vk->bv" %y, %w3 : (tensor<4x8xf32>, tensor<6x8xf32>) -> tensor<4x6xf32>
    hyc.return %s : tensor<4x6xf32>
  }
}

// -----

// The same without a plan.
// CHECK-LABEL: module @by_structure
// CHECK-DAG: hyc.param @layers.0.fc1.weight {{.*}}dist.sharding = #dist.sharding<[{tp}, {}]>
// CHECK-DAG: hyc.param @layers.0.fc2.weight {{.*}}dist.sharding = #dist.sharding<[{}, {tp}]>
// CHECK-DAG: hyc.param @score.weight {{.*}}dist.sharding = #dist.sharding<[{}, {}]>
module @by_structure {
  hyc.param @layers.0.fc1.weight : tensor<16x8xf32> from #hyc.fill<0.0 : f64>
  hyc.param @layers.0.fc2.weight : tensor<8x16xf32> from #hyc.fill<0.0 : f64>
  hyc.param @score.weight : tensor<6x8xf32> from #hyc.fill<0.0 : f64>
  hyc.func @microbatch(%x: tensor<4x8xf32> {hyc.input = "x"}) -> tensor<4x6xf32> {
    %w1 = hyc.read @layers.0.fc1.weight : tensor<16x8xf32>
    %h = hyc.einsum "bk,nk->bn" %x, %w1 : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
    %w2 = hyc.read @layers.0.fc2.weight : tensor<8x16xf32>
    %y = hyc.einsum "bn,kn->bk" %h, %w2 : (tensor<4x16xf32>, tensor<8x16xf32>) -> tensor<4x8xf32>
    %w3 = hyc.read @score.weight : tensor<6x8xf32>
    %s = hyc.einsum "bk,vk->bv" %y, %w3 : (tensor<4x8xf32>, tensor<6x8xf32>) -> tensor<4x6xf32>
    hyc.return %s : tensor<4x6xf32>
  }
}

// -----

// expected-error@+1 {{hyc.tensor_plan has the entry "fc1=sideways", expected "MODULE=STYLE" with one of the styles colwise}}
module attributes {hyc.tensor_plan = ["fc1=sideways"]} {
  hyc.func @microbatch(%x: tensor<4x8xf32> {hyc.input = "x"}) -> tensor<4x8xf32> {
    hyc.return %x : tensor<4x8xf32>
  }
}

// -----

module attributes {hyc.tensor_plan = ["score=colwise"]} {
  // expected-error@+1 {{is split by its model's tensor plan ("score=colwise"), but 5 is no multiple of 2}}
  hyc.param @score.weight : tensor<5x8xf32> from #hyc.fill<0.0 : f64>
  hyc.func @microbatch(%x: tensor<4x8xf32> {hyc.input = "x"}) -> tensor<4x5xf32> {
    %w = hyc.read @score.weight : tensor<5x8xf32>
    %s = hyc.einsum "bk,vk->bv" %x, %w : (tensor<4x8xf32>, tensor<5x8xf32>) -> tensor<4x5xf32>
    hyc.return %s : tensor<4x5xf32>
  }
}
