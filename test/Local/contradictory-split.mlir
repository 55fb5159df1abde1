// A plan whose record contradicts itself is refused where it does, not executed.
// RUN: hyc-opt %s --split-input-file --verify-diagnostics --hyc-partition

dist.mesh @mesh axes ["dp", "tp"] sizes [1, 2] stages 1 batch <{dp}> tensor <{tp}>
hyc.func @microbatch(%x: tensor<4x6xf32> {hyc.input = "x", dist.sharding = #dist.sharding<[{}, {}]>}) {
  // expected-error @below {{result 0 has sharding #dist.sharding<[{}] partial {tp}>, but its split and its operands give #dist.sharding<[{}]>}}
  %r = hyc.reduce sum %x [1] {dist.shardings = [#dist.sharding<[{}] partial {tp}>]} : (tensor<4x6xf32>) -> tensor<4xf32>
  hyc.return
}

// -----

dist.mesh @mesh axes ["dp", "tp"] sizes [1, 2] stages 1 batch <{dp}> tensor <{tp}>
hyc.func @microbatch(%x: tensor<4x6xf32> {hyc.input = "x", dist.sharding = #dist.sharding<[{}, {}]>}) {
  // expected-error @below {{dist.split has 1 axis lists, expected 2, one a factor of (i,j)->(i) {i=4, j=6 sum}}}
  %r = hyc.reduce sum %x [1] {dist.shardings = [#dist.sharding<[{tp}]>], dist.split = [#dist.axes<{tp}>]} : (tensor<4x6xf32>) -> tensor<4xf32>
  hyc.return
}

// -----

dist.mesh @mesh axes ["dp", "tp"] sizes [1, 2] stages 1 batch <{dp}> tensor <{tp}>
hyc.func @microbatch(%x: tensor<4x6xf32> {hyc.input = "x", dist.sharding = #dist.sharding<[{}, {}]>}) {
  // expected-error @below {{but (i,j)->(i,j) {i=4, j=6 whole} can't be split over these axes}}
  %r = hyc.softmax %x {dist.shardings = [#dist.sharding<[{}, {tp}]>], dist.split = [#dist.axes<{}>, #dist.axes<{tp}>]} : tensor<4x6xf32>
  hyc.return
}

// -----

dist.mesh @mesh axes ["dp", "tp"] sizes [1, 2] stages 1 batch <{dp}> tensor <{tp}>
hyc.func @microbatch(%x: tensor<4x6xf32> {hyc.input = "x", dist.sharding = #dist.sharding<[{}, {}]>}) {
  // expected-error @below {{dist.split is 3 : i64, expected one #dist.axes a factor}}
  %r = hyc.neg %x {dist.shardings = [#dist.sharding<[{}, {}]>], dist.split = 3} : tensor<4x6xf32>
  hyc.return
}
