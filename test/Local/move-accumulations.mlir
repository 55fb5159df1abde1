// Gradients that are kept on the host are fetched in front of what makes their contributions, which is then added where
// they lie. Where one contribution to a state was delayed behind another one's producer, both are added to one copy: a
// second fetch between them would lose the first. What is apart is written back in between.
// RUN: hyc-opt %s --hyc-record-policies="policies=" --hyc-move-states | FileCheck %s

hyc.param @w : tensor<4xf32> from #hyc.fill<0.0 : f64>
hyc.state @w.grad of @w role "gradient" : tensor<4xf32> from #hyc.fill<0.0 : f64> {dist.placement = "host"}

// CHECK-LABEL: hyc.func @backward.0
hyc.func @backward.0(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  // CHECK-NEXT: dist.all_reduce_start
  // CHECK-NEXT: %[[W:.*]] = dist.fetch_start @w.grad to "device" {cause = "w.grad"}
  // CHECK-NEXT: dist.wait_move %[[W]]
  // CHECK-NEXT: %[[DY:.*]] = hyc.mul
  // CHECK-NEXT: %[[DX:.*]] = dist.wait
  // CHECK-NEXT: hyc.accumulate %[[DX]] into @w.grad
  // CHECK-NEXT: hyc.accumulate %[[DY]] into @w.grad
  // CHECK-NEXT: %[[E:.*]] = dist.evict_start @w.grad from "device" {cause = "w.grad"}
  // CHECK-NEXT: dist.wait_move %[[E]]
  %px = dist.all_reduce_start sum %x over #dist.group<{dp}> {cause = "w.grad"} : tensor<4xf32> -> !dist.pending<tensor<4xf32>>
  %dy = hyc.mul %y, %y : tensor<4xf32>
  %dx = dist.wait %px : !dist.pending<tensor<4xf32>> -> tensor<4xf32>
  hyc.accumulate %dx into @w.grad : tensor<4xf32>
  hyc.accumulate %dy into @w.grad : tensor<4xf32>

  // CHECK-NEXT: %[[AGAIN:.*]] = dist.fetch_start @w.grad to "device"
  // CHECK-NEXT: dist.wait_move %[[AGAIN]]
  // CHECK-NEXT: %[[DZ:.*]] = hyc.add
  // CHECK-NEXT: hyc.accumulate %[[DZ]] into @w.grad
  // CHECK-NEXT: dist.evict_start @w.grad
  %dz = hyc.add %x, %y : tensor<4xf32>
  hyc.accumulate %dz into @w.grad : tensor<4xf32>
  hyc.return
}
