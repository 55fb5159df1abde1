// LAMB's direction runs on the host, where its moments are fetched to. The norms and the step that follow find on the
// device what the direction has used there: a parameter that only the direction was read for goes back too. A parameter
// on a disk is fetched for each of the three, and never while another one has it.
// RUN: hyc-opt %s --hyc-record-policies="policies=sub_group_size=4" --hyc-move-states | FileCheck %s

hyc.param @a : tensor<4xf32> from #hyc.fill<0.0 : f64>
hyc.state @a.grad of @a role "gradient" : tensor<4xf32> from #hyc.fill<0.0 : f64>
hyc.state @a.m of @a role "lamb.m" : tensor<4xf32> from #hyc.fill<0.0 : f64> {dist.placement = "nvme"}
hyc.state @a.v of @a role "lamb.v" : tensor<4xf32> from #hyc.fill<0.0 : f64> {dist.placement = "nvme"}
hyc.param @b : tensor<4xf32> from #hyc.fill<0.0 : f64> {dist.placement = "nvme"}
hyc.state @b.grad of @b role "gradient" : tensor<4xf32> from #hyc.fill<0.0 : f64>
hyc.state @b.m of @b role "lamb.m" : tensor<4xf32> from #hyc.fill<0.0 : f64> {dist.placement = "host"}
hyc.state @b.v of @b role "lamb.v" : tensor<4xf32> from #hyc.fill<0.0 : f64> {dist.placement = "host"}

// CHECK-LABEL: hyc.func @moments
hyc.func @moments(%lr: tensor<f32>, %t: tensor<i64>) {
  // CHECK: %[[M:.*]] = dist.fetch_start @a.m to "host"
  // CHECK-NEXT: %[[V:.*]] = dist.fetch_start @a.v to "host"
  // CHECK-NEXT: %[[W:.*]] = dist.fetch_start @a to "host"
  // CHECK-NEXT: %[[G:.*]] = dist.fetch_start @a.grad to "host"
  // CHECK-NEXT: dist.wait_move %[[W]]
  // CHECK-NEXT: dist.wait_move %[[G]]
  // CHECK-NEXT: dist.wait_move %[[M]]
  // CHECK-NEXT: dist.wait_move %[[V]]
  // CHECK-NEXT: hyc.lamb_direction @a
  // CHECK-NEXT: %[[WE:.*]] = dist.evict_start @a from "host"
  // CHECK-NEXT: %[[GE:.*]] = dist.evict_start @a.grad from "host"
  // CHECK-NEXT: dist.wait_move %[[WE]]
  // CHECK-NEXT: dist.wait_move %[[GE]]
  // CHECK-NEXT: %[[ME:.*]] = dist.evict_start @a.m from "host"
  // CHECK-NEXT: %[[VE:.*]] = dist.evict_start @a.v from "host"
  // CHECK-NEXT: hyc.sum_of_squares [@a]
  // CHECK-NEXT: hyc.sum_of_squares [@a.grad]
  // CHECK-NEXT: hyc.trust_ratio
  // CHECK-NEXT: hyc.lamb @a
  // CHECK-NEXT: dist.wait_move %[[ME]]
  // CHECK-NEXT: dist.wait_move %[[VE]]
  // CHECK-NEXT: hyc.return
  hyc.lamb_direction @a, @a.grad, @a.m, @a.v step %t scale %lr {beta1 = 0.9, beta2 = 0.999, epsilon = 1.0e-6, weight_decay = 0.0} : tensor<i64>, tensor<f32>
  %p = hyc.sum_of_squares [@a] : tensor<f64>
  %u = hyc.sum_of_squares [@a.grad] : tensor<f64>
  %r = hyc.trust_ratio %p, %u {least = 0.01, most = 10.0} : (tensor<f64>, tensor<f64>) -> tensor<f64>
  hyc.lamb @a, @a.grad lr %lr ratio %r : tensor<f32>, tensor<f64>
  hyc.return
}

// CHECK-LABEL: hyc.func @parameter
hyc.func @parameter(%lr: tensor<f32>, %t: tensor<i64>) {
  // CHECK: %[[W:.*]] = dist.fetch_start @b to "host"
  // CHECK-NEXT: %[[G:.*]] = dist.fetch_start @b.grad to "host"
  // CHECK-NEXT: dist.wait_move %[[G]]
  // CHECK-NEXT: dist.wait_move %[[W]]
  // CHECK-NEXT: hyc.lamb_direction @b
  // CHECK-NEXT: %[[GE:.*]] = dist.evict_start @b.grad from "host"
  // CHECK-NEXT: dist.wait_move %[[GE]]
  // CHECK-NEXT: %[[WS:.*]] = dist.fetch_start @b to "host"
  // CHECK-NEXT: dist.wait_move %[[WS]]
  // CHECK-NEXT: hyc.sum_of_squares [@b]
  // CHECK-NEXT: hyc.sum_of_squares [@b.grad]
  // CHECK-NEXT: hyc.trust_ratio
  // CHECK-NEXT: %[[WU:.*]] = dist.fetch_start @b to "host"
  // CHECK-NEXT: %[[GU:.*]] = dist.fetch_start @b.grad to "host"
  // CHECK-NEXT: dist.wait_move %[[GU]]
  // CHECK-NEXT: dist.wait_move %[[WU]]
  // CHECK-NEXT: hyc.lamb @b
  // CHECK-NEXT: %[[WE:.*]] = dist.evict_start @b from "host"
  // CHECK-NEXT: dist.wait_move %[[WE]]
  // CHECK-NEXT: hyc.return
  hyc.lamb_direction @b, @b.grad, @b.m, @b.v step %t scale %lr {beta1 = 0.9, beta2 = 0.999, epsilon = 1.0e-6, weight_decay = 0.0} : tensor<i64>, tensor<f32>
  %p = hyc.sum_of_squares [@b] : tensor<f64>
  %u = hyc.sum_of_squares [@b.grad] : tensor<f64>
  %r = hyc.trust_ratio %p, %u {least = 0.01, most = 10.0} : (tensor<f64>, tensor<f64>) -> tensor<f64>
  hyc.lamb @b, @b.grad lr %lr ratio %r : tensor<f32>, tensor<f64>
  hyc.return
}
