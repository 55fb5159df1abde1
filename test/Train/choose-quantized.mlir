// Frozen weights of linear layers are kept as codes, but for what makes the output, what is trained, and what is no linear
// layer's.
// RUN: hyc-opt %s --hyc-choose-quantized=kind=int8 | FileCheck %s
// RUN: hyc-opt %s --hyc-choose-quantized=kind=nf4 | FileCheck %s --check-prefix=NF4
// RUN: hyc-opt %s --hyc-choose-quantized=kind=int8 --hyc-insert-adapters="rank=2 alpha=2 variant=dora targets=q_proj" | FileCheck %s --check-prefix=LENGTHS8
// RUN: hyc-opt %s --hyc-choose-quantized=kind=nf4 --hyc-insert-adapters="rank=2 alpha=2 variant=dora targets=q_proj" | FileCheck %s --check-prefix=LENGTHS4
// RUN: not hyc-opt %s --hyc-choose-quantized=kind=fp4 2>&1 | FileCheck %s --check-prefix=KIND
// RUN: sed 's/ frozen//' %s | not hyc-opt --hyc-choose-quantized=kind=int8 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: sed 's/x32xf32/x33xf32/g' %s | not hyc-opt --hyc-choose-quantized=kind=nf4 2>&1 | FileCheck %s --check-prefix=ODD
// RUN: sed 's/x32xf32/x33xf32/g; s/\(@q_proj.weight .* frozen\)$/\1 {shape = array<i64: 32, 33>}/' %s | not hyc-opt --hyc-choose-quantized=kind=nf4 2>&1 | FileCheck %s --check-prefix=VIEW

// KIND: error: --frozen-weights is "fp4", expected int8 or nf4
// NONE: error: --frozen-weights is "int8", but no linear layer in front of the model's output is frozen; give --lora, --train or --freeze
// ODD: error: @q_proj.weight is 4x8x33; --frozen-weights nf4 keeps two elements of the last dimension in a byte, expected an even number of them and found 33; give --frozen-weights int8, or train this weight (--train) instead of freezing it
// VIEW: error: @q_proj.weight is 32x33 in the model and 4x8x33 where it is computed with; --frozen-weights nf4

// Magnitudes of adapters are lengths of what is computed with.
// LENGTHS8: hyc.param @q_proj.lora_magnitude_vector : tensor<4x8xf32> from #hyc.of_weight<int8_row_norms of "q_proj.weight" from #hyc.fill<0.000000e+00 : f64>, outputs = 32, inputs = 32, inputs_first = false>
// LENGTHS4: hyc.param @q_proj.lora_magnitude_vector : tensor<4x8xf32> from #hyc.of_weight<nf4_row_norms of "q_proj.weight"

// CHECK: hyc.param @wte.weight : tensor<64x32xf32> from #hyc.fill<0.000000e+00 : f64> frozen{{$}}
hyc.param @wte.weight : tensor<64x32xf32> from #hyc.fill<0.0 : f64> frozen
// CHECK: hyc.param @q_proj.weight {{.*}} {hyc.quantized = #hyc<codes int8>, hyc.quantized_inputs = 32 : i64}
// NF4: hyc.param @q_proj.weight {{.*}} {hyc.quantized = #hyc<codes nf4>, hyc.quantized_inputs = 32 : i64}
hyc.param @q_proj.weight : tensor<4x8x32xf32> from #hyc.fill<0.0 : f64> frozen
// CHECK: hyc.param @c_proj.weight {{.*}} {hyc.quantized = #hyc<codes int8>, hyc.quantized_inputs = 32 : i64, hyc.quantized_inputs_first}
hyc.param @c_proj.weight : tensor<4x8x6xf32> from #hyc.fill<0.0 : f64> frozen
// CHECK: hyc.param @fc.weight : tensor<6x6xf32> from #hyc.fill<0.000000e+00 : f64>{{$}}
hyc.param @fc.weight : tensor<6x6xf32> from #hyc.fill<0.0 : f64>
// CHECK: hyc.param @lm_head.weight : tensor<5x6xf32> from #hyc.fill<0.000000e+00 : f64> frozen{{$}}
hyc.param @lm_head.weight : tensor<5x6xf32> from #hyc.fill<0.0 : f64> frozen

hyc.func @train(%tokens: tensor<2x6xi64> {hyc.input = "input_ids"}) -> (tensor<2x6x5xf32> {hyc.output = "logits"}) {
  %wte = hyc.read @wte.weight : tensor<64x32xf32>
  %x = hyc.embedding %tokens, %wte {id = "wte"} : (tensor<2x6xi64>, tensor<64x32xf32>) -> tensor<2x6x32xf32>
  %qw = hyc.read @q_proj.weight : tensor<4x8x32xf32>
  %q = hyc.einsum "abc,dec->abde" %x, %qw {id = "q"} : (tensor<2x6x32xf32>, tensor<4x8x32xf32>) -> tensor<2x6x4x8xf32>
  %cw = hyc.read @c_proj.weight : tensor<4x8x6xf32>
  %c = hyc.einsum "abde,def->abf" %q, %cw {id = "c"} : (tensor<2x6x4x8xf32>, tensor<4x8x6xf32>) -> tensor<2x6x6xf32>
  %fw = hyc.read @fc.weight : tensor<6x6xf32>
  %f = hyc.einsum "abc,dc->abd" %c, %fw {id = "f"} : (tensor<2x6x6xf32>, tensor<6x6xf32>) -> tensor<2x6x6xf32>
  %hw = hyc.read @lm_head.weight : tensor<5x6xf32>
  %logits = hyc.einsum "abc,dc->abd" %f, %hw {id = "lm_head"} : (tensor<2x6x6xf32>, tensor<5x6xf32>) -> tensor<2x6x5xf32>
  hyc.return %logits : tensor<2x6x5xf32>
}
