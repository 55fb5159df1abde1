// A broadcast costs nothing where it is read: what backward and the next stage get of it is what was broadcast.
// RUN: hyc-opt %s --hyc-cut-stages | FileCheck %s

dist.mesh @mesh axes ["dp", "tp"] sizes [1, 1] stages 2 batch <{dp}> tensor <{tp}>

hyc.func @microbatch(%x: tensor<2x8xf32> {hyc.input = "x", hyc.source = "token"}) {
  // CHECK-LABEL: hyc.func @forward.0
  // CHECK-SAME: -> (tensor<8xf32> {dist.channel = "sum"}, tensor<8xf32> {hyc.saved = "sum"})
  %s = hyc.reduce sum %x [0] {id = "sum", dist.stage = 0} : (tensor<2x8xf32>) -> tensor<8xf32>
  %b = hyc.broadcast %s [1] {id = "sums", dist.stage = 0} : (tensor<8xf32>) -> tensor<2x8xf32>
  // CHECK-LABEL: hyc.func @forward.1
  // CHECK-SAME: %[[S:.*]]: tensor<8xf32> {dist.channel = "sum"}
  // CHECK: hyc.broadcast %[[S]] [1]
  // CHECK-NEXT: hyc.exp
  %y = hyc.exp %b {id = "y", dist.stage = 1} : tensor<2x8xf32>
  // CHECK-LABEL: hyc.func @backward.0
  // CHECK-SAME: %[[KEPT:.*]]: tensor<8xf32> {hyc.saved = "sum"}
  // CHECK: hyc.broadcast %[[KEPT]] [1]
  // CHECK-NEXT: hyc.mul
  %dy = hyc.neg %y {id = "dy", hyc.backward, dist.stage = 1} : tensor<2x8xf32>
  %db = hyc.mul %b, %dy {id = "db", hyc.backward, dist.stage = 0} : tensor<2x8xf32>
  hyc.return
}
