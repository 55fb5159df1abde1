// Each call that writes floating-point values is followed by a check that names its op; integers are not looked at.
// RUN: hyc-opt %s --hyc-attach-optimizer="optimizer=sgd momentum=0.9" --hyc-plan-phase --hyc-local-phase --hyc-form-clusters --hyc-lower-to-rank --hyc-place-buffers --hyc-record-policies="policies=check_finite=true" --hyc-check-finite --hyc-emit-cpp="folder=%t name=m" -o /dev/null
// RUN: FileCheck %s --check-prefix=NAMES --input-file=%t/stage0.h
// RUN: FileCheck %s --check-prefix=FORWARD --input-file=%t/stage0_forward.cpp
// RUN: FileCheck %s --check-prefix=APPLY --input-file=%t/stage0_apply.cpp

hyc.param @w : tensor<16x8xf32> from #hyc.normal<mean = 0.0 : f64, stddev = 0.1 : f64>
hyc.state @w.grad of @w role "gradient" : tensor<16x8xf32> from #hyc.fill<0.0>
hyc.state @loss_sum role "loss_sum" : tensor<f32> from #hyc.fill<0.0>
hyc.state @token_count role "token_count" : tensor<i64> from #hyc.fill<0.0>
hyc.func @microbatch(%ids: tensor<2x4xi64> {hyc.input = "ids", hyc.source = "token"},
                     %labels: tensor<2x4xi64> {hyc.input = "labels", hyc.source = "next_token"}) {
  %w = hyc.read @w {id = "w.read"} : tensor<16x8xf32>
  %x = hyc.embedding %ids, %w {id = "embed"} : (tensor<2x4xi64>, tensor<16x8xf32>) -> tensor<2x4x8xf32>
  %sum, %count, %lse = hyc.cross_entropy %x, %labels {id = "loss"} : (tensor<2x4x8xf32>, tensor<2x4xi64>) -> (tensor<f32>, tensor<i64>, tensor<2x4xf32>)
  hyc.accumulate %sum into @loss_sum {id = "loss_sum.accumulate"} : tensor<f32>
  hyc.accumulate %count into @token_count {id = "token_count.accumulate"} : tensor<i64>
  %one = hyc.constant {hyc.backward, hyc.loss_seed, id = "one"} dense<1.0> : tensor<f32>
  %dx = hyc.cross_entropy_grad %one, %x, %labels, %lse {hyc.backward, id = "loss.grad"} : (tensor<f32>, tensor<2x4x8xf32>, tensor<2x4xi64>, tensor<2x4xf32>) -> tensor<2x4x8xf32>
  %dw = hyc.embedding_grad %ids, %dx {hyc.backward, id = "embed.grad"} : (tensor<2x4xi64>, tensor<2x4x8xf32>) -> tensor<16x8xf32>
  hyc.accumulate %dw into @w.grad {hyc.backward, id = "w.grad.accumulate"} : tensor<16x8xf32>
  hyc.return
}

// NAMES: #include "hycrt/finite.h"
// NAMES: enum SiteName : int {
// NAMES-NEXT: kRowSite0,
// NAMES: inline constexpr hycrt::Site kSites[] = {
// NAMES-NEXT: {"forward", "embed"},
// NAMES-NEXT: {"forward", "loss"},

// FORWARD: embedding(
// FORWARD: hycrt::checkFinite(ctx, call, kSites[kRowSite0], {{[{][{]}}f32({{.*}}), hycrt::DType::kF32, 64}},
// FORWARD-NEXT: {{[{][{]}}f32({{.*}}), hycrt::DType::kF32, 128}});
// FORWARD: crossEntropyForward(
// FORWARD: hycrt::checkFinite(ctx, call, kSites[kRowSite1],

// APPLY: sgd(
// APPLY: hycrt::checkFinite(ctx, call, kSites[kRowSite{{[0-9]+}}], {{[{][{]}}f32(
