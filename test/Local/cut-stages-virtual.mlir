// Four chunks of two stages: a value that chunk 2 saves came over chunk 1, though chunk 0 has made it on the same stage.
// RUN: hyc-opt %s --hyc-cut-stages | FileCheck %s

dist.mesh @mesh axes ["dp", "tp"] sizes [1, 1] stages 2 virtual_stages 2 batch <{dp}> tensor <{tp}>

hyc.func @microbatch(%x: tensor<2x8xf32> {hyc.input = "x", hyc.source = "token"}) {
  // CHECK-LABEL: hyc.func @forward.0
  // CHECK-SAME: -> (tensor<2x8xf32> {dist.channel = "a"})
  // CHECK-SAME: dist.stage = 0
  %a = hyc.neg %x {id = "a", dist.stage = 0} : tensor<2x8xf32>
  // CHECK-LABEL: hyc.func @forward.1
  // CHECK-SAME: {dist.channel = "a"}
  // CHECK-SAME: dist.stage = 1
  %b = hyc.neg %a {id = "b", dist.stage = 1} : tensor<2x8xf32>
  // CHECK-LABEL: hyc.func @forward.2
  // CHECK-SAME: {hyc.saved = "a"}
  // CHECK-SAME: dist.stage = 2
  %c = hyc.add %a, %b {id = "c", dist.stage = 2} : tensor<2x8xf32>
  // CHECK-LABEL: hyc.func @forward.3
  %d = hyc.neg %c {id = "d", dist.stage = 3} : tensor<2x8xf32>
  // CHECK-LABEL: hyc.func @backward.0
  // CHECK-LABEL: hyc.func @backward.1
  // CHECK-LABEL: hyc.func @backward.2
  // CHECK-SAME: {hyc.saved = "a"}
  // CHECK-LABEL: hyc.func @backward.3
  %dd = hyc.neg %d {id = "dd", hyc.backward, dist.stage = 3} : tensor<2x8xf32>
  %dc = hyc.gelu_grad %dd, %a {id = "dc", hyc.backward, dist.stage = 2} : tensor<2x8xf32>
  hyc.return
}
