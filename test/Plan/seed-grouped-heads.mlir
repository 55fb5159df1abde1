// RUN: hyc-opt %s --hyc-create-mesh="tp=2" --hyc-seed-shardings --hyc-propagate-shardings | FileCheck %s
// RUN: hyc-opt %s --hyc-create-mesh="tp=4" --hyc-seed-shardings --hyc-propagate-shardings --hyc-partition | FileCheck %s --check-prefix=MORE
// RUN: hyc-opt %s --hyc-create-mesh="tp=3" --hyc-seed-shardings -verify-diagnostics -o %t

// Four query heads over two key heads: what splits the key heads splits the query heads that share them. Of more ranks
// than key heads several have the same key head: tp is cut, and key heads are split over the first part of it alone.
// MORE: dist.mesh @mesh axes ["dp", "tp0", "tp1"] sizes [1, 2, 2] parents ["", "tp", "tp"] {{.*}} tensor <{tp0, tp1}>
// MORE: hyc.param @q : tensor<1x8x16xf32> {{.*}} {dist.sharding = #dist.sharding<[{tp0, tp1}, {}, {}]>
// MORE: hyc.param @k : tensor<1x8x16xf32> {{.*}} {dist.sharding = #dist.sharding<[{tp0}, {}, {}]>
// MORE: hyc.param @o : tensor<16x1x8xf32> {{.*}} {dist.sharding = #dist.sharding<[{}, {tp0, tp1}, {}]>
// MORE: hyc.attention causal {{.*}} : (tensor<2x4x1x8xf32>, tensor<2x4x1x8xf32>, tensor<2x4x1x8xf32>) -> (tensor<2x4x1x8xf32>, tensor<2x1x4xf32>)
// MORE-NEXT: hyc.einsum "bshd,nhd->bsn"

// CHECK: hyc.param @q {{.*}} {dist.sharding = #dist.sharding<[{tp}, {}, {}]>}
hyc.param @q : tensor<4x8x16xf32> from #hyc.fill<0.0 : f64>
// CHECK: hyc.param @k {{.*}} {dist.sharding = #dist.sharding<[{tp}, {}, {}]>}
hyc.param @k : tensor<2x8x16xf32> from #hyc.fill<0.0 : f64>
// CHECK: hyc.param @o {{.*}} {dist.sharding = #dist.sharding<[{}, {tp}, {}]>}
hyc.param @o : tensor<16x4x8xf32> from #hyc.fill<0.0 : f64>
hyc.func @microbatch(%x: tensor<2x4x16xf32> {hyc.input = "x"}) -> tensor<2x4x16xf32> {
  %wq = hyc.read @q : tensor<4x8x16xf32>
  %wk = hyc.read @k : tensor<2x8x16xf32>
  %wo = hyc.read @o : tensor<16x4x8xf32>
  // A table is whole on every rank, and turns whatever heads the rank has.
  // CHECK: hyc.rotary_table {{.*}}dist.shardings = [#dist.sharding<[{}, {}]>, #dist.sharding<[{}, {}]>]
  %cos, %sin = hyc.rotary_table [1.0, 0.5, 0.25, 0.125] factor 1.0 {id = "table"} : () -> (tensor<4x4xf32>, tensor<4x4xf32>)
  %q = hyc.einsum "bsk,hdk->bshd" %x, %wq {id = "q"} : (tensor<2x4x16xf32>, tensor<4x8x16xf32>) -> tensor<2x4x4x8xf32>
  %k = hyc.einsum "bsk,hdk->bshd" %x, %wk {id = "k"} : (tensor<2x4x16xf32>, tensor<2x8x16xf32>) -> tensor<2x4x2x8xf32>
  // CHECK: hyc.rope {{.*}}dist.shardings = [#dist.sharding<[{}, {}, {tp}, {}]>]
  %qr = hyc.rope %q, %cos, %sin {id = "q.rope"} : (tensor<2x4x4x8xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<2x4x4x8xf32>
  // CHECK: hyc.rope {{.*}}dist.shardings = [#dist.sharding<[{}, {}, {tp}, {}]>]
  %kr = hyc.rope %k, %cos, %sin {id = "k.rope"} : (tensor<2x4x2x8xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<2x4x2x8xf32>
  // CHECK: hyc.attention {{.*}}dist.shardings = [#dist.sharding<[{}, {}, {tp}, {}]>, #dist.sharding<[{}, {tp}, {}]>]
  // expected-error@+1 {{attention "attn" has 4 heads on 2 key heads, expected multiples of 3, the size of axis "tp", or key heads that divide it; tp can be one of [1, 2, 4]}}
  %a, %lse = hyc.attention causal %qr, %kr, %kr scale 0.5 {id = "attn"} : (tensor<2x4x4x8xf32>, tensor<2x4x2x8xf32>, tensor<2x4x2x8xf32>) -> (tensor<2x4x4x8xf32>, tensor<2x4x4xf32>)
  // CHECK: hyc.einsum "bshd,nhd->bsn" {{.*}}dist.shardings = [#dist.sharding<[{}, {}, {}] partial {tp}>]
  %y = hyc.einsum "bshd,nhd->bsn" %a, %wo {id = "o"} : (tensor<2x4x4x8xf32>, tensor<16x4x8xf32>) -> tensor<2x4x16xf32>
  hyc.return %y : tensor<2x4x16xf32>
}
