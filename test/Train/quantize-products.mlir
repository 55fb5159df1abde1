// RUN: hyc-opt %s --hyc-differentiate --hyc-convert-precision=precision=bf16 --hyc-quantize-products --hyc-attach-optimizer --hyc-verify-train | FileCheck %s
// RUN: hyc-opt %s --hyc-differentiate --hyc-convert-precision=precision=bf16 --hyc-quantize-products=history=4 --hyc-attach-optimizer --hyc-verify-train | FileCheck %s --check-prefix=HISTORY
// RUN: not hyc-opt %s --hyc-differentiate --hyc-convert-precision=precision=bf16 --hyc-quantize-products=history=0 2>&1 | FileCheck %s --check-prefix=STEPS
// RUN: not hyc-opt %s --hyc-differentiate --hyc-quantize-products 2>&1 | FileCheck %s --check-prefix=NOTHING

hyc.param @w : tensor<8x8xf32> from #hyc.fill<1.0>
hyc.param @head : tensor<8x5xf32> from #hyc.fill<1.0>

hyc.func @train(%tokens: tensor<4xi64> {hyc.input = "x", hyc.source = "token"}, %x: tensor<4x8xf32> {hyc.input = "z", hyc.source = "sample"}, %labels: tensor<4xi64> {hyc.input = "labels", hyc.source = "next_token"}) -> (tensor<f32>, tensor<i64>) {
  %w = hyc.read @w : tensor<8x8xf32>
  %h = hyc.einsum "bi,io->bo" %x, %w {id = "fc"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %a = hyc.relu %h {id = "act"} : tensor<4x8xf32>
  %head = hyc.read @head : tensor<8x5xf32>
  %logits = hyc.einsum "bi,iv->bv" %a, %head {id = "head"} : (tensor<4x8xf32>, tensor<8x5xf32>) -> tensor<4x5xf32>
  %loss, %count, %lse = hyc.cross_entropy %logits, %labels {id = "loss"} : (tensor<4x5xf32>, tensor<4xi64>) -> (tensor<f32>, tensor<i64>, tensor<4xf32>)
  hyc.return %loss, %count : tensor<f32>, tensor<i64>
}

// Four states a quantised tensor: x and w of forward, the cotangent of backward. The last product in front of the loss
// has none.
// CHECK-NOT: head.fp8
// CHECK-DAG: hyc.state @fc.fp8.x.scale role "fp8.scale" : tensor<f32> from #hyc.fill<1.000000e+00 : f64> {hyc.fp8_largest = 4.480000e+02 : f64, hyc.fp8_states = [@fc.fp8.x.inverse, @fc.fp8.x.history, @fc.fp8.x.amax]}
// CHECK-DAG: hyc.state @fc.fp8.x.inverse role "fp8.inverse" : tensor<f32> from #hyc.fill<1.000000e+00 : f64>
// CHECK-DAG: hyc.state @fc.fp8.x.amax role "fp8.amax" : tensor<f32>
// CHECK-DAG: hyc.state @fc.fp8.x.history role "fp8.history" : tensor<16xf32>
// CHECK-DAG: hyc.state @fc.fp8.w.scale role "fp8.scale" {{.*}} {hyc.fp8_largest = 4.480000e+02 : f64
// CHECK-DAG: hyc.state @fc.grad.rhs.fp8.g.scale role "fp8.scale" {{.*}} {hyc.fp8_largest = 5.734400e+04 : f64
// HISTORY-DAG: hyc.state @fc.fp8.x.history role "fp8.history" : tensor<4xf32>

// CHECK-LABEL: hyc.func @microbatch
// CHECK: hyc.read @w.compute
// CHECK: %[[X:.*]] = hyc.convert %{{.*}} -> tensor<4x8xbf16>
// Scaled, clamped, rounded.
// CHECK: %[[S:.*]] = hyc.read @fc.fp8.x.scale {id = "fc.fp8.x.scale"} : tensor<f32>
// CHECK-NEXT: %[[WIDE:.*]] = hyc.broadcast %[[S]] [] {{.*}} -> tensor<4x8xf32>
// CHECK-NEXT: %[[SCALE:.*]] = hyc.convert %[[WIDE]] {{.*}} -> tensor<4x8xbf16>
// CHECK-NEXT: %[[SCALED:.*]] = hyc.mul %[[X]], %[[SCALE]] {id = "fc.fp8.x.scaled"} : tensor<4x8xbf16>
// CHECK: %[[BELOW:.*]] = hyc.min %[[SCALED]], %{{.*}} {id = "fc.fp8.x.below"} : tensor<4x8xbf16>
// CHECK: %[[CLAMPED:.*]] = hyc.max %[[BELOW]], %{{.*}} {id = "fc.fp8.x.clamped"} : tensor<4x8xbf16>
// CHECK-NEXT: %[[XQ:.*]] = hyc.convert %[[CLAMPED]] {id = "fc.fp8.x"} : (tensor<4x8xbf16>) -> tensor<4x8xf8E4M3FN>
// Measured.
// CHECK-NEXT: %[[MAGNITUDE:.*]] = hyc.abs %[[X]]
// CHECK-NEXT: %[[AMAX:.*]] = hyc.reduce max %[[MAGNITUDE]] [0, 1] {id = "fc.fp8.x.greatest"} : (tensor<4x8xbf16>) -> tensor<f32>
// CHECK-NEXT: hyc.accumulate max %[[AMAX]] into @fc.fp8.x.amax
// CHECK: %[[WQ:.*]] = hyc.convert %{{.*}} {id = "fc.fp8.w"} : (tensor<8x8xbf16>) -> tensor<8x8xf8E4M3FN>
// CHECK: hyc.accumulate max %{{.*}} into @fc.fp8.w.amax
// CHECK-NEXT: %[[P:.*]] = hyc.einsum "bi,io->bo" %[[XQ]], %[[WQ]] {id = "fc"} : (tensor<4x8xf8E4M3FN>, tensor<8x8xf8E4M3FN>) -> tensor<4x8xbf16>
// Scaled back.
// CHECK-NEXT: %[[I:.*]] = hyc.read @fc.fp8.x.inverse
// CHECK: %[[HALF:.*]] = hyc.mul %[[P]], %{{.*}} {id = "fc.fp8.half"} : tensor<4x8xbf16>
// CHECK: hyc.read @fc.fp8.w.inverse
// CHECK: %[[H:.*]] = hyc.mul %[[HALF]], %{{.*}} {id = "fc.fp8.result"} : tensor<4x8xbf16>
// CHECK-NEXT: hyc.relu %[[H]]
// The head stays bf16.
// CHECK: hyc.einsum "bi,iv->bv" {{.*}} (tensor<4x8xbf16>, tensor<8x5xbf16>) -> tensor<4x5xbf16>

// Backward reads the activation that forward quantised, and rounds nothing of a sum.
// CHECK: %[[G:.*]] = hyc.convert %{{.*}} {hyc.backward, id = "fc.grad.rhs.fp8.g"} : (tensor<4x8xbf16>) -> tensor<4x8xf8E5M2>
// CHECK: hyc.accumulate max %{{.*}} into @fc.grad.rhs.fp8.g.amax {hyc.backward
// CHECK-NEXT: %[[DW:.*]] = hyc.einsum "bi,bo->io" %[[XQ]], %[[G]] {hyc.backward, id = "fc.grad.rhs"} : (tensor<4x8xf8E4M3FN>, tensor<4x8xf8E5M2>) -> tensor<8x8xf32>
// CHECK: hyc.mul %[[DW]], %{{.*}} {hyc.backward, id = "fc.grad.rhs.fp8.half"} : tensor<8x8xf32>
// CHECK: %[[SUM:.*]] = hyc.mul %{{.*}} {hyc.backward, id = "fc.grad.rhs.fp8.result"} : tensor<8x8xf32>
// CHECK: hyc.accumulate %[[SUM]] into @w.grad

// CHECK-LABEL: hyc.func @apply
// CHECK: hyc.update_fp8_scale @fc.fp8.x.scale, @fc.fp8.x.inverse, @fc.fp8.x.history amax @fc.fp8.x.amax {id = "fc.fp8.x.scale.update", largest = 4.480000e+02 : f64}

// STEPS: error: the amax history has 0 steps, expected at least 1
// NOTHING: error: --precision is fp8, but no product would be one of fp8
