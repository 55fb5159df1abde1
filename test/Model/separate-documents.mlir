// Documents in one sequence are kept apart by an input of positions that begin anew with each; whatever else joins tokens of
// a sequence is refused.
// RUN: hyc-opt %s --hyc-separate-documents --split-input-file --verify-diagnostics | FileCheck %s

hyc.param @wte : tensor<64x8xf32> from #hyc.fill<0.0 : f64>
hyc.param @wpe : tensor<16x8xf32> from #hyc.fill<0.0 : f64>

// A table of learned positions is read by row, all of it; all layers share one mask.
// CHECK-LABEL: @train
// CHECK-SAME: %[[P:[a-z0-9]*]]: tensor<2x6xi64> {hyc.input = "position_ids"}
// CHECK-DAG: %[[PLACE:.*]] = hyc.iota dim 1 {{.*}} : tensor<2x6xi64>
// CHECK: %[[BEGIN:.*]] = hyc.sub %[[PLACE]], %[[P]]
// CHECK: %[[Q:.*]] = hyc.broadcast %[[BEGIN]] [0, 1] {{.*}} -> tensor<2x6x6xi64>
// CHECK: %[[K:.*]] = hyc.broadcast %[[BEGIN]] [0, 2] {{.*}} -> tensor<2x6x6xi64>
// CHECK: %[[SAME:.*]] = hyc.compare eq %[[Q]], %[[K]]
// CHECK: %[[MASK:.*]] = hyc.reshape %[[SAME]] {{.*}} -> tensor<2x1x6x6xi1>
// CHECK: %[[WPE:.*]] = hyc.read @wpe
// CHECK: hyc.embedding %[[P]], %[[WPE]] {{.*}} (tensor<2x6xi64>, tensor<16x8xf32>) -> tensor<2x6x8xf32>
// CHECK: hyc.attention causal {{.*}} mask %[[MASK]]
// CHECK: hyc.attention causal {{.*}} mask %[[MASK]]
hyc.func @train(%tokens: tensor<2x6xi64> {hyc.input = "input_ids"}) -> (tensor<2x6x64xf32> {hyc.output = "logits"}) {
  %wte = hyc.read @wte : tensor<64x8xf32>
  %e = hyc.embedding %tokens, %wte {id = "wte"} : (tensor<2x6xi64>, tensor<64x8xf32>) -> tensor<2x6x8xf32>
  %wpe = hyc.read @wpe : tensor<16x8xf32>
  %rows = hyc.slice %wpe offsets [0, 0] strides [1, 1] {id = "rows"} : (tensor<16x8xf32>) -> tensor<6x8xf32>
  %p = hyc.broadcast %rows [1, 2] {id = "wpe"} : (tensor<6x8xf32>) -> tensor<2x6x8xf32>
  %x = hyc.add %e, %p {id = "x"} : tensor<2x6x8xf32>
  // Tokens of all samples in one dimension, as linear layers have them, and back.
  %flat = hyc.reshape %x {id = "flat"} : (tensor<2x6x8xf32>) -> tensor<12x8xf32>
  %heads = hyc.reshape %flat {id = "heads"} : (tensor<12x8xf32>) -> tensor<2x6x2x4xf32>
  %a:2 = hyc.attention causal %heads, %heads, %heads scale 0.5 {id = "a"} : (tensor<2x6x2x4xf32>, tensor<2x6x2x4xf32>, tensor<2x6x2x4xf32>) -> (tensor<2x6x2x4xf32>, tensor<2x2x6xf32>)
  %b:2 = hyc.attention causal %a#0, %a#0, %a#0 scale 0.5 {id = "b"} : (tensor<2x6x2x4xf32>, tensor<2x6x2x4xf32>, tensor<2x6x2x4xf32>) -> (tensor<2x6x2x4xf32>, tensor<2x2x6xf32>)
  %y = hyc.reshape %b#0 {id = "y"} : (tensor<2x6x2x4xf32>) -> tensor<2x6x8xf32>
  %logits = hyc.einsum "bsh,vh->bsv" %y, %wte {id = "head"} : (tensor<2x6x8xf32>, tensor<64x8xf32>) -> tensor<2x6x64xf32>
  hyc.return %logits : tensor<2x6x64xf32>
}

// -----

// Scores of rotated heads depend on distances alone: nothing but the mask is added.
hyc.param @wte : tensor<64x8xf32> from #hyc.fill<0.0 : f64>
// CHECK-LABEL: @train
// CHECK: %[[COS:.*]], %[[SIN:.*]] = hyc.rotary_table
// CHECK: %[[R:.*]] = hyc.rope %{{.*}}, %[[COS]], %[[SIN]]
// CHECK: hyc.attention causal %[[R]], %[[R]], %{{.*}} mask
hyc.func @train(%tokens: tensor<2x6xi64> {hyc.input = "input_ids"}) -> (tensor<2x6x2x4xf32> {hyc.output = "logits"}) {
  %wte = hyc.read @wte : tensor<64x8xf32>
  %e = hyc.embedding %tokens, %wte {id = "wte"} : (tensor<2x6xi64>, tensor<64x8xf32>) -> tensor<2x6x8xf32>
  %heads = hyc.reshape %e {id = "heads"} : (tensor<2x6x8xf32>) -> tensor<2x6x2x4xf32>
  %cos, %sin = hyc.rotary_table [1.0, 0.25] factor 1.0 {id = "table"} : () -> (tensor<6x2xf32>, tensor<6x2xf32>)
  %r = hyc.rope %heads, %cos, %sin {id = "r"} : (tensor<2x6x2x4xf32>, tensor<6x2xf32>, tensor<6x2xf32>) -> tensor<2x6x2x4xf32>
  %a:2 = hyc.attention causal %r, %r, %heads scale 0.5 {id = "a"} : (tensor<2x6x2x4xf32>, tensor<2x6x2x4xf32>, tensor<2x6x2x4xf32>) -> (tensor<2x6x2x4xf32>, tensor<2x2x6xf32>)
  hyc.return %a#0 : tensor<2x6x2x4xf32>
}

// -----

// A model that has positions already stays as it is.
// CHECK-LABEL: @train
// CHECK-NOT: mask
hyc.func @train(%x: tensor<2x6x2x4xf32> {hyc.input = "x"}, %p: tensor<2x6xi64> {hyc.input = "position_ids"}) -> (tensor<2x6x2x4xf32> {hyc.output = "logits"}) {
  %a:2 = hyc.attention causal %x, %x, %x scale 0.5 {id = "a"} : (tensor<2x6x2x4xf32>, tensor<2x6x2x4xf32>, tensor<2x6x2x4xf32>) -> (tensor<2x6x2x4xf32>, tensor<2x2x6xf32>)
  hyc.return %a#0 : tensor<2x6x2x4xf32>
}

// -----

hyc.param @wte : tensor<64x8xf32> from #hyc.fill<0.0 : f64>
hyc.func @train(%tokens: tensor<2x6xi64> {hyc.input = "input_ids"}) -> (tensor<2x8xf32> {hyc.output = "logits"}) {
  %wte = hyc.read @wte : tensor<64x8xf32>
  %e = hyc.embedding %tokens, %wte {id = "wte"} : (tensor<2x6xi64>, tensor<64x8xf32>) -> tensor<2x6x8xf32>
  // expected-error@+1 {{joins tokens of one sequence, which --separate-documents cannot keep apart; what it knows is hyc.attention}}
  %s = hyc.reduce sum %e [1] {id = "s"} : (tensor<2x6x8xf32>) -> tensor<2x8xf32>
  hyc.return %s : tensor<2x8xf32>
}

// -----

// Tokens beside those that follow, by a slice.
hyc.param @wte : tensor<64x8xf32> from #hyc.fill<0.0 : f64>
hyc.func @train(%tokens: tensor<2x6xi64> {hyc.input = "input_ids"}) -> (tensor<2x5x8xf32> {hyc.output = "logits"}) {
  %wte = hyc.read @wte : tensor<64x8xf32>
  %e = hyc.embedding %tokens, %wte {id = "wte"} : (tensor<2x6xi64>, tensor<64x8xf32>) -> tensor<2x6x8xf32>
  // expected-error@+1 {{joins tokens of one sequence}}
  %s = hyc.slice %e offsets [0, 1, 0] strides [1, 1, 1] {id = "s"} : (tensor<2x6x8xf32>) -> tensor<2x5x8xf32>
  hyc.return %s : tensor<2x5x8xf32>
}

// -----

// Positions that are no table: a slope along the sequence.
hyc.param @wte : tensor<64x8xf32> from #hyc.fill<0.0 : f64>
hyc.func @train(%tokens: tensor<2x6xi64> {hyc.input = "input_ids"}) -> (tensor<2x6x8xf32> {hyc.output = "logits"}) {
  %wte = hyc.read @wte : tensor<64x8xf32>
  %e = hyc.embedding %tokens, %wte {id = "wte"} : (tensor<2x6xi64>, tensor<64x8xf32>) -> tensor<2x6x8xf32>
  %i = hyc.iota dim 1 : tensor<2x6x8xi64>
  %slope = hyc.convert %i {id = "slope"} : (tensor<2x6x8xi64>) -> tensor<2x6x8xf32>
  // expected-error@+1 {{takes operand 1 of type 'tensor<2x6x8xf32>', which tells places of a sequence apart; expected a table with a row a place}}
  %s = hyc.add %e, %slope {id = "s"} : tensor<2x6x8xf32>
  hyc.return %s : tensor<2x6x8xf32>
}

// -----

hyc.param @wte : tensor<64x8xf32> from #hyc.fill<0.0 : f64>
// expected-error@+1 {{--separate-documents wants a model with attention, expected hyc.attention among its ops}}
hyc.func @train(%tokens: tensor<2x6xi64> {hyc.input = "input_ids"}) -> (tensor<2x6x8xf32> {hyc.output = "logits"}) {
  %wte = hyc.read @wte : tensor<64x8xf32>
  %e = hyc.embedding %tokens, %wte {id = "wte"} : (tensor<2x6xi64>, tensor<64x8xf32>) -> tensor<2x6x8xf32>
  hyc.return %e : tensor<2x6x8xf32>
}

// -----

// expected-error@+1 {{--separate-documents wants a model with one input, of tokens, (batch, sequence) integers}}
hyc.func @train(%x: tensor<2x6x8xf32> {hyc.input = "pixels"}) -> (tensor<2x6x8xf32> {hyc.output = "logits"}) {
  hyc.return %x : tensor<2x6x8xf32>
}

// -----

// Twelve tokens of two samples are not four rows of three.
hyc.param @wte : tensor<64x8xf32> from #hyc.fill<0.0 : f64>
hyc.func @train(%tokens: tensor<2x6xi64> {hyc.input = "input_ids"}) -> (tensor<4x3x8xf32> {hyc.output = "logits"}) {
  %wte = hyc.read @wte : tensor<64x8xf32>
  %e = hyc.embedding %tokens, %wte {id = "wte"} : (tensor<2x6xi64>, tensor<64x8xf32>) -> tensor<2x6x8xf32>
  %flat = hyc.reshape %e {id = "flat"} : (tensor<2x6x8xf32>) -> tensor<12x8xf32>
  // expected-error@+1 {{splits or joins tokens of one sequence}}
  %r = hyc.reshape %flat {id = "r"} : (tensor<12x8xf32>) -> tensor<4x3x8xf32>
  hyc.return %r : tensor<4x3x8xf32>
}

// -----

// One sample is one as well.
hyc.param @wte : tensor<64x8xf32> from #hyc.fill<0.0 : f64>
// CHECK-LABEL: @train
// CHECK: hyc.attention causal {{.*}} mask %{{.*}} {id = "a"} : {{.*}} tensor<1x1x6x6xi1>
hyc.func @train(%tokens: tensor<1x6xi64> {hyc.input = "input_ids"}) -> (tensor<1x6x2x4xf32> {hyc.output = "logits"}) {
  %wte = hyc.read @wte : tensor<64x8xf32>
  %e = hyc.embedding %tokens, %wte {id = "wte"} : (tensor<1x6xi64>, tensor<64x8xf32>) -> tensor<1x6x8xf32>
  %flat = hyc.reshape %e {id = "flat"} : (tensor<1x6x8xf32>) -> tensor<6x8xf32>
  %heads = hyc.reshape %flat {id = "heads"} : (tensor<6x8xf32>) -> tensor<1x6x2x4xf32>
  %a:2 = hyc.attention causal %heads, %heads, %heads scale 0.5 {id = "a"} : (tensor<1x6x2x4xf32>, tensor<1x6x2x4xf32>, tensor<1x6x2x4xf32>) -> (tensor<1x6x2x4xf32>, tensor<1x2x6xf32>)
  hyc.return %a#0 : tensor<1x6x2x4xf32>
}
