// A scan becomes a loop whose addresses go on with the turn, checks for finite values included. Numbers that
// index something are compared by the loader, as they are outside of a scan.
// RUN: hyc-opt %s --hyc-attach-optimizer="optimizer=sgd" --hyc-plan-phase --hyc-local-phase --hyc-form-clusters --hyc-lower-to-rank --hyc-place-buffers --hyc-record-policies="policies=check_finite=true" --hyc-check-finite --hyc-emit-cpp="folder=%t name=m" -o /dev/null
// RUN: FileCheck %s --input-file=%t/stage0_forward.cpp

hyc.param @w : tensor<16x8xf32> from #hyc.normal<mean = 0.0 : f64, stddev = 0.1 : f64>
hyc.state @w.grad of @w role "gradient" : tensor<16x8xf32> from #hyc.fill<0.0>
hyc.state @loss_sum role "loss_sum" : tensor<f32> from #hyc.fill<0.0>
hyc.state @token_count role "token_count" : tensor<i64> from #hyc.fill<0.0>
// CHECK: for (int64_t turn = 0; turn < 3; ++turn) {
// CHECK-NEXT: // rnn.x: table (16, 8)
// CHECK-NEXT: embedding({.tokens = 2, .rows = 16, .width = 8}, i64(feeds + {{[0-9]+}} + turn * 16), f32(parameters + 0),
// CHECK: // rnn.add
// CHECK-NEXT: kernels::add_16(f32(activations + [[FIRST:[0-9]+]] + turn % 2 * 64), {{.*}}, f32(activations + {{[0-9]+}} + turn % 2 * -64));
// CHECK: hycrt::checkFinite({{.*}}turn
// CHECK: {{^  }}}
hyc.func @microbatch(%ids: tensor<4x2xi64> {hyc.input = "ids", hyc.source = "token"},
                     %labels: tensor<2xi64> {hyc.input = "labels", hyc.source = "next_token"}) {
  %w = hyc.read @w {id = "w.read"} : tensor<16x8xf32>
  %zero = hyc.constant {id = "zero"} dense<0.0> : tensor<2x8xf32>
  %last = hyc.scan 4 init(%zero) over(%ids) with(%w) attributes {id = "rnn"} : (tensor<2x8xf32>, tensor<4x2xi64>, tensor<16x8xf32>) -> tensor<2x8xf32> {
  ^bb0(%h: tensor<2x8xf32>, %each: tensor<2xi64>, %table: tensor<16x8xf32>):
    %x = hyc.embedding %each, %table {id = "rnn.x"} : (tensor<2xi64>, tensor<16x8xf32>) -> tensor<2x8xf32>
    %next = hyc.add %h, %x {id = "rnn.add"} : tensor<2x8xf32>
    hyc.yield %next : tensor<2x8xf32>
  }
  %sum, %count, %lse = hyc.cross_entropy %last, %labels {id = "loss"} : (tensor<2x8xf32>, tensor<2xi64>) -> (tensor<f32>, tensor<i64>, tensor<2xf32>)
  hyc.accumulate %sum into @loss_sum {id = "loss_sum.accumulate"} : tensor<f32>
  hyc.accumulate %count into @token_count {id = "token_count.accumulate"} : tensor<i64>
  hyc.return
}
