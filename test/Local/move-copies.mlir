// A master on the host beside its 16-bit copy: the update and the refresh after it run on the host, and what moves is the
// gradient and the copy. Ranks that update slices of a whole copy move theirs.
// RUN: hyc-opt %s --hyc-record-policies="policies=sub_group_size=4" --hyc-move-states | FileCheck %s

hyc.param @w : tensor<4xf32> from #hyc.fill<0.0 : f64> {dist.placement = "host"}
hyc.state @w.compute of @w role "compute" : tensor<4xbf16> from #hyc.fill<0.0 : f64>
hyc.state @w.grad of @w role "gradient" : tensor<4xf32> from #hyc.fill<0.0 : f64>
hyc.param @v : tensor<4xf32> from #hyc.fill<0.0 : f64> {dist.placement = "nvme"}
hyc.state @v.compute of @v role "compute" : tensor<4xbf16> from #hyc.fill<0.0 : f64> {dist.placement = "host"}
hyc.state @v.grad of @v role "gradient" : tensor<4xf32> from #hyc.fill<0.0 : f64> {dist.placement = "host"}

// A copy that is kept elsewhere is fetched for its use.
// CHECK-LABEL: hyc.func @forward.0
hyc.func @forward.0() -> (tensor<4xbf16>, tensor<4xbf16>) {
  // CHECK-NEXT: hyc.read @w.compute
  // CHECK-NEXT: %[[V:.*]] = dist.fetch_start @v.compute to "device" {cause = "v.compute"}
  // CHECK-NEXT: dist.wait_move %[[V]]
  // CHECK-NEXT: hyc.read @v.compute
  %w = hyc.read @w.compute : tensor<4xbf16>
  %v = hyc.read @v.compute : tensor<4xbf16>
  hyc.return %w, %v : tensor<4xbf16>, tensor<4xbf16>
}

// CHECK-LABEL: hyc.func @apply.0
hyc.func @apply.0(%lr: tensor<f32> {hyc.scalar = "lr"}) {
  // CHECK-NEXT: %[[V:.*]] = dist.fetch_start @v to "host" {cause = "v.update"}
  // CHECK-NEXT: %[[WG:.*]] = dist.fetch_start @w.grad to "host"
  // CHECK-NEXT: %[[WC:.*]] = dist.fetch_start @w.compute to "host" {cause = "w.update"}
  // CHECK-NEXT: dist.wait_move %[[WG]]
  // CHECK-NEXT: dist.wait_move %[[WC]]
  // CHECK-NEXT: hyc.sgd @w
  // CHECK-NEXT: hyc.refresh @w.compute from @w
  // CHECK-NEXT: %[[WE:.*]] = dist.evict_start @w.compute from "host"
  // CHECK-NEXT: dist.wait_move %[[WE]]
  // CHECK-NEXT: dist.wait_move %[[V]]
  // CHECK-NEXT: hyc.sgd @v
  // CHECK-NEXT: hyc.refresh @v.compute from @v
  // CHECK-NEXT: %[[VE:.*]] = dist.evict_start @v from "host"
  // CHECK-NEXT: dist.wait_move %[[VE]]
  // CHECK-NEXT: hyc.return
  hyc.sgd @w, @w.grad lr %lr scale %lr {momentum = 0.0, weight_decay = 0.0} : tensor<f32>, tensor<f32>
  hyc.refresh @w.compute from @w
  hyc.sgd @v, @v.grad lr %lr scale %lr {momentum = 0.0, weight_decay = 0.0} : tensor<f32>, tensor<f32>
  hyc.refresh @v.compute from @v
  hyc.return
}
