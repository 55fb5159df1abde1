// Each optimizer's kernel, as the emitted update calls it.
// RUN: hyc-opt %s --hyc-attach-optimizer="optimizer=adam weight-decay=0.1 correct-bias=false" --hyc-plan-phase --hyc-local-phase --hyc-rank-phase --hyc-emit-cpp="folder=%t.adam name=m" -o /dev/null
// RUN: FileCheck %s --check-prefix=ADAM --input-file=%t.adam/stage0_apply.cpp
// RUN: hyc-opt %s --hyc-attach-optimizer="optimizer=lion weight-decay=0.1" --hyc-plan-phase --hyc-local-phase --hyc-rank-phase --hyc-emit-cpp="folder=%t.lion name=m" -o /dev/null
// RUN: FileCheck %s --check-prefix=LION --input-file=%t.lion/stage0_apply.cpp
// RUN: hyc-opt %s --hyc-attach-optimizer="optimizer=lamb cycle-momentum" --hyc-plan-phase --hyc-local-phase --hyc-rank-phase --hyc-emit-cpp="folder=%t.lamb name=m" -o /dev/null
// RUN: FileCheck %s --check-prefix=LAMB --input-file=%t.lamb/stage0_apply.cpp
// RUN: FileCheck %s --check-prefix=TABLE --input-file=%t.lamb/stage0.cpp
// RUN: hyc-opt %s --hyc-scale-loss=initial-scale=16 --hyc-attach-optimizer="optimizer=lamb cycle-momentum" --hyc-plan-phase --hyc-local-phase --hyc-rank-phase --hyc-emit-cpp="folder=%t.scaled name=m" -o /dev/null
// RUN: FileCheck %s --check-prefix=SCALED --input-file=%t.scaled/stage0_apply.cpp

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

// ADAM: // w: (16, 8)
// ADAM-NEXT: adamw({.lr = *f32(feeds + {{[0-9]+}}), .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-08, .weightDecay = 0.1,
// ADAM-NEXT: .step = *i64({{.*}}), .gradScale = *f32({{.*}}), .decay = DecayKind::kAddedToGradient,
// ADAM-NEXT: .correctsBias = false}, 128, f32(parameters + 0), f32(gradients + {{[0-9]+}}),

// LION: // w: (16, 8)
// LION-NEXT: lion({.lr = *f32({{.*}}), .beta1 = 0.9, .beta2 = 0.999, .weightDecay = 0.1, .gradScale = *f32(

// LAMB: // w: (16, 8)
// LAMB-NEXT: lambDirection({.beta1 = *f64(feeds + [[MOMENTUM:[0-9]+]]), .beta2 = 0.999,
// LAMB: sumOfSquares(f32(parameters + 0), 128, i64([[LIMBS:.*]]), WriteMode::kOverwrite);
// LAMB-NEXT: hycrt::mark(ctx);
// LAMB-NEXT: *f64(feeds + [[P:[0-9]+]]) = roundExactSum(i64([[LIMBS]]));
// LAMB-NEXT: hycrt::mark(ctx);
// LAMB-NEXT: sumOfSquares(f32(gradients + {{[0-9]+}}), 128, i64([[LIMBS]]), WriteMode::kOverwrite);
// LAMB-NEXT: hycrt::mark(ctx);
// LAMB-NEXT: *f64(feeds + [[U:[0-9]+]]) = roundExactSum(i64([[LIMBS]]));
// LAMB: *f64(feeds + [[R:[0-9]+]]) = trustRatio({.least = 0.01, .most = 1e+01}, *f64(feeds + [[P]]), *f64(feeds + [[U]]));
// LAMB: lambUpdate(*f32(feeds + {{[0-9]+}}) * *f64(feeds + [[R]]), 128, f32(parameters + 0), f32(gradients + {{[0-9]+}}));

// A step that overflows leaves moments, gradient and parameter alone.
// SCALED: if (*[[HAPPENS:.*\)]]) lambDirection({.beta1 = *f64(feeds + {{[0-9]+}}), .beta2 = 0.999,
// SCALED: if (*[[HAPPENS]]) lambUpdate(

// TABLE: {kFeeds, {{[0-9]+}}}},  // loss sum, token count, gradient norm; loss scale, hysteresis, applied steps; momentum
