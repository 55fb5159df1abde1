// The module that evaluates has the parameters of the one that trains. @mean is kept in f32 alone, so the evaluation converts
// what it reads of it; @w it reads where training keeps it in bf16. Its step ends with the sums: @apply is empty.
// RUN: hyc-opt %s --split-input-file --verify-diagnostics --hyc-share-parameters | FileCheck %s
// RUN: hyc-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(hyc-share-parameters,builtin.module(hyc-convert-precision{precision=bf16}))' | FileCheck %s --check-prefix=BF16

// CHECK: module @evaluate attributes {hyc.entry = "evaluate"} {
// CHECK: hyc.param @w : tensor<4xf32> from #hyc.fill<5.000000e-01 : f64> frozen{{$}}
// CHECK: hyc.param @mean : tensor<4xf32> from #hyc.fill<0.000000e+00 : f64> frozen {hyc.uncopied}
// CHECK: hyc.func @apply() {
// CHECK-NEXT: hyc.return

// BF16: module @evaluate
// BF16: hyc.state @w.compute of @w role "compute"
// BF16-NOT: @mean.compute
// BF16: hyc.read @w.compute {{.*}} : tensor<4xbf16>
// BF16: %[[MEAN:.*]] = hyc.read @mean {{.*}} : tensor<4xf32>
// BF16: hyc.convert %[[MEAN]] {{.*}}tensor<4xf32>{{.*}}tensor<4xbf16>
hyc.param @w : tensor<4xf32> from #hyc.fill<0.5 : f64>
hyc.param @mean : tensor<4xf32> from #hyc.fill<0.0 : f64> frozen
hyc.state @w.compute of @w role "compute" : tensor<4xbf16> from #hyc.fill<0.5 : f64>
module @evaluate attributes {hyc.entry = "evaluate"} {
  hyc.param @w : tensor<4xf32> from #hyc.fill<0.5 : f64> frozen
  hyc.param @mean : tensor<4xf32> from #hyc.fill<0.0 : f64> frozen
  hyc.state @loss_sum role "loss_sum" : tensor<f32> from #hyc.fill<0.0 : f64>
  hyc.func @microbatch(%x: tensor<2x4xf32> {hyc.input = "x"}) {
    %w = hyc.read @w {id = "w.read"} : tensor<4xf32>
    %mean = hyc.read @mean {id = "mean.read"} : tensor<4xf32>
    %y = hyc.einsum "ik,k->i" %x, %w {id = "y"} : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2xf32>
    %m = hyc.einsum "ik,k->i" %x, %mean {id = "m"} : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2xf32>
    %z = hyc.add %y, %m {id = "z"} : tensor<2xf32>
    %sum = hyc.reduce sum %z [0] {id = "sum"} : (tensor<2xf32>) -> tensor<f32>
    hyc.accumulate %sum into @loss_sum {id = "loss_sum.accumulate"} : tensor<f32>
    hyc.return
  }
}

// -----

hyc.param @w : tensor<4xf32> from #hyc.fill<0.5 : f64>
module @evaluate attributes {hyc.entry = "evaluate"} {
  // expected-error@+1 {{has parameter @w of type 'tensor<2x2xf32>', the one that is trained has it as 'tensor<4xf32>'; compile them apart}}
  hyc.param @w : tensor<2x2xf32> from #hyc.fill<0.5 : f64> frozen
}

// -----

hyc.param @w : tensor<4xf32> from #hyc.fill<0.5 : f64>
module @evaluate attributes {hyc.entry = "evaluate"} {
  // expected-error@+1 {{has parameter @v of type 'tensor<4xf32>', the one that is trained has none of that name}}
  hyc.param @v : tensor<4xf32> from #hyc.fill<0.5 : f64> frozen
}
