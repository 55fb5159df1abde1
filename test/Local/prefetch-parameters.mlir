// RUN: hyc-opt %s --hyc-prefetch-parameters | FileCheck %s --check-prefixes=CHECK,FAR
// RUN: hyc-opt %s --hyc-record-policies="policies=stage3_max_live_parameters=8192" --hyc-prefetch-parameters | FileCheck %s --check-prefixes=CHECK,NEAR
// RUN: hyc-opt %s --hyc-record-policies="policies=stage3_prefetch_bucket_size=4096" --hyc-prefetch-parameters | FileCheck %s --check-prefixes=CHECK,NEAR
// RUN: hyc-opt %s --hyc-record-policies="policies=stage3_prefetch_bucket_size=4095" --hyc-prefetch-parameters | FileCheck %s --check-prefixes=CHECK,NONE
// RUN: hyc-opt %s --hyc-record-policies="policies=stage3_max_live_parameters=4096" --hyc-prefetch-parameters | FileCheck %s --check-prefixes=CHECK,NONE

dist.mesh @mesh axes ["dp"] sizes [2] stages 1 batch <{dp}>
hyc.param @a : tensor<2048xf32> from #hyc.fill<0.0 : f64> {global_type = tensor<64x64xf32>}
hyc.param @b : tensor<2048xf32> from #hyc.fill<0.0 : f64> {global_type = tensor<64x64xf32>}
hyc.param @c : tensor<2048xf32> from #hyc.fill<0.0 : f64> {global_type = tensor<64x64xf32>}

// A gather starts before the wait of the gather two uses earlier, or as early as the limits in elements allow: of all that is
// there at one moment, and of what is there before its use.
// CHECK-LABEL: hyc.func @forward.0
// CHECK: dist.all_gather_start {{.*}}cause = "use of a"
// FAR: dist.all_gather_start {{.*}}cause = "use of b"
// FAR: dist.all_gather_start {{.*}}cause = "use of c"
// FAR: dist.wait
// FAR: hyc.exp
// NEAR: dist.all_gather_start {{.*}}cause = "use of b"
// NEAR: dist.wait
// NEAR: hyc.exp
// NEAR: dist.all_gather_start {{.*}}cause = "use of c"
// NEAR: dist.wait
// NEAR: hyc.exp
// NONE: dist.wait
// NONE: hyc.exp
// NONE: dist.all_gather_start {{.*}}cause = "use of b"
// NONE: dist.wait
// NONE: hyc.exp
// NONE: dist.all_gather_start {{.*}}cause = "use of c"
hyc.func @forward.0() {
  %a = hyc.read @a : tensor<2048xf32>
  %pa = dist.all_gather_start %a flat <{dp}> over <{dp}> {cause = "use of a", dist.prefetch = 2 : i64} : tensor<2048xf32> -> !dist.pending<tensor<64x64xf32>>
  %wa = dist.wait %pa : !dist.pending<tensor<64x64xf32>> -> tensor<64x64xf32>
  %xa = hyc.exp %wa : tensor<64x64xf32>
  %b = hyc.read @b : tensor<2048xf32>
  %pb = dist.all_gather_start %b flat <{dp}> over <{dp}> {cause = "use of b", dist.prefetch = 2 : i64} : tensor<2048xf32> -> !dist.pending<tensor<64x64xf32>>
  %wb = dist.wait %pb : !dist.pending<tensor<64x64xf32>> -> tensor<64x64xf32>
  %xb = hyc.exp %wb : tensor<64x64xf32>
  %c = hyc.read @c : tensor<2048xf32>
  %pc = dist.all_gather_start %c flat <{dp}> over <{dp}> {cause = "use of c", dist.prefetch = 2 : i64} : tensor<2048xf32> -> !dist.pending<tensor<64x64xf32>>
  %wc = dist.wait %pc : !dist.pending<tensor<64x64xf32>> -> tensor<64x64xf32>
  %xc = hyc.exp %wc : tensor<64x64xf32>
  hyc.return
}
