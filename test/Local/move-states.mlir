// Updates of states on a disk: group 1 is read while group 0 runs, and group 0 is written while group 1 does. What is on
// the device is copied to the host and back. A parameter on the host is fetched for a read, and updated where it is.
// RUN: hyc-opt %s --hyc-record-policies="policies=sub_group_size=4" --hyc-move-states | FileCheck %s

hyc.param @a : tensor<4xf32> from #hyc.fill<0.0 : f64>
hyc.state @a.grad of @a role "gradient" : tensor<4xf32> from #hyc.fill<0.0 : f64>
hyc.state @a.b of @a role "sgd.momentum" : tensor<4xf32> from #hyc.fill<0.0 : f64> {dist.placement = "nvme"}
hyc.param @c : tensor<4xf32> from #hyc.fill<0.0 : f64> {dist.placement = "host"}
hyc.state @c.grad of @c role "gradient" : tensor<4xf32> from #hyc.fill<0.0 : f64>
hyc.state @c.b of @c role "sgd.momentum" : tensor<4xf32> from #hyc.fill<0.0 : f64> {dist.placement = "nvme"}

// CHECK-LABEL: hyc.func @forward.0
hyc.func @forward.0() -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK-NOT: fetch_start @a
  // CHECK: %[[C:.*]] = dist.fetch_start @c to "device" {cause = "c"}
  // CHECK-NEXT: dist.wait_move %[[C]]
  // CHECK-NEXT: hyc.read @c
  %a = hyc.read @a : tensor<4xf32>
  %c = hyc.read @c : tensor<4xf32>
  hyc.return %a, %c : tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL: hyc.func @apply.0
hyc.func @apply.0(%lr: tensor<f32> {hyc.scalar = "lr"}) {
  // CHECK: %[[AB:.*]] = dist.fetch_start @a.b to "host" {cause = "a.update"}
  // CHECK-NEXT: %[[CB:.*]] = dist.fetch_start @c.b to "host" {cause = "c.update"}
  // CHECK-NEXT: %[[A:.*]] = dist.fetch_start @a to "host"
  // CHECK-NEXT: %[[AG:.*]] = dist.fetch_start @a.grad to "host"
  // CHECK-NEXT: dist.wait_move %[[A]]
  // CHECK-NEXT: dist.wait_move %[[AG]]
  // CHECK-NEXT: dist.wait_move %[[AB]]
  // CHECK-NEXT: hyc.sgd @a
  // CHECK-NEXT: %[[AE:.*]] = dist.evict_start @a from "host"
  // CHECK-NEXT: dist.wait_move %[[AE]]
  // CHECK-NEXT: %[[ABE:.*]] = dist.evict_start @a.b from "host"
  // CHECK-NEXT: %[[CG:.*]] = dist.fetch_start @c.grad to "host"
  // CHECK-NEXT: dist.wait_move %[[CG]]
  // CHECK-NEXT: dist.wait_move %[[CB]]
  // CHECK-NEXT: hyc.sgd @c
  // CHECK-NEXT: dist.wait_move %[[ABE]]
  // CHECK-NEXT: %[[CBE:.*]] = dist.evict_start @c.b from "host"
  // CHECK-NEXT: dist.wait_move %[[CBE]]
  // CHECK-NEXT: hyc.return
  hyc.sgd @a, @a.grad velocity @a.b lr %lr scale %lr {momentum = 0.9, weight_decay = 0.0} : tensor<f32>, tensor<f32>
  hyc.sgd @c, @c.grad velocity @c.b lr %lr scale %lr {momentum = 0.9, weight_decay = 0.0} : tensor<f32>, tensor<f32>
  hyc.return
}
