// RUN: hyc-opt %s --hyc-differentiate --hyc-scale-loss --hyc-attach-optimizer --hyc-verify-train | FileCheck %s
// RUN: hyc-opt %s --hyc-differentiate --hyc-scale-loss=initial-scale=128 --hyc-attach-optimizer="loss-scale-window=0 optimizer=sgd" | FileCheck %s --check-prefix=FIXED
// RUN: not hyc-opt %s --hyc-differentiate --hyc-scale-loss=initial-scale=0.5 2>&1 | FileCheck %s --check-prefix=RANGE
// RUN: not hyc-opt %s --hyc-differentiate --hyc-scale-loss --hyc-attach-optimizer="hysteresis=0" 2>&1 | FileCheck %s --check-prefix=HYSTERESIS

hyc.param @w : tensor<4x8xf32> from #hyc.fill<1.0>

hyc.func @train(%x: tensor<2x3x4xf32> {hyc.input = "x", hyc.source = "token"}, %labels: tensor<2x3xi64> {hyc.input = "labels", hyc.source = "next_token"}) -> (tensor<f32>, tensor<i64>) {
  %w = hyc.read @w : tensor<4x8xf32>
  %logits = hyc.einsum "bsk,kv->bsv" %x, %w {id = "head"} : (tensor<2x3x4xf32>, tensor<4x8xf32>) -> tensor<2x3x8xf32>
  %loss, %count, %lse = hyc.cross_entropy %logits, %labels {id = "loss"} : (tensor<2x3x8xf32>, tensor<2x3xi64>) -> (tensor<f32>, tensor<i64>, tensor<2x3xf32>)
  hyc.return %loss, %count : tensor<f32>, tensor<i64>
}

// Six positions: the next power of two is 8.
// CHECK-DAG: hyc.state @loss_scale role "loss_scale" : tensor<f32> from #hyc.fill<6.553600e+04 : f64> {hyc.normalizer = 8.000000e+00 : f64}
// CHECK-DAG: hyc.state @loss_scale.good_steps role "loss_scale.good_steps" : tensor<i64> from #hyc.fill<0.000000e+00 : f64>
// CHECK-DAG: hyc.state @loss_scale.hysteresis role "loss_scale.hysteresis" : tensor<i64> from #hyc.fill<2.000000e+00 : f64>
// CHECK-DAG: hyc.state @applied_step role "applied_step" : tensor<i64>
// CHECK: hyc.func @microbatch
// CHECK: %[[SCALE:.*]] = hyc.read @loss_scale {hyc.backward, id = "loss.grad.seed.scale"} : tensor<f32>
// CHECK-NEXT: %[[SHARE:.*]] = hyc.constant {hyc.backward, id = "loss.grad.seed.share"} dense<1.250000e-01> : tensor<f32>
// CHECK-NEXT: %[[SEED:.*]] = hyc.mul %[[SCALE]], %[[SHARE]] {hyc.backward, hyc.loss_seed, id = "loss.grad.seed"} : tensor<f32>
// CHECK-NEXT: hyc.cross_entropy_grad %[[SEED]],
// CHECK: hyc.func @apply
// CHECK: %[[SS:.*]] = hyc.sum_of_squares
// CHECK: %[[NOW:.*]] = hyc.read @loss_scale {id = "apply.loss_scale"} : tensor<f32>
// CHECK: %[[MAGNITUDE:.*]] = hyc.abs %[[SS]]
// CHECK: %[[FINITE:.*]] = hyc.compare lt %[[MAGNITUDE]], %{{.*}} {id = "apply.finite"} : (tensor<f64>, tensor<f64>) -> tensor<i1>
// CHECK: hyc.gradient_scale %[[SS]], %{{.*}} loss_scale %[[NOW]] over 8.000000e+00
// CHECK: hyc.increment @step {id = "apply.step"} : tensor<i64>
// CHECK: %[[T:.*]] = hyc.increment @applied_step if %[[FINITE]] {id = "apply.applied_step"} : tensor<i64>
// CHECK: hyc.update_loss_scale @loss_scale, @loss_scale.good_steps, @loss_scale.hysteresis finite %[[FINITE]]
// CHECK-SAME: hysteresis = 2 : i64, id = "apply.loss_scale.update", min_scale = 1.000000e+00 : f64, window = 1000 : i64
// CHECK: hyc.adamw @w, {{.*}} step %[[T]] scale %{{.*}} if %[[FINITE]]

// FIXED-NOT: good_steps
// FIXED: hyc.state @loss_scale role "loss_scale" : tensor<f32> from #hyc.fill<1.280000e+02 : f64>
// FIXED-NOT: hyc.update_loss_scale
// FIXED: hyc.sgd @w, @w.grad lr %{{.*}} scale %{{.*}} if %{{.*}}

// RANGE: error: the loss scale is 0.500000, expected a number from 1 to 2^126
// HYSTERESIS: error: --hysteresis is 0.000000, expected at least 1
