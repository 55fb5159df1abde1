// A part of the model is trained: what matches `train`, without what matches `freeze`. What the model has frozen stays so.
// RUN: hyc-opt %s --hyc-freeze-parameters="train=^h\. freeze=bias" | FileCheck %s
// RUN: hyc-opt %s --hyc-freeze-parameters="freeze=wte,^h.1" | FileCheck %s --check-prefix=FREEZE
// RUN: hyc-opt %s --hyc-freeze-parameters | FileCheck %s --check-prefix=ALL
// RUN: hyc-opt %s --hyc-freeze-parameters="adapted" | FileCheck %s --check-prefix=ADAPTED
// RUN: not hyc-opt %s --hyc-freeze-parameters="train=h.0.wieght" 2>&1 | FileCheck %s --check-prefix=TYPO
// RUN: not hyc-opt %s --hyc-freeze-parameters="freeze=(" 2>&1 | FileCheck %s --check-prefix=REGEX
// RUN: not hyc-opt %s --hyc-freeze-parameters="freeze=.*" 2>&1 | FileCheck %s --check-prefix=NONE

// TYPO: error: --train pattern "h.0.wieght" matches no parameter; the nearest is "h.0.weight"
// REGEX: error: --freeze pattern "(" is no regular expression: at character 2: expected ')'
// NONE: error: --train and --freeze leave no parameter to train

// CHECK: @wte {{.*}} frozen
// FREEZE: @wte {{.*}} frozen
// ALL: @wte
// ALL-NOT: frozen
// ALL: @table {{.*}} frozen
// ADAPTED-COUNT-5: frozen
hyc.param @wte : tensor<4xf32> from #hyc.fill<0.0 : f64>
// CHECK: @h.0.weight : tensor<4xf32> from #hyc.fill<0.000000e+00 : f64>{{$}}
// FREEZE: @h.0.weight : tensor<4xf32> from #hyc.fill<0.000000e+00 : f64>{{$}}
hyc.param @h.0.weight : tensor<4xf32> from #hyc.fill<0.0 : f64>
// CHECK: @h.0.bias {{.*}} frozen
hyc.param @h.0.bias : tensor<4xf32> from #hyc.fill<0.0 : f64>
// CHECK: @h.1.weight : tensor<4xf32> from #hyc.fill<0.000000e+00 : f64>{{$}}
// FREEZE: @h.1.weight {{.*}} frozen
hyc.param @h.1.weight : tensor<4xf32> from #hyc.fill<0.0 : f64>
// CHECK: @table {{.*}} frozen
hyc.param @table : tensor<4xf32> from #hyc.fill<0.0 : f64> frozen
