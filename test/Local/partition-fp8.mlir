// RUN: hyc-opt %s --hyc-quantize-products --hyc-attach-optimizer --hyc-create-mesh="dp=2 tp=2" --hyc-seed-shardings --hyc-propagate-shardings --hyc-shard-states="zero=3 persistence-threshold=0" --hyc-assign-stages --hyc-build-schedule --hyc-verify-plan --hyc-partition --hyc-cut-stages --hyc-reduce-gradients --hyc-distribute-update | FileCheck %s

// Two products under ZeRO-3, the second one's columns split over tp; a third one, in front of the loss, stays as it is.
hyc.param @w1 : tensor<64x128xf32> from #hyc.fill<1.0>
hyc.param @w2 : tensor<128x64xf32> from #hyc.fill<1.0>
hyc.param @w3 : tensor<64x64xf32> from #hyc.fill<1.0>
hyc.state @w1.compute of @w1 role "compute" : tensor<64x128xbf16> from #hyc.fill<1.0>
hyc.state @w2.compute of @w2 role "compute" : tensor<128x64xbf16> from #hyc.fill<1.0>
hyc.state @w3.compute of @w3 role "compute" : tensor<64x64xbf16> from #hyc.fill<1.0>
hyc.state @w1.grad of @w1 role "gradient" : tensor<64x128xf32> from #hyc.fill<0.0>
hyc.state @loss_sum role "loss_sum" : tensor<f32> from #hyc.fill<0.0>
hyc.state @token_count role "token_count" : tensor<i64> from #hyc.fill<0.0>

hyc.func @microbatch(%x: tensor<8x64xbf16> {hyc.input = "x", hyc.source = "sample"}) {
  %w1 = hyc.read @w1.compute {id = "w1.read"} : tensor<64x128xbf16>
  %h = hyc.einsum "bi,io->bo" %x, %w1 {id = "fc1"} : (tensor<8x64xbf16>, tensor<64x128xbf16>) -> tensor<8x128xbf16>
  %a = hyc.relu %h {id = "act"} : tensor<8x128xbf16>
  %w2 = hyc.read @w2.compute {id = "w2.read"} : tensor<128x64xbf16>
  %y = hyc.einsum "bi,io->bo" %a, %w2 {id = "fc2"} : (tensor<8x128xbf16>, tensor<128x64xbf16>) -> tensor<8x64xbf16>
  %w3 = hyc.read @w3.compute {id = "w3.read"} : tensor<64x64xbf16>
  %z = hyc.einsum "bi,io->bo" %y, %w3 {id = "fc3"} : (tensor<8x64xbf16>, tensor<64x64xbf16>) -> tensor<8x64xbf16>
  %s = hyc.reduce sum %z [0, 1] {id = "loss"} : (tensor<8x64xbf16>) -> tensor<f32>
  hyc.accumulate %s into @loss_sum {id = "loss_sum.accumulate"} : tensor<f32>
  %n = hyc.constant {id = "count"} dense<8> : tensor<i64>
  hyc.accumulate %n into @token_count {id = "token_count.accumulate"} : tensor<i64>
  // Of backward what matters here: an open sum over dp is scaled and added without being closed.
  %g = hyc.broadcast %s [] {hyc.backward, id = "fc1.grad"} : (tensor<f32>) -> tensor<8x128xf32>
  %g16 = hyc.convert %g {hyc.backward, id = "fc1.grad.bf16"} : (tensor<8x128xf32>) -> tensor<8x128xbf16>
  %dw = hyc.einsum "bi,bo->io" %x, %g16 {hyc.backward, id = "fc1.grad.rhs"} : (tensor<8x64xbf16>, tensor<8x128xbf16>) -> tensor<64x128xf32>
  hyc.accumulate %dw into @w1.grad {hyc.backward, id = "w1.grad.accumulate"} : tensor<64x128xf32>
  hyc.return
}

// CHECK-LABEL: hyc.func @forward.0
// CHECK-SAME: tensor<4x64xf8E4M3FN> {hyc.saved = "fc1.fp8.x"}
// What is measured stays open: no maximum crosses here. A flat weight is gathered once, for its measurement and for the
// product.
// CHECK-NOT: all_reduce_start {{.*}}max
// CHECK: dist.all_gather_start
// CHECK-NEXT: %[[W1:.*]] = dist.wait %{{.*}} -> tensor<64x128xbf16>
// CHECK-NEXT: hyc.abs %[[W1]] {id = "fc1.fp8.w.magnitude"}
// CHECK: hyc.accumulate max %{{.*}} into @fc1.fp8.w.amax
// CHECK-NOT: all_gather_start
// CHECK: hyc.mul %[[W1]], %{{.*}} {id = "fc1.fp8.w.scaled"}
// CHECK-NOT: all_gather_start
// CHECK: hyc.einsum "bi,io->bo" {{.*}}id = "fc1"
// CHECK-NOT: all_reduce_start {{.*}}max
// CHECK: hyc.einsum "bi,io->bo" {{.*}}id = "fc2"
// CHECK-LABEL: hyc.func @backward.0
// An open sum over dp is scaled as it is, and closed where it is added.
// CHECK: %[[DW:.*]] = hyc.einsum "bi,bo->io" {{.*}}id = "fc1.grad.rhs"
// CHECK-NOT: dist.
// CHECK: %[[SCALED:.*]] = hyc.mul {{.*}}id = "fc1.grad.rhs.fp8.result"
// CHECK-NEXT: dist.reduce_scatter_start %[[SCALED]] flat <{dp}>

// Maxima cross once a step, over all axes, whichever of them a tensor is split over.
// CHECK-LABEL: hyc.func @reduce.0
// CHECK-COUNT-5: dist.all_reduce_start max %{{.*}} over <{dp, tp}>
// CHECK-LABEL: hyc.func @apply.0
// CHECK: hyc.update_fp8_scale @fc1.fp8.x.scale, @fc1.fp8.x.inverse, @fc1.fp8.x.history amax @fc1.fp8.x.amax
