// The model's outputs go to states, and a step is one forward; nothing trains.
// RUN: hyc-opt %s --hyc-make-forward-program --hyc-verify-local | FileCheck %s
// RUN: hyc-opt %s --hyc-make-forward-program --hyc-rank-phase | FileCheck %s --check-prefix=RANK

// CHECK: dist.mesh @mesh axes [] sizes [] stages 1
// CHECK: hyc.state @y role "output" : tensor<4xf32>
// CHECK: hyc.state @x_0 role "output" : tensor<4xf32>
// CHECK: hyc.func @forward.0(%[[X:.*]]: tensor<4xf32> {hyc.input = "x"}) {{.*}}{
// CHECK-NEXT: %[[E:.*]] = hyc.exp %[[X]]
// CHECK-NEXT: hyc.write %[[E]] into @y
// CHECK-NEXT: hyc.write %[[X]] into @x_0
// CHECK-NEXT: hyc.return
// CHECK: hyc.func @backward.0()
// CHECK: hyc.func @reduce.0()
// CHECK: hyc.func @apply.0()
// CHECK: dist.schedule stage 0 slots 1 [#dist.do<begin_step>, #dist.do<forward micro_batch 0 slot 0>]

// RANK: rank.state @y "output"
// RANK: rank.func @forward()
// RANK: rank.launch @exp_4
hyc.param @x : tensor<2xf32> from #hyc.fill<0.0 : f64>
hyc.func @train(%x: tensor<4xf32> {hyc.input = "x"}) -> (tensor<4xf32> {hyc.output = "y"}, tensor<4xf32> {hyc.output = "x"}) {
  %0 = hyc.exp %x {id = "exp"} : tensor<4xf32>
  hyc.return %0, %x : tensor<4xf32>, tensor<4xf32>
}
