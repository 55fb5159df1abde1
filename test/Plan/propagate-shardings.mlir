// From two annotations to every value: an elementwise op keeps a split, a contraction over a split dimension leaves its sum
// open, a linear op passes the open sum on, a reshape splits what it cuts, and states follow their parameter.
// RUN: hyc-opt %s --hyc-propagate-shardings | FileCheck %s

dist.mesh @mesh axes ["dp", "tp"] sizes [2, 2] stages 1 batch <{dp}> tensor <{tp}>

hyc.param @w : tensor<64x32xf32> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[{tp}, {}]>}
// CHECK: hyc.state @w.m {{.*}} {dist.sharding = #dist.sharding<[{tp}, {}]>}
hyc.state @w.m of @w role "adam.m" : tensor<64x32xf32> from #hyc.fill<0.0 : f64>

// CHECK-LABEL: hyc.func @microbatch
hyc.func @microbatch(%x: tensor<8x64xf32> {hyc.input = "x", dist.sharding = #dist.sharding<[{dp}, {}]>}) {
  %w = hyc.read @w : tensor<64x32xf32>
  // CHECK: hyc.tanh {{.*}}dist.shardings = [#dist.sharding<[{dp}, {tp}]>]
  %a = hyc.tanh %x {id = "act"} : tensor<8x64xf32>
  // CHECK: hyc.einsum {{.*}}dist.shardings = [#dist.sharding<[{dp}, {}] partial {tp}>]
  %y = hyc.einsum "bk,kn->bn" %a, %w {id = "product"} : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
  // CHECK: hyc.neg {{.*}}dist.shardings = [#dist.sharding<[{dp}, {}] partial {tp}>]
  %z = hyc.neg %y {id = "linear"} : tensor<8x32xf32>
  // What is not linear wants the true value.
  // CHECK: hyc.exp {{.*}}dist.shardings = [#dist.sharding<[{dp}, {}]>]
  %e = hyc.exp %z {id = "not_linear"} : tensor<8x32xf32>
  // A dimension of size 1 is no part of the index that a reshape cuts.
  // CHECK: hyc.reshape {{.*}}dist.shardings = [#dist.sharding<[{}, {dp}, {}]>]{{.*}}"one_more"
  %u = hyc.reshape %e {id = "one_more"} : (tensor<8x32xf32>) -> tensor<1x8x32xf32>
  // CHECK: hyc.reshape {{.*}}dist.shardings = [#dist.sharding<[{dp}, {}, {}]>]{{.*}}"cut"
  %c = hyc.reshape %u {id = "cut"} : (tensor<1x8x32xf32>) -> tensor<2x4x32xf32>
  hyc.return
}
