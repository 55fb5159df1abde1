// RUN: hyc-opt %s --hyc-rank-phase | FileCheck %s

// Equal kernels are one kernel; a kernel that only backward uses stands beside it.
// CHECK-DAG: rank.kernel @gelu_tanh_512 space [512]
// CHECK-DAG: rank.kernel @gelu_tanh_grad_sum_16x32 space [16, 32] reduced [0] strides {{.*}} results [f32, f32]
// CHECK: rank.program @stage0 stage 0 slots 1
// CHECK-DAG: rank.arena @activations bytes [[BYTES:[0-9]+]] lower_bound [[BYTES]]
// CHECK-DAG: rank.arena @gradients bytes 51328 lower_bound 51328
// CHECK-DAG: rank.state @fc1.weight "parameter" of "fc1.weight" in @parameters at 16384
// CHECK-DAG: rank.input @labels source "next_token" bound 256 in @feeds

// CHECK: rank.func @forward()
// The bias is added by the product.
// CHECK: rank.gemm {{.*}} bias {{.*}}id = "fc1", k = 16 {{.*}}m = 16 {{.*}}n = 32
// CHECK: rank.launch @gelu_tanh_512
// CHECK: rank.call "cross_entropy"
// CHECK: rank.call "accumulate" {{.*}}mode = #rank<mode first>

// CHECK: rank.func @backward()
// The logits' record becomes their gradient, and products add to the gradients' state.
// CHECK: [[LOGITS:%.+]] = rank.at @activations {{[0-9]+}} {id = "fc2"}
// CHECK: rank.call "cross_entropy_grad" [[LOGITS]] = {{%.+}}, [[LOGITS]],
// CHECK: [[GRAD:%.+]] = rank.at @gradients {{.*}}"fc2.weight.grad"
// CHECK: rank.gemm [[GRAD]] = {{.*}}mode = #rank<mode first>, n = 256 : i64, trans_a
// The gradient of gelu is made in place, and its sum over the tokens, the bias's gradient, with it.
// CHECK: [[DBIAS:%.+]] = rank.at @gradients {{.*}}"fc1.bias.grad"
// CHECK: rank.launch @gelu_tanh_grad_sum_16x32 [[DH:%.+]], [[DBIAS]] = [[DH]], {{.*}}mode = #rank<mode first>

// CHECK: rank.func @apply()
// CHECK-COUNT-4: rank.call "sum_of_squares"
// CHECK: rank.call "gradient_scale"
// CHECK: rank.call "increment"
// CHECK-COUNT-4: rank.call "adamw"

// A token model of one stage: embedding, linear with bias, gelu, linear, cross_entropy; AdamW.
dist.mesh @mesh axes ["dp", "tp"] sizes [1, 1] stages 1 batch <{dp}> tensor <{tp}>
dist.schedule stage 0 slots 1 [#dist.do<begin_step>, #dist.do<forward micro_batch 0 slot 0>, #dist.do<backward micro_batch 0 slot 0>,
  #dist.do<forward micro_batch 1 slot 0>, #dist.do<backward micro_batch 1 slot 0>, #dist.do<reduce>, #dist.do<apply>]

hyc.param @wte : tensor<256x16xf32> from #hyc.normal<mean = 0.0 : f64, stddev = 0.1 : f64>
hyc.param @fc1.weight : tensor<16x32xf32> from #hyc.normal<mean = 0.0 : f64, stddev = 0.1 : f64>
hyc.param @fc1.bias : tensor<32xf32> from #hyc.fill<0.0 : f64>
hyc.param @fc2.weight : tensor<32x256xf32> from #hyc.normal<mean = 0.0 : f64, stddev = 0.1 : f64>
hyc.state @wte.grad of @wte role "gradient" : tensor<256x16xf32> from #hyc.fill<0.0 : f64>
hyc.state @fc1.weight.grad of @fc1.weight role "gradient" : tensor<16x32xf32> from #hyc.fill<0.0 : f64>
hyc.state @fc1.bias.grad of @fc1.bias role "gradient" : tensor<32xf32> from #hyc.fill<0.0 : f64>
hyc.state @fc2.weight.grad of @fc2.weight role "gradient" : tensor<32x256xf32> from #hyc.fill<0.0 : f64>
hyc.state @wte.adam.m of @wte role "adam.m" : tensor<256x16xf32> from #hyc.fill<0.0 : f64>
hyc.state @wte.adam.v of @wte role "adam.v" : tensor<256x16xf32> from #hyc.fill<0.0 : f64>
hyc.state @fc1.weight.adam.m of @fc1.weight role "adam.m" : tensor<16x32xf32> from #hyc.fill<0.0 : f64>
hyc.state @fc1.weight.adam.v of @fc1.weight role "adam.v" : tensor<16x32xf32> from #hyc.fill<0.0 : f64>
hyc.state @fc1.bias.adam.m of @fc1.bias role "adam.m" : tensor<32xf32> from #hyc.fill<0.0 : f64>
hyc.state @fc1.bias.adam.v of @fc1.bias role "adam.v" : tensor<32xf32> from #hyc.fill<0.0 : f64>
hyc.state @fc2.weight.adam.m of @fc2.weight role "adam.m" : tensor<32x256xf32> from #hyc.fill<0.0 : f64>
hyc.state @fc2.weight.adam.v of @fc2.weight role "adam.v" : tensor<32x256xf32> from #hyc.fill<0.0 : f64>
hyc.state @loss_sum role "loss_sum" : tensor<f32> from #hyc.fill<0.0 : f64>
hyc.state @token_count role "token_count" : tensor<i64> from #hyc.fill<0.0 : f64>
hyc.state @step role "step" : tensor<i64> from #hyc.fill<0.0 : f64>
hyc.state @grad_norm role "grad_norm" : tensor<f32> from #hyc.fill<0.0 : f64>

hyc.func @forward.0(%ids: tensor<2x8xi64> {hyc.input = "input_ids", hyc.source = "token"},
                    %labels: tensor<2x8xi64> {hyc.input = "labels", hyc.source = "next_token"})
    -> (tensor<2x8x16xf32> {hyc.saved = "embed"}, tensor<2x8x32xf32> {hyc.saved = "fc1"}, tensor<2x8x32xf32> {hyc.saved = "act"},
        tensor<2x8x256xf32> {hyc.saved = "fc2"}, tensor<2x8xf32> {hyc.saved = "loss.lse"}) attributes {dist.stage = 0 : i64} {
  %wte = hyc.read @wte : tensor<256x16xf32>
  %x = hyc.embedding %ids, %wte {id = "embed"} : (tensor<2x8xi64>, tensor<256x16xf32>) -> tensor<2x8x16xf32>
  %w1 = hyc.read @fc1.weight : tensor<16x32xf32>
  %b1 = hyc.read @fc1.bias : tensor<32xf32>
  %p = hyc.einsum "bsk,kn->bsn" %x, %w1 {id = "fc1"} : (tensor<2x8x16xf32>, tensor<16x32xf32>) -> tensor<2x8x32xf32>
  %bb = hyc.broadcast %b1 [2] : (tensor<32xf32>) -> tensor<2x8x32xf32>
  %h = hyc.add %p, %bb {id = "fc1.bias"} : tensor<2x8x32xf32>
  %a = hyc.gelu tanh %h {id = "act"} : tensor<2x8x32xf32>
  %w2 = hyc.read @fc2.weight : tensor<32x256xf32>
  %y = hyc.einsum "bsk,kn->bsn" %a, %w2 {id = "fc2"} : (tensor<2x8x32xf32>, tensor<32x256xf32>) -> tensor<2x8x256xf32>
  %loss, %count, %lse = hyc.cross_entropy %y, %labels {id = "loss"} : (tensor<2x8x256xf32>, tensor<2x8xi64>) -> (tensor<f32>, tensor<i64>, tensor<2x8xf32>)
  hyc.accumulate %loss into @loss_sum : tensor<f32>
  hyc.accumulate %count into @token_count : tensor<i64>
  hyc.return %x, %h, %a, %y, %lse : tensor<2x8x16xf32>, tensor<2x8x32xf32>, tensor<2x8x32xf32>, tensor<2x8x256xf32>, tensor<2x8xf32>
}
hyc.func @backward.0(%ids: tensor<2x8xi64> {hyc.input = "input_ids", hyc.source = "token"},
                     %labels: tensor<2x8xi64> {hyc.input = "labels", hyc.source = "next_token"},
                     %x: tensor<2x8x16xf32> {hyc.saved = "embed"}, %h: tensor<2x8x32xf32> {hyc.saved = "fc1"}, %a: tensor<2x8x32xf32> {hyc.saved = "act"},
                     %y: tensor<2x8x256xf32> {hyc.saved = "fc2"}, %lse: tensor<2x8xf32> {hyc.saved = "loss.lse"}) attributes {dist.stage = 0 : i64} {
  %one = hyc.constant dense<1.0> : tensor<f32>
  %dy = hyc.cross_entropy_grad %one, %y, %labels, %lse {id = "loss.grad"} : (tensor<f32>, tensor<2x8x256xf32>, tensor<2x8xi64>, tensor<2x8xf32>) -> tensor<2x8x256xf32>
  %dw2 = hyc.einsum "bsk,bsn->kn" %a, %dy {id = "fc2.grad.rhs"} : (tensor<2x8x32xf32>, tensor<2x8x256xf32>) -> tensor<32x256xf32>
  hyc.accumulate %dw2 into @fc2.weight.grad : tensor<32x256xf32>
  %w2 = hyc.read @fc2.weight : tensor<32x256xf32>
  %da = hyc.einsum "bsn,kn->bsk" %dy, %w2 {id = "fc2.grad.lhs"} : (tensor<2x8x256xf32>, tensor<32x256xf32>) -> tensor<2x8x32xf32>
  %dh = hyc.gelu_grad tanh %da, %h {id = "act.grad"} : tensor<2x8x32xf32>
  %db1 = hyc.reduce sum %dh [0, 1] {id = "fc1.bias.grad"} : (tensor<2x8x32xf32>) -> tensor<32xf32>
  hyc.accumulate %db1 into @fc1.bias.grad : tensor<32xf32>
  %dw1 = hyc.einsum "bsk,bsn->kn" %x, %dh {id = "fc1.grad.rhs"} : (tensor<2x8x16xf32>, tensor<2x8x32xf32>) -> tensor<16x32xf32>
  hyc.accumulate %dw1 into @fc1.weight.grad : tensor<16x32xf32>
  %w1 = hyc.read @fc1.weight : tensor<16x32xf32>
  %dx = hyc.einsum "bsn,kn->bsk" %dh, %w1 {id = "fc1.grad.lhs"} : (tensor<2x8x32xf32>, tensor<16x32xf32>) -> tensor<2x8x16xf32>
  %dwte = hyc.embedding_grad %ids, %dx {id = "embed.grad"} : (tensor<2x8xi64>, tensor<2x8x16xf32>) -> tensor<256x16xf32>
  hyc.accumulate %dwte into @wte.grad : tensor<256x16xf32>
  hyc.return
}
hyc.func @reduce.0() attributes {dist.stage = 0 : i64} {
  hyc.return
}
hyc.func @apply.0(%lr: tensor<f32> {hyc.scalar = "lr"}) attributes {dist.stage = 0 : i64} {
  %ss = hyc.sum_of_squares [@wte.grad, @fc1.weight.grad, @fc1.bias.grad, @fc2.weight.grad] : tensor<f64>
  %count = hyc.read @token_count : tensor<i64>
  %scale, %norm = hyc.gradient_scale %ss, %count max_norm 1.0 : (tensor<f64>, tensor<i64>) -> (tensor<f32>, tensor<f32>)
  hyc.write %norm into @grad_norm : tensor<f32>
  %t = hyc.increment @step : tensor<i64>
  hyc.adamw @wte, @wte.grad, @wte.adam.m, @wte.adam.v lr %lr step %t scale %scale {beta1 = 0.9 : f64, beta2 = 0.999 : f64, epsilon = 1.0e-8 : f64, weight_decay = 0.01 : f64} : tensor<f32>, tensor<i64>, tensor<f32>
  hyc.adamw @fc1.weight, @fc1.weight.grad, @fc1.weight.adam.m, @fc1.weight.adam.v lr %lr step %t scale %scale {beta1 = 0.9 : f64, beta2 = 0.999 : f64, epsilon = 1.0e-8 : f64, weight_decay = 0.01 : f64} : tensor<f32>, tensor<i64>, tensor<f32>
  hyc.adamw @fc1.bias, @fc1.bias.grad, @fc1.bias.adam.m, @fc1.bias.adam.v lr %lr step %t scale %scale {beta1 = 0.9 : f64, beta2 = 0.999 : f64, epsilon = 1.0e-8 : f64, weight_decay = 0.0 : f64} : tensor<f32>, tensor<i64>, tensor<f32>
  hyc.adamw @fc2.weight, @fc2.weight.grad, @fc2.weight.adam.m, @fc2.weight.adam.v lr %lr step %t scale %scale {beta1 = 0.9 : f64, beta2 = 0.999 : f64, epsilon = 1.0e-8 : f64, weight_decay = 0.01 : f64} : tensor<f32>, tensor<i64>, tensor<f32>
  hyc.return
}
