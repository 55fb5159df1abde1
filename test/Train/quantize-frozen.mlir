// Codes in place of frozen weights: states that are made of the parameter's values, and a dequantisation right before each
// use, forward's and backward's.
// RUN: hyc-opt %s --hyc-quantize-frozen | FileCheck %s
// RUN: hyc-opt %s --hyc-quantize-frozen | hyc-opt | FileCheck %s

// CHECK: hyc.param @fc.weight : tensor<8x16xf32> from #hyc.file<"m.bin", offset = 4>
hyc.param @fc.weight : tensor<8x16xf32> from #hyc.file<"m.bin", offset = 4> frozen {hyc.quantized = #hyc<codes int8>, hyc.quantized_inputs = 16 : i64}
// Stored [in, out], heads apart.
hyc.param @attn.weight : tensor<8x2x12xf32> from #hyc.normal<mean = 0.0 : f64, stddev = 1.0 : f64> frozen {hyc.quantized = #hyc<codes nf4>, hyc.quantized_inputs = 8 : i64, hyc.quantized_inputs_first}
// The copy in the compute type goes.
// CHECK-NOT: role "compute"
// CHECK: hyc.state @fc.weight.int8 of @fc.weight role "codes" : tensor<8x16xui8> from #hyc.of_weight<int8_codes of "fc.weight" from #hyc.file<"m.bin", offset = 4>, outputs = 8, inputs = 16, inputs_first = false>
// CHECK: hyc.state @fc.weight.int8.absmax role "codes.scale" : tensor<8xf32> from #hyc.of_weight<int8_absmax of "fc.weight"
// CHECK: hyc.state @attn.weight.nf4 of @attn.weight role "codes" : tensor<8x2x6xui8> from #hyc.of_weight<nf4_codes of "attn.weight" from {{.*}}, outputs = 24, inputs = 8, inputs_first = true>
// CHECK: hyc.state @attn.weight.nf4.absmax role "codes.scale" : tensor<3xui8>
// CHECK: hyc.state @attn.weight.nf4.scale role "codes.scale" : tensor<1xf32>
// CHECK: hyc.state @attn.weight.nf4.mean role "codes.scale" : tensor<f32>
hyc.state @fc.weight.compute of @fc.weight role "compute" : tensor<8x16xbf16> from #hyc.file<"m.bin", offset = 4>

// CHECK: hyc.func @microbatch
hyc.func @microbatch(%x: tensor<4x16xbf16>) {
  // CHECK: %[[C:.+]] = hyc.read @fc.weight.int8 {id = "fc.int8_codes"} : tensor<8x16xui8>
  // CHECK-NEXT: %[[A:.+]] = hyc.read @fc.weight.int8.absmax {id = "fc.int8_absmax"} : tensor<8xf32>
  // CHECK-NEXT: %[[W:.+]] = hyc.dequantize int8 %[[C]], %[[A]] block 16 strides [16, 1] {id = "fc.dequantized"} : (tensor<8x16xui8>, tensor<8xf32>) -> tensor<8x16xbf16>
  // CHECK-NEXT: hyc.einsum "bk,nk->bn" %{{.+}}, %[[W]] {id = "fc"}
  %w = hyc.read @fc.weight.compute {id = "fc.weight.read"} : tensor<8x16xbf16>
  %h = hyc.einsum "bk,nk->bn" %x, %w {id = "fc"} : (tensor<4x16xbf16>, tensor<8x16xbf16>) -> tensor<4x8xbf16>
  // CHECK: hyc.dequantize nf4 %{{.+}}, %{{.+}}, %{{.+}}, %{{.+}} block 64 strides [1, 96, 8] {id = "attn.weight.bf16.dequantized"} : (tensor<8x2x6xui8>, tensor<3xui8>, tensor<1xf32>, tensor<f32>) -> tensor<8x2x12xf32>
  // CHECK-NEXT: hyc.convert
  // CHECK-NEXT: hyc.einsum "bk,kij->bij"
  %v = hyc.read @attn.weight {id = "attn.weight.read"} : tensor<8x2x12xf32>
  %n = hyc.convert %v {id = "attn.weight.bf16"} : (tensor<8x2x12xf32>) -> tensor<8x2x12xbf16>
  %y = hyc.einsum "bk,kij->bij" %h, %n {id = "attn"} : (tensor<4x8xbf16>, tensor<8x2x12xbf16>) -> tensor<4x2x12xbf16>
  // What reads it twice dequantises once.
  // CHECK: %[[TWICE:.+]] = hyc.dequantize int8 {{.*}} {id = "fc.squares.dequantized"}
  // CHECK-NEXT: hyc.mul %[[TWICE]], %[[TWICE]] {id = "fc.squares"}
  %s = hyc.mul %w, %w {id = "fc.squares"} : tensor<8x16xbf16>
  // CHECK: hyc.dequantize int8 {{.*}} {hyc.backward, id = "fc.grad.dequantized"}
  // CHECK-NEXT: hyc.einsum "bn,nk->bk"
  %g = hyc.einsum "bn,nk->bk" %h, %w {hyc.backward, id = "fc.grad"} : (tensor<4x8xbf16>, tensor<8x16xbf16>) -> tensor<4x16xbf16>
  hyc.return
}
