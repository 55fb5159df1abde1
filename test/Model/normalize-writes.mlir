// RUN: hyc-opt %s --hyc-normalize-model | FileCheck %s

// A buffer is written as soon as its new value can be had and nobody asks for the old one any more: what only the write
// needs would be alive to the end of the model otherwise.

hyc.param @mean : tensor<4xf32> from #hyc.fill<0.0> frozen
hyc.param @steps : tensor<i64> from #hyc.fill<0.0> frozen

// CHECK-LABEL: hyc.func @train
hyc.func @train(%x: tensor<2x4xf32> {hyc.input = "x"}) -> (tensor<2x4xf32> {hyc.output = "y"}, tensor<4xf32> {hyc.output = "old"}) {
  %before = hyc.read @mean : tensor<4xf32>
  %now = hyc.reduce sum %x [0] {id = "now"} : (tensor<2x4xf32>) -> tensor<4xf32>
  %sum = hyc.add %before, %now {id = "sum"} : tensor<4xf32>
  %wide = hyc.broadcast %now [1] {id = "wide"} : (tensor<4xf32>) -> tensor<2x4xf32>
  %centred = hyc.sub %x, %wide {id = "centred"} : tensor<2x4xf32>
  %y = hyc.exp %centred {id = "y"} : tensor<2x4xf32>
  %old = hyc.neg %before {id = "old"} : tensor<4xf32>
  %count = hyc.read @steps : tensor<i64>
  %one = hyc.constant dense<1> : tensor<i64>
  %next = hyc.add %count, %one {id = "next"} : tensor<i64>
  hyc.write %next into @steps {id = "steps.write"} : tensor<i64>
  hyc.write %sum into @mean {id = "mean.write"} : tensor<4xf32>
  hyc.return %y, %old : tensor<2x4xf32>, tensor<4xf32>
}
// CHECK: hyc.reduce
// CHECK: hyc.exp {{.*}} {id = "y"}
// CHECK: %[[OLD:.*]] = hyc.neg {{.*}} {id = "old"}
// CHECK: %[[SUM:.*]] = hyc.add {{.*}} {id = "sum"}
// CHECK-NEXT: hyc.write %[[SUM]] into @mean
// CHECK: hyc.write {{.*}} into @steps
// CHECK: hyc.return

// CHECK-LABEL: hyc.func @early
hyc.func @early(%x: tensor<2x4xf32> {hyc.input = "x"}) -> (tensor<2x4xf32> {hyc.output = "y"}) {
  %before = hyc.read @mean : tensor<4xf32>
  %now = hyc.reduce sum %x [0] {id = "now"} : (tensor<2x4xf32>) -> tensor<4xf32>
  %wide = hyc.broadcast %now [1] {id = "wide"} : (tensor<4xf32>) -> tensor<2x4xf32>
  %centred = hyc.sub %x, %wide {id = "centred"} : tensor<2x4xf32>
  %sum = hyc.add %before, %now {id = "sum"} : tensor<4xf32>
  hyc.write %sum into @mean {id = "mean.write"} : tensor<4xf32>
  hyc.return %centred : tensor<2x4xf32>
}
// CHECK: hyc.reduce
// CHECK: hyc.add
// CHECK-NEXT: hyc.write
// CHECK: hyc.broadcast
