// RUN: hyc-opt %s --hyc-lower-to-rank | FileCheck %s

dist.mesh @mesh axes ["dp", "tp"] sizes [1, 2] stages 1 batch <{dp}> tensor <{tp}>
dist.schedule stage 0 slots 1 [#dist.do<begin_step>, #dist.do<forward micro_batch 0 slot 0>, #dist.do<backward micro_batch 0 slot 0>,
  #dist.do<reduce>, #dist.do<apply>]
hyc.param @w : tensor<8x24xf32> from #hyc.fill<0.5 : f64> {shape = array<i64: 8, 48>, global_type = tensor<8x48xf32>, dist.sharding = #dist.sharding<[{}, {tp}]>}
hyc.state @w.grad of @w role "gradient" : tensor<8x24xf32> from #hyc.fill<0.0 : f64> {global_type = tensor<8x48xf32>, dist.sharding = #dist.sharding<[{}, {tp}]>}

// What one rank holds of the whole, and how it is split.
// CHECK: rank.program @stage0
// CHECK: rank.arena @communication shared
// CHECK: rank.state @w "parameter" of "w" in @parameters : !rank.buffer<8x24xf32> logical [8, 48] global [8, 48]
// CHECK-SAME: splits [#dist.axes<{}>, #dist.axes<{tp}>]
// CHECK: rank.state @w.grad "gradient" of "w" in @gradients
// CHECK: rank.collective @partial.all_reduce {{[0-9]+}} "all_reduce" over <{tp}> cause "partial" why "partial {tp}"
// CHECK: rank.record @qkv in @activations : !rank.buffer<2x4x3x2x4xf32>

hyc.func @forward.0(%x: tensor<2x4x8xf32> {hyc.input = "x", hyc.source = "token"}) -> (tensor<2x4x8xf32> {hyc.saved = "y"}, tensor<2x4x1x2x4xf32> {hyc.saved = "qkv"}) {
  // CHECK-LABEL: rank.func @forward()
  // CHECK: %[[QKV:.*]] = rank.address @qkv
  // CHECK: rank.gemm %[[QKV]] = {{.*}}id = "qkv", k = 8 : i64, lda = 8 : i64, ldb = 24 : i64, ldc = 24 : i64, m = 8 : i64, n = 24 : i64
  %w = hyc.read @w : tensor<8x24xf32>
  %w5 = hyc.reshape %w : (tensor<8x24xf32>) -> tensor<8x3x2x4xf32>
  %qkv = hyc.einsum "bsk,kthd->bsthd" %x, %w5 {id = "qkv"} : (tensor<2x4x8xf32>, tensor<8x3x2x4xf32>) -> tensor<2x4x3x2x4xf32>
  // Parts of a split are views of the whole, and attention takes their strides.
  // CHECK-DAG: %[[Q:.*]] = rank.view %[[QKV]] + 0 {{.*}} to <2x4x2x4xf32, strides [96, 24, 4, 1]>
  // CHECK-DAG: %[[K:.*]] = rank.view %[[QKV]] + 8 {{.*}} to <2x4x2x4xf32, strides [96, 24, 4, 1]>
  // CHECK-DAG: %[[V:.*]] = rank.view %[[QKV]] + 16 {{.*}} to <2x4x2x4xf32, strides [96, 24, 4, 1]>
  // CHECK: rank.call "attention" {{.*}} = %[[Q]], %[[K]], %[[V]]
  %q5, %k5, %v5 = hyc.split %qkv dim 2 : (tensor<2x4x3x2x4xf32>) -> (tensor<2x4x1x2x4xf32>, tensor<2x4x1x2x4xf32>, tensor<2x4x1x2x4xf32>)
  %q = hyc.reshape %q5 : (tensor<2x4x1x2x4xf32>) -> tensor<2x4x2x4xf32>
  %k = hyc.reshape %k5 : (tensor<2x4x1x2x4xf32>) -> tensor<2x4x2x4xf32>
  %v = hyc.reshape %v5 : (tensor<2x4x1x2x4xf32>) -> tensor<2x4x2x4xf32>
  %o, %lse = hyc.attention causal %q, %k, %v scale 0.5 {id = "attn"} : (tensor<2x4x2x4xf32>, tensor<2x4x2x4xf32>, tensor<2x4x2x4xf32>) -> (tensor<2x4x2x4xf32>, tensor<2x2x4xf32>)
  // An operand that only the exchange reads is made in shared memory and combined where it lies.
  // CHECK: %[[P:.*]] = rank.address @y : <2x4x8xf32>
  // CHECK: rank.gemm %[[P]] = {{.*}}id = "partial"
  // CHECK: %[[ROW:.*]] = rank.row @partial.all_reduce
  // CHECK: %[[T:.*]] = rank.start "all_reduce" "sum" %[[ROW]], %[[P]] count 64
  // CHECK: rank.wait %[[T]]
  %o3 = hyc.reshape %o : (tensor<2x4x2x4xf32>) -> tensor<2x4x8xf32>
  %wp = hyc.slice %w offsets [0, 0] strides [1, 1] : (tensor<8x24xf32>) -> tensor<8x8xf32>
  %y = hyc.einsum "bsk,kn->bsn" %o3, %wp {id = "partial"} : (tensor<2x4x8xf32>, tensor<8x8xf32>) -> tensor<2x4x8xf32>
  %t = dist.all_reduce_start sum %y over #dist.group<{tp}> {cause = "partial", why = "partial {tp}"} : tensor<2x4x8xf32> -> !dist.pending<tensor<2x4x8xf32>>
  %r = dist.wait %t : !dist.pending<tensor<2x4x8xf32>> -> tensor<2x4x8xf32>
  hyc.return %r, %q5 : tensor<2x4x8xf32>, tensor<2x4x1x2x4xf32>
}
hyc.func @backward.0(%x: tensor<2x4x8xf32> {hyc.input = "x", hyc.source = "token"}, %y: tensor<2x4x8xf32> {hyc.saved = "y"}, %q5: tensor<2x4x1x2x4xf32> {hyc.saved = "qkv"}) {
  // CHECK-LABEL: rank.func @backward()
  // A saved slice is found again in the record of the whole.
  // CHECK: %[[REC:.*]] = rank.address @qkv : <2x4x3x2x4xf32>
  // CHECK: rank.view %[[REC]] + 0 {{.*}} to <2x4x1x2x4xf32, strides [96, 24, 8, 4, 1]>
  // Parts of a concatenation are written where they belong.
  // CHECK: %[[WHOLE:.*]] = rank.alloc @activations {id = "joined"} : <8x24xf32>
  // CHECK: %[[LEFT:.*]] = rank.view %[[WHOLE]] + 0 {{.*}} to <8x8xf32, strides [24, 1]>
  // CHECK: rank.gemm %[[LEFT]] = {{.*}}id = "left", {{.*}}ldc = 24
  // CHECK: %[[RIGHT:.*]] = rank.view %[[WHOLE]] + 8 {{.*}} to <8x16xf32, strides [24, 1]>
  // CHECK: rank.gemm %[[RIGHT]] = {{.*}}id = "right", {{.*}}ldc = 24
  // CHECK-NOT: strided_copy
  // The sum of gradients is added by the kernel that makes it: overwriting in the first micro-batch, then adding.
  // CHECK: %[[GRAD:.*]] = rank.address @w.grad
  // CHECK: rank.gemm %[[GRAD]] = {{.*}}id = "dw", {{.*}}mode = #rank<mode first>{{.*}}trans_a
  // CHECK: rank.gemm {{.*}}id = "dw2", {{.*}}mode = #rank<mode add>
  // Letters that do not lie in one group are permuted first.
  // CHECK: %[[DENSE:.*]] = rank.alloc @activations {id = "permuted"} : <2x8x4xf32>
  // CHECK: rank.call "strided_copy" %[[DENSE]]
  // CHECK: rank.gemm {{.*}} = %[[DENSE]], {{.*}}id = "permuted", k = 4 : i64, {{.*}}m = 16
  %f = hyc.reshape %y : (tensor<2x4x8xf32>) -> tensor<8x8xf32>
  %q = hyc.reshape %q5 : (tensor<2x4x1x2x4xf32>) -> tensor<8x8xf32>
  %g = hyc.reshape %x : (tensor<2x4x8xf32>) -> tensor<8x8xf32>
  %left = hyc.einsum "ka,kb->ab" %f, %g {id = "left"} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %w = hyc.read @w : tensor<8x24xf32>
  %w16 = hyc.slice %w offsets [0, 8] strides [1, 1] : (tensor<8x24xf32>) -> tensor<8x16xf32>
  %right = hyc.einsum "ak,kb->ab" %g, %w16 {id = "right"} : (tensor<8x8xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  %joined = hyc.concat %left, %right dim 1 {id = "joined"} : (tensor<8x8xf32>, tensor<8x16xf32>) -> tensor<8x24xf32>
  %dw = hyc.einsum "ka,kb->ab" %q, %joined {id = "dw"} : (tensor<8x8xf32>, tensor<8x24xf32>) -> tensor<8x24xf32>
  hyc.accumulate %dw into @w.grad : tensor<8x24xf32>
  %dw2 = hyc.einsum "ka,kb->ab" %f, %joined {id = "dw2"} : (tensor<8x8xf32>, tensor<8x24xf32>) -> tensor<8x24xf32>
  hyc.accumulate %dw2 into @w.grad : tensor<8x24xf32>
  %pair = hyc.constant dense<1.0> : tensor<4x5xf32>
  %z = hyc.einsum "bsk,sn->bkn" %x, %pair {id = "permuted"} : (tensor<2x4x8xf32>, tensor<4x5xf32>) -> tensor<2x8x5xf32>
  hyc.return
}
hyc.func @reduce.0() {
  hyc.return
}
hyc.func @apply.0(%lr: tensor<f32> {hyc.scalar = "lr"}) {
  hyc.return
}
