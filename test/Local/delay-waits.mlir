// RUN: hyc-opt %s --hyc-delay-waits | FileCheck %s --check-prefixes=CHECK,ONE
// RUN: hyc-opt %s --hyc-record-policies="policies=reductions_in_flight=2" --hyc-delay-waits | FileCheck %s --check-prefixes=CHECK,TWO
// RUN: hyc-opt %s --hyc-record-policies="policies=reductions_in_flight=0" --hyc-delay-waits | FileCheck %s --check-prefixes=CHECK,NONE

// Sums of gradients are awaited where the next but n begins; what else needs a sum has it at once. Additions to one state
// keep their order: @a has a second one, which does not wait for anybody.
// CHECK-LABEL: hyc.func @backward.0
// CHECK: dist.all_reduce_start {{.*}}cause = "a"
// NONE-NEXT: dist.wait
// NONE-NEXT: hyc.accumulate
// CHECK: hyc.exp {{.*}}id = "first"
// ONE: dist.wait
// ONE-NEXT: hyc.accumulate {{.*}} into @a.grad
// CHECK: dist.all_reduce_start {{.*}}cause = "b"
// NONE-NEXT: dist.wait
// CHECK: hyc.exp {{.*}}id = "second"
// TWO: dist.wait
// TWO-NEXT: hyc.accumulate {{.*}} into @a.grad
// CHECK: hyc.accumulate %{{.*}} into @a.grad {id = "directly"}
// CHECK: dist.all_reduce_start {{.*}}cause = "needed"
// CHECK-NEXT: dist.wait
// CHECK: hyc.exp {{.*}}id = "third"
// ONE: dist.wait
// ONE-NEXT: hyc.accumulate {{.*}} into @b.grad
// TWO: dist.wait
// TWO-NEXT: hyc.accumulate {{.*}} into @b.grad
// CHECK: hyc.return
hyc.state @a.grad role "gradient" : tensor<4xf32> from #hyc.fill<0.0 : f64>
hyc.state @b.grad role "gradient" : tensor<4xf32> from #hyc.fill<0.0 : f64>
hyc.func @backward.0(%x: tensor<4xf32>) {
  %pa = dist.all_reduce_start sum %x over <{dp}> {cause = "a"} : tensor<4xf32> -> <tensor<4xf32>>
  %sa = dist.wait %pa : <tensor<4xf32>> -> tensor<4xf32>
  hyc.accumulate %sa into @a.grad : tensor<4xf32>
  %y = hyc.exp %x {id = "first"} : tensor<4xf32>
  %pb = dist.all_reduce_start sum %y over <{dp}> {cause = "b"} : tensor<4xf32> -> <tensor<4xf32>>
  %sb = dist.wait %pb : <tensor<4xf32>> -> tensor<4xf32>
  hyc.accumulate %sb into @b.grad : tensor<4xf32>
  %z = hyc.exp %y {id = "second"} : tensor<4xf32>
  hyc.accumulate %z into @a.grad {id = "directly"} : tensor<4xf32>
  %pn = dist.all_reduce_start sum %z over <{tp}> {cause = "needed"} : tensor<4xf32> -> <tensor<4xf32>>
  %n = dist.wait %pn : <tensor<4xf32>> -> tensor<4xf32>
  %t = hyc.exp %n {id = "third"} : tensor<4xf32>
  hyc.return
}
