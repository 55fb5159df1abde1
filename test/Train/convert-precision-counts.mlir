// 16 bits cannot count (bf16 takes 1001 for 1000): arithmetic on numbers that were integers is done in f32 and rounded
// once, where a product wants it narrow.
// RUN: hyc-opt %s --hyc-differentiate --hyc-convert-precision="precision=bf16" | FileCheck %s

hyc.param @w : tensor<4x8xf32> from #hyc.normal<mean = 0.0, stddev = 1.0>
hyc.param @v : tensor<4x8xf32> from #hyc.normal<mean = 0.0, stddev = 1.0>

// CHECK: hyc.func @microbatch(%[[T:[a-z0-9]+]]: tensor<2x3xi64>{{.*}}, %[[M:[a-z0-9]+]]: tensor<2x3x8xi64>
hyc.func @train(%t: tensor<2x3xi64> {hyc.input = "t", hyc.source = "sample"}, %mask: tensor<2x3x8xi64> {hyc.input = "mask", hyc.source = "sample"}, %labels: tensor<2x3xi64> {hyc.input = "labels", hyc.source = "sample"}) -> (tensor<f32>, tensor<i64>) {
  %frequencies = hyc.constant {id = "frequencies"} dense<[1.0, 0.1, 0.01, 0.001]> : tensor<4xf32>
  %number = hyc.convert %t {id = "number"} : (tensor<2x3xi64>) -> tensor<2x3xf32>

  // What a sine is taken of is f32, and so is a sine.
  // CHECK: %[[NUMBER:.*]] = hyc.convert %[[T]] {id = "number"} : (tensor<2x3xi64>) -> tensor<2x3xf32>
  // CHECK: %[[ANGLE:.*]] = hyc.mul {{.*}} {id = "angle"} : tensor<2x3x4xf32>
  // CHECK: %[[SINE:.*]] = hyc.sin %[[ANGLE]] {id = "sine"} : tensor<2x3x4xf32>
  %numbers = hyc.broadcast %number [0, 1] {id = "numbers"} : (tensor<2x3xf32>) -> tensor<2x3x4xf32>
  %all = hyc.broadcast %frequencies [2] {id = "all"} : (tensor<4xf32>) -> tensor<2x3x4xf32>
  %angle = hyc.mul %numbers, %all {id = "angle"} : tensor<2x3x4xf32>
  %sine = hyc.sin %angle {id = "sine"} : tensor<2x3x4xf32>

  // As a product, too, of which no operand is a parameter's.
  // CHECK: %[[ANGLES:.*]] = hyc.einsum "bs,k->bsk" %[[NUMBER]], %{{.*}} {id = "angles"} : (tensor<2x3xf32>, tensor<4xf32>) -> tensor<2x3x4xf32>
  // CHECK: hyc.cos %[[ANGLES]] {id = "cosine"} : tensor<2x3x4xf32>
  %angles = hyc.einsum "bs,k->bsk" %number, %frequencies {id = "angles"} : (tensor<2x3xf32>, tensor<4xf32>) -> tensor<2x3x4xf32>
  %cosine = hyc.cos %angles {id = "cosine"} : tensor<2x3x4xf32>

  // A product with a parameter is narrow, and what it is of was rounded once.
  // CHECK: %[[PLACE:.*]] = hyc.sub {{.*}} {id = "place"} : tensor<2x3x4xf32>
  // CHECK: %[[NARROW:.*]] = hyc.convert %[[PLACE]] {id = "place.bf16"} : (tensor<2x3x4xf32>) -> tensor<2x3x4xbf16>
  // CHECK: hyc.einsum "bsk,kv->bsv" %[[NARROW]], %{{.*}} {id = "placed"} : (tensor<2x3x4xbf16>, tensor<4x8xbf16>) -> tensor<2x3x8xbf16>
  %turned = hyc.add %sine, %cosine {id = "turned"} : tensor<2x3x4xf32>
  %thousand = hyc.constant {id = "thousand"} dense<1000.0> : tensor<2x3x4xf32>
  %place = hyc.sub %numbers, %thousand {id = "place"} : tensor<2x3x4xf32>
  %v = hyc.read @v : tensor<4x8xf32>
  %placed = hyc.einsum "bsk,kv->bsv" %place, %v {id = "placed"} : (tensor<2x3x4xf32>, tensor<4x8xf32>) -> tensor<2x3x8xf32>
  %w = hyc.read @w : tensor<4x8xf32>
  %scores = hyc.einsum "bsk,kv->bsv" %turned, %w {id = "scores"} : (tensor<2x3x4xf32>, tensor<4x8xf32>) -> tensor<2x3x8xf32>

  // A mask is made of numbers that are the lowest of the narrow type, and added to scores in that.
  // CHECK: hyc.constant {id = "lowest"} dense<-3.389530e+38> : tensor<2x3x8xbf16>
  // CHECK: hyc.mul {{.*}} {id = "masked"} : tensor<2x3x8xbf16>
  // CHECK: hyc.add {{.*}} {id = "logits"} : tensor<2x3x8xbf16>
  %sum = hyc.add %scores, %placed {id = "sum"} : tensor<2x3x8xf32>
  %kept = hyc.convert %mask {id = "kept"} : (tensor<2x3x8xi64>) -> tensor<2x3x8xf32>
  %one = hyc.constant {id = "one"} dense<1.0> : tensor<2x3x8xf32>
  %hidden = hyc.sub %one, %kept {id = "hidden"} : tensor<2x3x8xf32>
  %lowest = hyc.constant {id = "lowest"} dense<-3.40282347E+38> : tensor<2x3x8xf32>
  %masked = hyc.mul %hidden, %lowest {id = "masked"} : tensor<2x3x8xf32>
  %logits = hyc.add %sum, %masked {id = "logits"} : tensor<2x3x8xf32>
  %loss, %count, %lse = hyc.cross_entropy %logits, %labels {id = "loss"} : (tensor<2x3x8xf32>, tensor<2x3xi64>) -> (tensor<f32>, tensor<i64>, tensor<2x3xf32>)
  hyc.return %loss, %count : tensor<f32>, tensor<i64>
}
