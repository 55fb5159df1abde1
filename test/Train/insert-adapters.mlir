// Products of low rank beside linear layers, whatever dimensions a weight has been split into and whichever come first.
// RUN: hyc-opt %s --hyc-insert-adapters="rank=8 alpha=16 targets=q_proj,h.0.c_attn" | FileCheck %s
// RUN: hyc-opt %s --hyc-insert-adapters="rank=4 alpha=4 variant=rslora targets=.*q_pro[a-k]" | FileCheck %s --check-prefix=STABLE
// RUN: hyc-opt %s --hyc-insert-adapters="rank=2 alpha=2 targets=all-linear" | FileCheck %s --check-prefix=ALL
// RUN: hyc-opt %s --hyc-insert-adapters="rank=4 alpha=8 variant=dora targets=q_proj,c_attn" | FileCheck %s --check-prefix=DORA
// RUN: not hyc-opt %s --hyc-insert-adapters="rank=8 alpha=8 targets=q_prjo" 2>&1 | FileCheck %s --check-prefix=NEAREST
// RUN: not hyc-opt %s --hyc-insert-adapters="rank=8 alpha=8 targets=proj" 2>&1 | FileCheck %s --check-prefix=PART
// RUN: not hyc-opt %s --hyc-insert-adapters="rank=8 alpha=8 targets=experts" 2>&1 | FileCheck %s --check-prefix=EXPERTS
// RUN: not hyc-opt %s --hyc-insert-adapters="rank=8 alpha=8 targets=wte" 2>&1 | FileCheck %s --check-prefix=TABLE
// RUN: not hyc-opt %s --hyc-insert-adapters="rank=8 alpha=8 targets=h.(" 2>&1 | FileCheck %s --check-prefix=PATTERN
// RUN: not hyc-opt %s --hyc-insert-adapters="rank=0 alpha=8 targets=wte" 2>&1 | FileCheck %s --check-prefix=RANK

// NEAREST: error: --lora target "q_prjo" matches no linear layer; the nearest is "q_proj"; its linear layers are q_proj, c_attn, lm_head
// PART: error: --lora target "proj" matches no linear layer
// EXPERTS: error: --lora target "experts" names "h.0.experts", which is no linear layer: it is multiplied batch by batch, as the weights of several experts are; its linear layers are q_proj, c_attn, lm_head
// TABLE: error: --lora target "wte" names "wte", which is no linear layer: it is read by hyc.embedding; its linear
// PATTERN: error: --lora target "h.(" is no regular expression
// RANK: error: --lora has no rank; expected one from 1 to 65536

hyc.param @wte.weight : tensor<64x32xf32> from #hyc.fill<0.0 : f64> frozen
// Heads: [out, in] is [4, 8, 32]. The bound of A is 1/√32.
// CHECK: hyc.param @h.0.q_proj.weight
// CHECK-NEXT: hyc.param @h.0.q_proj.lora_A.weight : tensor<8x32xf32> from #hyc.uniform<low = -0.17677669529663687 : f64, high = 0.17677669529663687 : f64> {hyc.adapter_rank = 0 : i64}
// CHECK-NEXT: hyc.param @h.0.q_proj.lora_B.weight : tensor<4x8x8xf32> from #hyc.fill<0.000000e+00 : f64> {hyc.adapter_rank = 2 : i64, shape = array<i64: 32, 8>}
// DORA: hyc.param @h.0.q_proj.lora_magnitude_vector : tensor<4x8xf32> from #hyc.of_weight<row_norms of "h.0.q_proj.weight" from #hyc.fill<0.000000e+00 : f64>, outputs = 32, inputs = 32, inputs_first = false> {hyc.adapter_magnitudes, shape = array<i64: 32>}
hyc.param @h.0.q_proj.weight : tensor<4x8x32xf32> from #hyc.fill<0.0 : f64> frozen {shape = array<i64: 32, 32>}
// Fused and stored [in, out]: [4, 8] contracted, [3, 2] kept.
// CHECK: hyc.param @h.0.c_attn.weight
// CHECK-NEXT: hyc.param @h.0.c_attn.lora_A.weight : tensor<8x4x8xf32> {{.*}} {hyc.adapter_rank = 0 : i64, hyc.inputs_first, shape = array<i64: 8, 32>}
// CHECK-NEXT: hyc.param @h.0.c_attn.lora_B.weight : tensor<3x2x8xf32> {{.*}} {hyc.adapter_rank = 2 : i64, shape = array<i64: 6, 8>}
// DORA: hyc.param @h.0.c_attn.lora_magnitude_vector : tensor<3x2xf32> from #hyc.of_weight<row_norms of "h.0.c_attn.weight" from {{.*}}, outputs = 6, inputs = 32, inputs_first = true>
hyc.param @h.0.c_attn.weight : tensor<4x8x3x2xf32> from #hyc.fill<0.0 : f64> frozen {shape = array<i64: 32, 6>}
hyc.param @h.0.experts.weight : tensor<2x3x2xf32> from #hyc.fill<0.0 : f64> frozen
// All but what makes the output.
// ALL-NOT: lm_head.lora
// ALL: @h.0.q_proj.lora_A.weight
// ALL-NOT: lm_head.lora
// ALL: @h.0.c_attn.lora_A.weight
// ALL-NOT: lm_head.lora
hyc.param @lm_head.weight : tensor<5x2xf32> from #hyc.fill<0.0 : f64> frozen

hyc.func @train(%tokens: tensor<2x6xi64> {hyc.input = "input_ids"}) -> (tensor<2x6x5xf32> {hyc.output = "logits"}) {
  %wte = hyc.read @wte.weight : tensor<64x32xf32>
  %x = hyc.embedding %tokens, %wte {id = "wte"} : (tensor<2x6xi64>, tensor<64x32xf32>) -> tensor<2x6x32xf32>
  // CHECK: %[[Y:.+]] = hyc.einsum "abc,dec->abde" %[[X:.+]], %{{.+}} {id = "h.0.q_proj.einsum"}
  // CHECK-NEXT: %[[A:.+]] = hyc.read @h.0.q_proj.lora_A.weight : tensor<8x32xf32>
  // CHECK-NEXT: %[[LOW:.+]] = hyc.einsum "abc,fc->abf" %[[X]], %[[A]] {id = "h.0.q_proj.lora_A.einsum"}
  // CHECK-NEXT: %[[SCALE:.+]] = hyc.constant {id = "h.0.q_proj.lora.scale"} dense<2.000000e+00> : tensor<2x6x8xf32>
  // CHECK-NEXT: %[[SCALED:.+]] = hyc.mul %[[LOW]], %[[SCALE]] {id = "h.0.q_proj.lora.mul"}
  // CHECK-NEXT: %[[B:.+]] = hyc.read @h.0.q_proj.lora_B.weight : tensor<4x8x8xf32>
  // CHECK-NEXT: %[[CHANGE:.+]] = hyc.einsum "abf,def->abde" %[[SCALED]], %[[B]] {id = "h.0.q_proj.lora_B.einsum"}
  // CHECK-NEXT: %[[SUM:.+]] = hyc.add %[[Y]], %[[CHANGE]] {id = "h.0.q_proj.lora.add"} : tensor<2x6x4x8xf32>
  // The length of W + 2 BA of each output, without anything of W's size but W's own square: 4 = 2 · 2, and 4 = 2².
  // DORA: %[[SUM:.+]] = hyc.add %{{.+}}, %{{.+}} {id = "h.0.q_proj.lora.add"}
  // DORA: %[[SQUARES:.+]] = hyc.reduce sum %{{.+}} [2] {id = "h.0.q_proj.lora.lengths.of_weight"} : (tensor<4x8x32xf32>) -> tensor<4x8xf32>
  // DORA: hyc.einsum "dec,fc->def" {{.*}} {id = "h.0.q_proj.lora.lengths.weight_A"}
  // DORA: hyc.einsum "fc,ac->fa" {{.*}} {id = "h.0.q_proj.lora.lengths.A_A"}
  // DORA: hyc.einsum "def,fa->dea" {{.*}} {id = "h.0.q_proj.lora.lengths.B_A_A"}
  // DORA: hyc.constant {id = "h.0.q_proj.lora.lengths.scale"} dense<4.000000e+00>
  // DORA: hyc.constant {id = "h.0.q_proj.lora.lengths.scale_squared"} dense<4.000000e+00>
  // DORA: %[[LENGTHS:.+]] = hyc.stop_gradient %{{.+}} {id = "h.0.q_proj.lora.lengths"} : tensor<4x8xf32>
  // DORA: %[[M:.+]] = hyc.read @h.0.q_proj.lora_magnitude_vector
  // DORA: %[[FACTOR:.+]] = hyc.div %[[M]], %[[LENGTHS]] {id = "h.0.q_proj.lora.lengthening"}
  // DORA: %[[WIDE:.+]] = hyc.broadcast %[[FACTOR]] [2, 3] {{.*}} -> tensor<2x6x4x8xf32>
  // DORA: hyc.mul %[[SUM]], %[[WIDE]] {id = "h.0.q_proj.lora.lengthened"}
  // 4 / √4
  // STABLE: hyc.constant {id = "h.0.q_proj.lora.scale"} dense<2.000000e+00>
  %q_weight = hyc.read @h.0.q_proj.weight : tensor<4x8x32xf32>
  %q = hyc.einsum "abc,dec->abde" %x, %q_weight {id = "h.0.q_proj.einsum"} : (tensor<2x6x32xf32>, tensor<4x8x32xf32>) -> tensor<2x6x4x8xf32>
  // The weight may be the first operand.
  // CHECK: %[[C:.+]] = hyc.einsum "cdef,abcd->abef" %{{.+}}, %[[SUM]]
  // CHECK: hyc.einsum "abcd,gcd->abg" %[[SUM]], %{{.+}} {id = "h.0.c_attn.lora_A.einsum"}
  // CHECK: hyc.einsum "abg,efg->abef" %{{.+}}, %{{.+}} {id = "h.0.c_attn.lora_B.einsum"}
  // CHECK: %[[CSUM:.+]] = hyc.add %[[C]], %{{.+}} {id = "h.0.c_attn.lora.add"}
  %c_weight = hyc.read @h.0.c_attn.weight : tensor<4x8x3x2xf32>
  %c = hyc.einsum "cdef,abcd->abef" %c_weight, %q {id = "h.0.c_attn.einsum"} : (tensor<4x8x3x2xf32>, tensor<2x6x4x8xf32>) -> tensor<2x6x3x2xf32>
  %parts = hyc.reduce sum %c [2] {id = "parts"} : (tensor<2x6x3x2xf32>) -> tensor<2x6x2xf32>
  %e_weight = hyc.read @h.0.experts.weight : tensor<2x3x2xf32>
  %e = hyc.einsum "abc,adc->abd" %parts, %e_weight {id = "h.0.experts.einsum"} : (tensor<2x6x2xf32>, tensor<2x3x2xf32>) -> tensor<2x6x3xf32>
  %experts = hyc.reduce sum %e [2] {id = "experts"} : (tensor<2x6x3xf32>) -> tensor<2x6xf32>
  %spread = hyc.broadcast %experts [0, 1] {id = "spread"} : (tensor<2x6xf32>) -> tensor<2x6x2xf32>
  %h = hyc.add %parts, %spread {id = "h"} : tensor<2x6x2xf32>
  %head = hyc.read @lm_head.weight : tensor<5x2xf32>
  %logits = hyc.einsum "abc,dc->abd" %h, %head {id = "lm_head.einsum"} : (tensor<2x6x2xf32>, tensor<5x2xf32>) -> tensor<2x6x5xf32>
  hyc.return %logits : tensor<2x6x5xf32>
}
