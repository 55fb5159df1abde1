// RUN: hyc-opt %s -split-input-file -verify-diagnostics

// expected-error@+1 {{has type 'tensor<?x4xf32>', expected a ranked tensor with static dimensions}}
hyc.param @w : tensor<?x4xf32> from #hyc.fill<0.0 : f64>

// -----

// expected-error@+1 {{states a shape of 12 elements, but its type 'tensor<4x4xf32>' has 16}}
hyc.param @w : tensor<4x4xf32> from #hyc.fill<0.0 : f64> {shape = array<i64: 3, 4>}

// -----

// expected-error@+1 {{file offset is -4, expected a count of bytes}}
hyc.param @w : tensor<4xf32> from #hyc.file<"model.onnx", offset = -4>

// -----

// expected-error@+1 {{rows of sinusoids are 3 wide, expected an even number of elements}}
hyc.param @w : tensor<2x3xf32> from #hyc.sinusoids<width = 3, ratio = 0.5>

// -----

// expected-error@+1 {{frequencies of sinusoids have the ratio 0.000000e+00 : f64, expected one in (0, 1]}}
hyc.param @w : tensor<2x4xf32> from #hyc.sinusoids<width = 4, ratio = 0.0>

// -----

// expected-error@+1 {{starts from parts of 7 elements together, but its type 'tensor<2x4xf32>' has 8}}
hyc.param @w : tensor<2x4xf32> from #hyc.parts<<"a"[4] at <"m", offset = 0>>, <"b"[3] at <"m", offset = 16>>>

// -----

// expected-error@+2 {{failed to parse Hyc_PartsAttr parameter 'parts'}}
// expected-error@+1 {{part "a" is [2, 0], expected sizes of at least 1, and at most 2^50 elements}}
hyc.param @w : tensor<4xf32> from #hyc.parts<<"a"[2, 0] at <"m", offset = 0>>>

// -----

// expected-error@+2 {{failed to parse Hyc_PartsAttr parameter 'parts'}}
// expected-error@+1 {{part "a" is [1125899906842624, 2], expected sizes of at least 1, and at most 2^50 elements}}
hyc.param @w : tensor<4xf32> from #hyc.parts<<"a"[1125899906842624, 2] at <"m", offset = 0>>>

// -----

// expected-error@+2 {{failed to parse Hyc_PartsAttr parameter 'parts'}}
// expected-error@+1 {{a part has no name}}
hyc.param @w : tensor<4xf32> from #hyc.parts<<""[4] at <"m", offset = 0>>>

// -----

// expected-error@+1 {{belongs to @v, which is no hyc.param}}
hyc.state @v.m of @v role "adam.m" : tensor<4xf32> from #hyc.fill<0.0 : f64>

// -----

hyc.param @w : tensor<4xf32> from #hyc.fill<0.0 : f64>
hyc.func @read_as_another_type() {
  // expected-error@+1 {{uses @w as 'tensor<5xf32>', but it is declared as 'tensor<4xf32>'}}
  %0 = hyc.read @w : tensor<5xf32>
  hyc.return
}

// -----

hyc.func @einsum_spec_without_letters(%x: tensor<4x8xf32>) {
  // expected-error@+2 {{[einsum.spec] is "ab->c", expected letters}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = hyc.einsum "ab->c" %x, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4xf32>
  hyc.return
}

// -----

hyc.func @einsum_letter_of_two_sizes(%x: tensor<4x8xf32>) {
  // expected-error@+2 {{[einsum.sizes] letter 'k' has size 8 and 4}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = hyc.einsum "mk,kn->mn" %x, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  hyc.return
}

// -----

hyc.func @einsum_letter_summed_in_one_operand(%x: tensor<4x8xf32>, %y: tensor<4xf32>) {
  // expected-error@+2 {{[einsum.contracted] letter 'k' stands in one operand only}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = hyc.einsum "mk,m->m" %x, %y : (tensor<4x8xf32>, tensor<4xf32>) -> tensor<4xf32>
  hyc.return
}

// -----

hyc.func @reshape_to_another_count(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{[reshape.count] turns 'tensor<4x8xf32>' (32 elements) into 'tensor<4x4xf32>' (16 elements)}}
  %0 = hyc.reshape %x : (tensor<4x8xf32>) -> tensor<4x4xf32>
  hyc.return
}

// -----

hyc.func @broadcast_to_another_size(%x: tensor<4xf32>) {
  // expected-error@+1 {{[broadcast.dims] maps dimension 0 of 'tensor<4xf32>' to dimension 0 of 'tensor<8x4xf32>'}}
  %0 = hyc.broadcast %x [0] : (tensor<4xf32>) -> tensor<8x4xf32>
  hyc.return
}

// -----

hyc.func @split_into_too_much(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{[split.sizes] has parts of 10 along dim 1, expected 8}}
  %0:2 = hyc.split %x dim 1 : (tensor<4x8xf32>) -> (tensor<4x5xf32>, tensor<4x5xf32>)
  hyc.return
}

// -----

hyc.func @slice_past_the_end(%x: tensor<8xf32>) {
  // expected-error@+1 {{[slice.bounds] dim 0 reaches index 9 of 8}}
  %0 = hyc.slice %x offsets [3] strides [2] : (tensor<8xf32>) -> tensor<4xf32>
  hyc.return
}

// -----

hyc.func @slice_beyond_all_numbers(%x: tensor<8xf32>) {
  // expected-error@+1 {{[slice.bounds] dim 0 reaches index beyond 63 bits of 8}}
  %0 = hyc.slice %x offsets [0] strides [4611686018427387904] : (tensor<8xf32>) -> tensor<3xf32>
  hyc.return
}

// -----

hyc.func @concatenation_of_nothing() {
  // expected-error@+1 {{[concat.sizes] has no part, expected at least one}}
  %0 = hyc.concat dim 0 : () -> tensor<0x3xf32>
  hyc.return
}

// -----

hyc.func @attention_of_ungroupable_heads(%q: tensor<1x4x3x8xf32>, %k: tensor<1x4x2x8xf32>) {
  // expected-error@+2 {{[attention.shapes]}}
  // expected-error@+1 {{failed to infer returned types}}
  %0:2 = hyc.attention causal %q, %k, %k scale 0.5 : (tensor<1x4x3x8xf32>, tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>) -> (tensor<1x4x3x8xf32>, tensor<1x3x4xf32>)
  hyc.return
}

// -----

hyc.func @dropout_of_everything(%x: tensor<2x4xf32>) {
  // expected-error@+1 {{[dropout.rate] drops a share of 1.000000e+00, expected at least 0 and less than 1}}
  %0 = hyc.dropout %x rate 1.0 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  hyc.return
}

// -----

hyc.func @dropout_by_another_mask(%x: tensor<2x4xf32>, %m: tensor<4x2xi1>) {
  // expected-error@+1 {{[dropout.types] has mask 'tensor<4x2xi1>', expected booleans of the shape of 'tensor<2x4xf32>'}}
  %0 = hyc.dropout %x mask %m rate 0.5 : (tensor<2x4xf32>, tensor<4x2xi1>) -> tensor<2x4xf32>
  hyc.return
}

// -----

hyc.func @dropout_of_integers(%x: tensor<2x4xi64>) {
  // expected-error@+1 {{[dropout.types] turns 'tensor<2x4xi64>' into 'tensor<2x4xi64>', expected floats of one type}}
  %0 = hyc.dropout %x rate 0.5 : (tensor<2x4xi64>) -> tensor<2x4xi64>
  hyc.return
}

// -----

hyc.func @mask_from_a_missing_column(%k: tensor<2x3xi64>) {
  // expected-error@+1 {{[dropout_mask.shapes] draws 'tensor<2x4xi1>' from column 3 of keys 'tensor<2x3xi64>'}}
  %0 = hyc.dropout_mask %k column 3 rate 0.5 : (tensor<2x3xi64>) -> tensor<2x4xi1>
  hyc.return
}

// -----

hyc.func @mask_at_a_place_without_strides(%k: tensor<2x3xi64>, %o: tensor<i64>) {
  // expected-error@+1 {{[dropout_mask.place] has 1 offsets and 0 strides for 'tensor<2x4xi1>'}}
  %0 = hyc.dropout_mask %k column 0 offsets %o rate 0.5 : (tensor<2x3xi64>, tensor<i64>) -> tensor<2x4xi1>
  hyc.return
}

// -----

hyc.func @mask_at_a_negative_rate(%k: tensor<2x3xi64>) {
  // expected-error@+1 {{[dropout_mask.rate] drops a share of -5.000000e-01}}
  %0 = hyc.dropout_mask %k column 0 rate -0.5 : (tensor<2x3xi64>) -> tensor<2x4xi1>
  hyc.return
}

// -----

hyc.func @attention_with_keys_for_nothing(%q: tensor<1x4x2x8xf32>, %k: tensor<1x1xi64>) {
  // expected-error@+1 {{[attention.random] has keys, but no `dropout`}}
  %0:2 = hyc.attention %q, %q, %q scale 0.5 random %k : (tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>, tensor<1x1xi64>) -> (tensor<1x4x2x8xf32>, tensor<1x2x4xf32>)
  hyc.return
}

// -----

hyc.func @attention_with_keys_of_other_samples(%q: tensor<1x4x2x8xf32>, %k: tensor<2x1xi64>) {
  // expected-error@+1 {{[attention.random] draws from column 0 of ('tensor<2x1xi64>')}}
  %0:2 = hyc.attention %q, %q, %q scale 0.5 random %k dropout 0.5 : (tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>, tensor<2x1xi64>) -> (tensor<1x4x2x8xf32>, tensor<1x2x4xf32>)
  hyc.return
}

// -----

hyc.func @attention_with_a_mask_of_other_keys(%q: tensor<1x4x2x8xf32>, %m: tensor<1x1x4x3xi1>) {
  // expected-error@+1 {{[attention.mask] has mask 'tensor<1x1x4x3xi1>', expected i1 of 1 or 1, 2 or 1, 4 or 1, and 4}}
  %0:2 = hyc.attention %q, %q, %q scale 0.5 mask %m : (tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>, tensor<1x1x4x3xi1>) -> (tensor<1x4x2x8xf32>, tensor<1x2x4xf32>)
  hyc.return
}

// -----

hyc.func @return_of_another_type(%x: tensor<4xf32>) -> tensor<5xf32> {
  // expected-error@+1 {{returns ('tensor<4xf32>'), but @return_of_another_type has results ('tensor<5xf32>')}}
  hyc.return %x : tensor<4xf32>
}

// -----

hyc.func @trust_ratio_between_nothing(%p: tensor<f64>, %u: tensor<f64>) {
  // expected-error@+1 {{[trust_ratio.bounds] is between 2.000000e+00 and 1.000000e+00, expected 0 ≤ least ≤ most}}
  %r = hyc.trust_ratio %p, %u {least = 2.0, most = 1.0} : (tensor<f64>, tensor<f64>) -> tensor<f64>
  hyc.return
}

// -----

hyc.state @scale role "fp8.scale" : tensor<f32> from #hyc.fill<1.0 : f64>
hyc.state @history role "fp8.history" : tensor<16xf32> from #hyc.fill<0.0 : f64>
hyc.func @fp8_scale_for_a_range_of_nothing() {
  // expected-error@+1 {{[update_fp8_scale.largest] has 0.000000e+00, expected a number above 0}}
  hyc.update_fp8_scale @scale, @scale, @history amax @scale {largest = 0.0}
  hyc.return
}

// -----

hyc.state @scale role "fp8.scale" : tensor<f32> from #hyc.fill<1.0 : f64>
hyc.func @fp8_scale_with_a_number_for_a_history() {
  // expected-error@+1 {{[update_fp8_scale.types] names @scale of type 'tensor<f32>', expected one dimension of f32}}
  hyc.update_fp8_scale @scale, @scale, @scale amax @scale {largest = 448.0}
  hyc.return
}

// -----

hyc.func @einsum_of_8_bits_into_8_bits(%x: tensor<4x8xf8E4M3FN>, %y: tensor<8x4xf8E5M2>) {
  // expected-error@+2 {{incompatible with return type(s) of operation}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = hyc.einsum "mk,kn->mn" %x, %y : (tensor<4x8xf8E4M3FN>, tensor<8x4xf8E5M2>) -> tensor<4x4xf8E4M3FN>
  hyc.return
}

// -----

hyc.param @w : tensor<4xf32> from #hyc.fill<0.0 : f64>
hyc.state @g of @w role "gradient" : tensor<4xf32> from #hyc.fill<0.0 : f64>
hyc.state @m role "lion.m" : tensor<5xf32> from #hyc.fill<0.0 : f64>
hyc.func @lion_with_a_moment_of_another_shape(%lr: tensor<f32>, %s: tensor<f32>) {
  // expected-error@+1 {{updates @w of type 'tensor<4xf32>' with @m of type 'tensor<5xf32>'}}
  hyc.lion @w, @g, @m lr %lr scale %s {beta1 = 0.9, beta2 = 0.99, weight_decay = 0.0} : tensor<f32>, tensor<f32>
  hyc.return
}

// -----

hyc.func @rms_norm_of_another_width(%x: tensor<2x4xf32>, %s: tensor<3xf32>) {
  // expected-error@+2 {{[rms_norm.shapes] has scale 'tensor<3xf32>' for 'tensor<2x4xf32>'}}
  // expected-error@+1 {{failed to infer returned types}}
  %y, %r = hyc.rms_norm %x, %s epsilon 1.0e-6 : (tensor<2x4xf32>, tensor<3xf32>) -> (tensor<2x4xf32>, tensor<2xf32>)
  hyc.return
}

// -----

hyc.func @group_norm_of_other_channels(%x: tensor<2x4x3x5xf32>, %s: tensor<3x4xf32>) {
  // expected-error@+2 {{[group_norm.shapes] has scale or bias 'tensor<3x4xf32>' for 'tensor<2x4x3x5xf32>', expected (G,C)}}
  // expected-error@+1 {{failed to infer returned types}}
  %y, %m, %r = hyc.group_norm %x, %s, %s epsilon 1.0e-6 : (tensor<2x4x3x5xf32>, tensor<3x4xf32>, tensor<3x4xf32>) -> (tensor<2x4x3x5xf32>, tensor<2x4xf32>, tensor<2x4xf32>)
  hyc.return
}

// -----

hyc.func @rope_of_more_pairs_than_a_head_has(%x: tensor<2x4x2x6xf32>, %c: tensor<4x4xf32>) {
  // expected-error@+2 {{[rope.shapes] has x 'tensor<2x4x2x6xf32>', cos 'tensor<4x4xf32>'}}
  // expected-error@+1 {{failed to infer returned types}}
  %y = hyc.rope %x, %c, %c : (tensor<2x4x2x6xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<2x4x2x6xf32>
  hyc.return
}

// -----

hyc.func @rope_of_fewer_positions_than_tokens(%x: tensor<2x4x2x6xf32>, %c: tensor<3x3xf32>) {
  // expected-error@+2 {{[rope.shapes]}}
  // expected-error@+1 {{failed to infer returned types}}
  %y = hyc.rope %x, %c, %c : (tensor<2x4x2x6xf32>, tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<2x4x2x6xf32>
  hyc.return
}

// -----

hyc.func @rotary_table_of_other_frequencies() {
  // expected-error@+1 {{[rotary_table.shapes] gives 'tensor<4x3xf32>' and 'tensor<4x3xf32>' of 2 frequencies}}
  %c, %s = hyc.rotary_table [1.0, 0.1] factor 1.0 : () -> (tensor<4x3xf32>, tensor<4x3xf32>)
  hyc.return
}

// -----

hyc.func @embedding_padded_by_no_row(%ids: tensor<2xi64>, %table: tensor<5x4xf32>) {
  // expected-error@+1 {{[embedding.padding] pads by row -1, expected a row of the table 'tensor<5x4xf32>'}}
  %e = hyc.embedding %ids, %table padding -1 : (tensor<2xi64>, tensor<5x4xf32>) -> tensor<2x4xf32>
  hyc.return
}

// -----

hyc.func @experts_of_other_sizes(%x: tensor<6x8xf32>, %w: tensor<3x8x4xf32>, %e: tensor<5xi64>) {
  // expected-error@+1 {{[expert_matmul.shapes] has rows 'tensor<6x8xf32>', matrices 'tensor<3x8x4xf32>', results 'tensor<6x4xf32>' and experts 'tensor<5xi64>', expected (N,K), (E,K,M), (N,M) and i64 (N)}}
  %y = hyc.expert_matmul %x, %w, %e : (tensor<6x8xf32>, tensor<3x8x4xf32>, tensor<5xi64>) -> tensor<6x4xf32>
  hyc.return
}

// -----

hyc.func @experts_of_another_type(%x: tensor<6x8xf32>, %w: tensor<3x8x4xbf16>, %e: tensor<6xi64>) {
  // expected-error@+1 {{[expert_matmul.shapes] multiplies 'tensor<6x8xf32>' and 'tensor<3x8x4xbf16>' into 'tensor<6x4xf32>', expected one element type}}
  %y = hyc.expert_matmul %x, %w, %e : (tensor<6x8xf32>, tensor<3x8x4xbf16>, tensor<6xi64>) -> tensor<6x4xf32>
  hyc.return
}

// -----

hyc.func @scan_of_no_steps(%x: tensor<0x2xf32>, %h: tensor<2xf32>) {
  // expected-error@+1 {{[scan.steps] has 0 steps, expected at least one}}
  %y = hyc.scan 0 init(%h) over(%x) : (tensor<2xf32>, tensor<0x2xf32>) -> tensor<2xf32> {
  ^bb0(%own: tensor<2xf32>, %e: tensor<2xf32>):
    hyc.yield %e : tensor<2xf32>
  }
  hyc.return
}

// -----

hyc.func @scan_of_a_shorter_sequence(%x: tensor<3x2xf32>, %h: tensor<2xf32>) {
  // expected-error@+1 {{[scan.steps] goes along 'tensor<3x2xf32>', expected a dimension 0 of 4}}
  %y = hyc.scan 4 init(%h) over(%x) : (tensor<2xf32>, tensor<3x2xf32>) -> tensor<2xf32> {
  ^bb0(%own: tensor<2xf32>, %e: tensor<2xf32>):
    hyc.yield %e : tensor<2xf32>
  }
  hyc.return
}

// -----

hyc.func @scan_whose_step_takes_the_whole(%x: tensor<4x2xf32>, %h: tensor<2xf32>) {
  // expected-error@+1 {{[scan.body] takes ('tensor<2xf32>', 'tensor<4x2xf32>'), expected ('tensor<2xf32>', 'tensor<2xf32>')}}
  %y = hyc.scan 4 init(%h) over(%x) : (tensor<2xf32>, tensor<4x2xf32>) -> tensor<2xf32> {
  ^bb0(%own: tensor<2xf32>, %e: tensor<4x2xf32>):
    hyc.yield %own : tensor<2xf32>
  }
  hyc.return
}

// -----

hyc.func @scan_without_what_it_carries(%x: tensor<4x2xf32>, %h: tensor<2xf32>) {
  // expected-error@+1 {{[scan.body] has 0 results and carries 1 values, expected at least one result for each}}
  hyc.scan 4 init(%h) over(%x) : (tensor<2xf32>, tensor<4x2xf32>) -> () {
  ^bb0(%own: tensor<2xf32>, %e: tensor<2xf32>):
    hyc.yield
  }
  hyc.return
}

// -----

hyc.func @scan_that_carries_on_another_type(%x: tensor<4x3xf32>, %h: tensor<2xf32>) {
  // expected-error@+1 {{[scan.body] yields ('tensor<3xf32>'), expected ('tensor<2xf32>')}}
  %y = hyc.scan 4 init(%h) over(%x) : (tensor<2xf32>, tensor<4x3xf32>) -> tensor<2xf32> {
  ^bb0(%own: tensor<2xf32>, %e: tensor<3xf32>):
    hyc.yield %e : tensor<3xf32>
  }
  hyc.return
}
