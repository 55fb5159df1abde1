// The calls of a turn are functions of 32 at most, as straight code is.
// RUN: hyc-opt %s --hyc-attach-optimizer="optimizer=sgd" --hyc-plan-phase --hyc-local-phase --hyc-form-clusters --hyc-lower-to-rank --hyc-place-buffers --hyc-emit-cpp="folder=%t name=m" -o /dev/null
// RUN: FileCheck %s --input-file=%t/stage0_forward.cpp

hyc.param @w : tensor<2x8xf32> from #hyc.normal<mean = 0.0 : f64, stddev = 0.1 : f64>
hyc.state @w.grad of @w role "gradient" : tensor<2x8xf32> from #hyc.fill<0.0>
hyc.state @loss_sum role "loss_sum" : tensor<f32> from #hyc.fill<0.0>
hyc.state @token_count role "token_count" : tensor<i64> from #hyc.fill<0.0>
// CHECK: static void forwardTurn1({{.*}}const int64_t turn) {
// CHECK-NEXT: std::byte* const activations =
// CHECK-COUNT-32: {{^}}  cumSum({{.*}}
// CHECK-NOT: cumSum(
// CHECK: static void forwardTurn2({{.*}}const int64_t turn) {
// CHECK: // s33:
// CHECK-NEXT: cumSum(
// CHECK: // s34:
// CHECK-NEXT: cumSum({{.*}} + turn % 2 * -64
// CHECK: {{^}}}
// CHECK: {{^}}static void forward
// CHECK: for (int64_t turn = 0; turn < 3; ++turn) {
// CHECK-NEXT: {{^}}    forwardTurn1(ctx, call, turn);
// CHECK-NEXT: {{^}}    forwardTurn2(ctx, call, turn);
// CHECK-NEXT: {{^}}  }
hyc.func @microbatch(%labels: tensor<2xi64> {hyc.input = "labels", hyc.source = "next_token"}) {
  %w = hyc.read @w {id = "w.read"} : tensor<2x8xf32>
  %last = hyc.scan 4 init(%w) attributes {id = "rnn"} : (tensor<2x8xf32>) -> tensor<2x8xf32> {
  ^bb0(%h: tensor<2x8xf32>):
    %1 = hyc.cumsum %h dim 0 {id = "s1"} : tensor<2x8xf32>  %2 = hyc.cumsum %1 dim 0 {id = "s2"} : tensor<2x8xf32>
    %3 = hyc.cumsum %2 dim 0 {id = "s3"} : tensor<2x8xf32>  %4 = hyc.cumsum %3 dim 0 {id = "s4"} : tensor<2x8xf32>
    %5 = hyc.cumsum %4 dim 0 {id = "s5"} : tensor<2x8xf32>  %6 = hyc.cumsum %5 dim 0 {id = "s6"} : tensor<2x8xf32>
    %7 = hyc.cumsum %6 dim 0 {id = "s7"} : tensor<2x8xf32>  %8 = hyc.cumsum %7 dim 0 {id = "s8"} : tensor<2x8xf32>
    %9 = hyc.cumsum %8 dim 0 {id = "s9"} : tensor<2x8xf32>  %10 = hyc.cumsum %9 dim 0 {id = "s10"} : tensor<2x8xf32>
    %11 = hyc.cumsum %10 dim 0 {id = "s11"} : tensor<2x8xf32>  %12 = hyc.cumsum %11 dim 0 {id = "s12"} : tensor<2x8xf32>
    %13 = hyc.cumsum %12 dim 0 {id = "s13"} : tensor<2x8xf32>  %14 = hyc.cumsum %13 dim 0 {id = "s14"} : tensor<2x8xf32>
    %15 = hyc.cumsum %14 dim 0 {id = "s15"} : tensor<2x8xf32>  %16 = hyc.cumsum %15 dim 0 {id = "s16"} : tensor<2x8xf32>
    %17 = hyc.cumsum %16 dim 0 {id = "s17"} : tensor<2x8xf32>  %18 = hyc.cumsum %17 dim 0 {id = "s18"} : tensor<2x8xf32>
    %19 = hyc.cumsum %18 dim 0 {id = "s19"} : tensor<2x8xf32>  %20 = hyc.cumsum %19 dim 0 {id = "s20"} : tensor<2x8xf32>
    %21 = hyc.cumsum %20 dim 0 {id = "s21"} : tensor<2x8xf32>  %22 = hyc.cumsum %21 dim 0 {id = "s22"} : tensor<2x8xf32>
    %23 = hyc.cumsum %22 dim 0 {id = "s23"} : tensor<2x8xf32>  %24 = hyc.cumsum %23 dim 0 {id = "s24"} : tensor<2x8xf32>
    %25 = hyc.cumsum %24 dim 0 {id = "s25"} : tensor<2x8xf32>  %26 = hyc.cumsum %25 dim 0 {id = "s26"} : tensor<2x8xf32>
    %27 = hyc.cumsum %26 dim 0 {id = "s27"} : tensor<2x8xf32>  %28 = hyc.cumsum %27 dim 0 {id = "s28"} : tensor<2x8xf32>
    %29 = hyc.cumsum %28 dim 0 {id = "s29"} : tensor<2x8xf32>  %30 = hyc.cumsum %29 dim 0 {id = "s30"} : tensor<2x8xf32>
    %31 = hyc.cumsum %30 dim 0 {id = "s31"} : tensor<2x8xf32>  %32 = hyc.cumsum %31 dim 0 {id = "s32"} : tensor<2x8xf32>
    %33 = hyc.cumsum %32 dim 0 {id = "s33"} : tensor<2x8xf32>  %34 = hyc.cumsum %33 dim 0 {id = "s34"} : tensor<2x8xf32>
    hyc.yield %34 : tensor<2x8xf32>
  }
  %sum, %count, %lse = hyc.cross_entropy %last, %labels {id = "loss"} : (tensor<2x8xf32>, tensor<2xi64>) -> (tensor<f32>, tensor<i64>, tensor<2xf32>)
  hyc.accumulate %sum into @loss_sum {id = "loss_sum.accumulate"} : tensor<f32>
  hyc.accumulate %count into @token_count {id = "token_count.accumulate"} : tensor<i64>
  hyc.return
}
