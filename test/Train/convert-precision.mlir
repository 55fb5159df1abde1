// RUN: hyc-opt %s --hyc-differentiate --hyc-convert-precision="precision=bf16" | FileCheck %s
// RUN: hyc-opt %s --hyc-differentiate --hyc-convert-precision="precision=bf16" --hyc-attach-optimizer --hyc-verify-train | FileCheck %s --check-prefix=APPLY
// RUN: hyc-opt %s --hyc-differentiate --hyc-convert-precision="precision=fp16 gradient-accumulation-type=bf16" | FileCheck %s --check-prefix=HALF
// RUN: hyc-opt %s --hyc-differentiate --hyc-convert-precision="precision=f32" | FileCheck %s --check-prefix=SAME
// RUN: not hyc-opt %s --hyc-differentiate --hyc-convert-precision="precision=int8" 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not hyc-opt %s --hyc-differentiate --hyc-convert-precision="gradient-accumulation-type=bf16" 2>&1 | FileCheck %s --check-prefix=TYPE

hyc.param @table : tensor<8x4xf32> from #hyc.normal<mean = 0.0, stddev = 1.0>
hyc.param @scale : tensor<4xf32> from #hyc.fill<1.0>
hyc.param @bias : tensor<4xf32> from #hyc.fill<0.0>
hyc.param @w : tensor<4x8xf32> from #hyc.fill<1.0>

hyc.func @train(%ids: tensor<2x3xi64> {hyc.input = "ids", hyc.source = "token"}, %labels: tensor<2x3xi64> {hyc.input = "labels", hyc.source = "next_token"}) -> (tensor<f32>, tensor<i64>) {
  %table = hyc.read @table : tensor<8x4xf32>
  %x = hyc.embedding %ids, %table {id = "wte"} : (tensor<2x3xi64>, tensor<8x4xf32>) -> tensor<2x3x4xf32>
  %scale = hyc.read @scale : tensor<4xf32>
  %bias = hyc.read @bias : tensor<4xf32>
  %y, %mean, %rstd = hyc.layer_norm %x, %scale, %bias epsilon 1.000000e-05 {id = "ln"} : (tensor<2x3x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x3x4xf32>, tensor<2x3xf32>, tensor<2x3xf32>)
  %lowest = hyc.constant {id = "lowest"} dense<-3.40282347E+38> : tensor<2x3x4xf32>
  %z = hyc.max %y, %lowest {id = "clamp"} : tensor<2x3x4xf32>
  %e = hyc.exp %z {id = "exp"} : tensor<2x3x4xf32>
  %s = hyc.add %z, %e {id = "sum"} : tensor<2x3x4xf32>
  %w = hyc.read @w : tensor<4x8xf32>
  %logits = hyc.einsum "bsk,kv->bsv" %s, %w {id = "head"} : (tensor<2x3x4xf32>, tensor<4x8xf32>) -> tensor<2x3x8xf32>
  %loss, %count, %lse = hyc.cross_entropy %logits, %labels {id = "loss"} : (tensor<2x3x8xf32>, tensor<2x3xi64>) -> (tensor<f32>, tensor<i64>, tensor<2x3xf32>)
  hyc.return %loss, %count : tensor<f32>, tensor<i64>
}

// Gradients accumulate in f32; what is wanted in bf16 has a copy that starts as its parameter does. A norm's scale and
// bias are read from the masters, and have none.
// CHECK-DAG: hyc.state @table.grad of @table role "gradient" : tensor<8x4xf32>
// CHECK-DAG: hyc.state @table.compute of @table role "compute" : tensor<8x4xbf16> from #hyc.normal<mean = 0.000000e+00 : f64, stddev = 1.000000e+00 : f64>
// CHECK-DAG: hyc.state @w.compute of @w role "compute" : tensor<4x8xbf16> from #hyc.fill<1.000000e+00 : f64>
// CHECK-NOT: @scale.compute
// CHECK: hyc.func @microbatch
// CHECK: hyc.read @table.compute {id = "table.read"} : tensor<8x4xbf16>
// CHECK: hyc.embedding {{.*}} -> tensor<2x3x4xbf16>
// CHECK: hyc.read @scale {id = "scale.read"} : tensor<4xf32>
// CHECK: hyc.layer_norm {{.*}} : (tensor<2x3x4xbf16>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x3x4xbf16>, tensor<2x3xf32>, tensor<2x3xf32>)
// What is finite stays finite.
// CHECK: hyc.constant {id = "lowest"} dense<-3.389530e+38> : tensor<2x3x4xbf16>
// CHECK: %[[Z:.*]] = hyc.max {{.*}} {id = "clamp"} : tensor<2x3x4xbf16>
// Exponentials are wide, and so is what forward adds to them, until a product wants it narrow.
// CHECK: %[[WIDE:.*]] = hyc.convert %[[Z]] {id = "clamp.f32"} : (tensor<2x3x4xbf16>) -> tensor<2x3x4xf32>
// CHECK: hyc.exp %[[WIDE]] {id = "exp"} : tensor<2x3x4xf32>
// CHECK: %[[S:.*]] = hyc.add %[[WIDE]], {{.*}} {id = "sum"} : tensor<2x3x4xf32>
// CHECK: %[[N:.*]] = hyc.convert %[[S]] {id = "sum.bf16"}
// CHECK: hyc.einsum "bsk,kv->bsv" %[[N]], %{{.*}} {id = "head"} : (tensor<2x3x4xbf16>, tensor<4x8xbf16>) -> tensor<2x3x8xbf16>
// CHECK: hyc.cross_entropy {{.*}} : (tensor<2x3x8xbf16>, tensor<2x3xi64>) -> (tensor<f32>, tensor<i64>, tensor<2x3xf32>)
// CHECK: hyc.cross_entropy_grad {{.*}} : (tensor<f32>, tensor<2x3x8xbf16>, tensor<2x3xi64>, tensor<2x3xf32>) -> tensor<2x3x8xbf16>
// A product that is only added to the gradient is not rounded before; a cotangent is narrow.
// CHECK-DAG: hyc.einsum {{.*}}id = "head.grad.rhs"} : (tensor<2x3x4xbf16>, tensor<2x3x8xbf16>) -> tensor<4x8xf32>
// CHECK-DAG: hyc.einsum {{.*}}id = "head.grad.lhs"} : (tensor<2x3x8xbf16>, tensor<4x8xbf16>) -> tensor<2x3x4xbf16>
// CHECK: hyc.layer_norm_grad {{.*}} -> (tensor<2x3x4xbf16>, tensor<4xf32>, tensor<4xf32>)
// CHECK: hyc.embedding_grad {{.*}} : (tensor<2x3xi64>, tensor<2x3x4xbf16>) -> tensor<8x4xf32>

// APPLY: hyc.func @apply
// APPLY: hyc.adamw @table,
// APPLY-NEXT: hyc.refresh @table.compute from @table {id = "table.refresh"}
// APPLY: hyc.adamw @scale,
// APPLY-NEXT: hyc.adamw @bias,
// APPLY-NEXT: hyc.adamw @w,
// APPLY-NEXT: hyc.refresh @w.compute from @w

// HALF-DAG: hyc.state @w.grad of @w role "gradient" : tensor<4x8xbf16>
// HALF-DAG: hyc.state @w.compute of @w role "compute" : tensor<4x8xf16>
// HALF: %[[DW:.*]] = hyc.einsum {{.*}}id = "head.grad.rhs"} : (tensor<2x3x4xf16>, tensor<2x3x8xf16>) -> tensor<4x8xf32>
// HALF: %[[ROUNDED:.*]] = hyc.convert %[[DW]] {hyc.backward, id = "head.grad.rhs.bf16"} : (tensor<4x8xf32>) -> tensor<4x8xbf16>
// HALF: hyc.accumulate %[[ROUNDED]] into @w.grad

// SAME-NOT: bf16

// NAME: error: --precision is "int8", expected f32, bf16 or fp16
// TYPE: error: --gradient-accumulation-type is "bf16", but --precision is f32
