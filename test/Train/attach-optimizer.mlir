// RUN: hyc-opt %s --hyc-attach-optimizer="weight-decay=0.1 clip-grad-norm=1.0 no-decay=bias$" | FileCheck %s
// RUN: hyc-opt %s --hyc-attach-optimizer="optimizer=sgd momentum=0.9" | FileCheck %s --check-prefix=SGD
// RUN: hyc-opt %s --hyc-attach-optimizer="optimizer=sgd" | FileCheck %s --check-prefix=PLAIN
// RUN: not hyc-opt %s --hyc-attach-optimizer="beta1=1.0" 2>&1 | FileCheck %s --check-prefix=BETA
// RUN: hyc-opt %s --hyc-attach-optimizer="optimizer=adam weight-decay=0.1 correct-bias=false" | FileCheck %s --check-prefix=ADAM
// RUN: hyc-opt %s --hyc-attach-optimizer="optimizer=lion beta2=0.99" | FileCheck %s --check-prefix=LION
// RUN: hyc-opt %s --hyc-attach-optimizer="optimizer=lamb least-trust=0.5 most-trust=2" | FileCheck %s --check-prefix=LAMB
// RUN: hyc-opt %s --hyc-attach-optimizer="optimizer=adamw cycle-momentum" | FileCheck %s --check-prefix=CYCLE
// RUN: not hyc-opt %s --hyc-attach-optimizer="optimizer=sgd cycle-momentum" 2>&1 | FileCheck %s --check-prefix=NOCYCLE
// RUN: not hyc-opt %s --hyc-attach-optimizer="least-trust=2 most-trust=1" 2>&1 | FileCheck %s --check-prefix=TRUST
// RUN: not hyc-opt %s --hyc-attach-optimizer="optimizer=adagrad" 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not hyc-opt %s --hyc-attach-optimizer="no-decay=(" 2>&1 | FileCheck %s --check-prefix=REGEX

hyc.param @fc.weight : tensor<3x4xf32> from #hyc.fill<0.0>
hyc.param @fc.bias : tensor<4xf32> from #hyc.fill<0.0>
hyc.state @token_count role "token_count" : tensor<i64> from #hyc.fill<0.0>
hyc.state @fc.weight.grad of @fc.weight role "gradient" : tensor<3x4xf32> from #hyc.fill<0.0>
hyc.state @fc.bias.grad of @fc.bias role "gradient" : tensor<4xf32> from #hyc.fill<0.0>
hyc.func @microbatch() {
  hyc.return
}

// CHECK: hyc.state @grad_norm role "grad_norm" : tensor<f32>
// CHECK: hyc.state @step role "step" : tensor<i64>
// CHECK: hyc.state @fc.weight.adam.m of @fc.weight role "adam.m" : tensor<3x4xf32>
// CHECK: hyc.state @fc.weight.adam.v of @fc.weight role "adam.v" : tensor<3x4xf32>
// CHECK: hyc.func @apply(%[[LR:.*]]: tensor<f32> {hyc.scalar = "lr"}) {
// CHECK-NEXT: %[[SS:.*]] = hyc.sum_of_squares [@fc.weight.grad, @fc.bias.grad] {id = "apply.sum_of_squares"} : tensor<f64>
// CHECK-NEXT: %[[COUNT:.*]] = hyc.read @token_count {id = "apply.count"} : tensor<i64>
// CHECK-NEXT: %[[SCALE:.*]], %[[NORM:.*]] = hyc.gradient_scale %[[SS]], %[[COUNT]] max_norm 1.0{{.*}} {id = "apply.scale"}
// CHECK-NEXT: hyc.write %[[NORM]] into @grad_norm {id = "apply.norm"}
// CHECK-NEXT: %[[T:.*]] = hyc.increment @step {id = "apply.step"} : tensor<i64>
// CHECK-NEXT: hyc.adamw @fc.weight, @fc.weight.grad, @fc.weight.adam.m, @fc.weight.adam.v lr %[[LR]] step %[[T]] scale %[[SCALE]]
// CHECK-SAME: id = "fc.weight.update", weight_decay = 1.000000e-01 : f64
// CHECK-NEXT: hyc.adamw @fc.bias,
// CHECK-SAME: id = "fc.bias.update", weight_decay = 0.000000e+00 : f64
// CHECK-NEXT: hyc.return

// SGD: hyc.state @fc.bias.momentum of @fc.bias role "sgd.momentum"
// SGD: hyc.gradient_scale %{{[^ ]*}}, %{{[^ ]*}} {id = "apply.scale"}
// SGD: hyc.sgd @fc.weight, @fc.weight.grad velocity @fc.weight.momentum lr %{{.*}} scale %{{.*}}momentum = 9.000000e-01
// PLAIN-NOT: role "sgd.momentum"
// PLAIN: hyc.sgd @fc.weight, @fc.weight.grad lr

// BETA: error: --beta1 is 1.000000, expected at least 0 and below 1
// ADAM: hyc.adam @fc.weight, @fc.weight.grad, @fc.weight.adam.m, @fc.weight.adam.v lr {{.*}} id = "fc.weight.update", uncorrected, weight_decay = 1.0

// LION: hyc.state @fc.weight.lion.m of @fc.weight role "lion.m"
// LION-NOT: role "adam
// LION: hyc.lion @fc.weight, @fc.weight.grad, @fc.weight.lion.m lr %{{.*}} scale %{{.*}}beta2 = 0.98{{9+}}

// LAMB: hyc.state @fc.weight.lamb.m of @fc.weight role "lamb.m"
// LAMB: hyc.state @fc.weight.lamb.v of @fc.weight role "lamb.v"
// LAMB: hyc.lamb_direction @fc.weight, @fc.weight.grad, @fc.weight.lamb.m, @fc.weight.lamb.v step %{{.*}} scale %{{.*}}id = "fc.weight.direction"
// LAMB-NEXT: %[[P:.*]] = hyc.sum_of_squares [@fc.weight] {id = "fc.weight.param_squares"} : tensor<f64>
// LAMB-NEXT: %[[U:.*]] = hyc.sum_of_squares [@fc.weight.grad] {id = "fc.weight.direction_squares"} : tensor<f64>
// LAMB-NEXT: %[[R:.*]] = hyc.trust_ratio %[[P]], %[[U]] {id = "fc.weight.trust_ratio", least = 5.000000e-01 : f64, most = 2.000000e+00 : f64}
// LAMB-NEXT: hyc.lamb @fc.weight, @fc.weight.grad lr %{{.*}} ratio %[[R]] {id = "fc.weight.update"}

// CYCLE: hyc.func @apply(%[[LR:.*]]: tensor<f32> {hyc.scalar = "lr"}, %[[M:.*]]: tensor<f64> {hyc.scalar = "momentum"}) {
// CYCLE: hyc.adamw @fc.weight, {{.*}} lr %[[LR]] step %{{.*}} scale %{{.*}} momentum %[[M]] : tensor<f64>
// NOCYCLE: error: --optimizer is "sgd", whose momentum does not cycle
// TRUST: error: the trust ratio is bounded by 2.000000 and 1.000000, expected 0 ≤ least ≤ most

// NAME: error: --optimizer is "adagrad", expected adamw, adam, lamb, lion or sgd
// REGEX: error: --no-decay pattern "(" is no regular expression
