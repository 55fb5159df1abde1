// RUN: hyc-opt %s -split-input-file -verify-diagnostics

hyc.func @weights_of_other_rank(%x: tensor<1x3x5xf32>, %w: tensor<2x3x2x2xf32>) {
  // expected-error@+1 {{[convolution.ranks] has x 'tensor<1x3x5xf32>', weights 'tensor<2x3x2x2xf32>'}}
  %0 = hyc.convolution %x, %w strides [1] dilations [1] pads [0] [0] : (tensor<1x3x5xf32>, tensor<2x3x2x2xf32>) -> tensor<1x2x4xf32>
  hyc.return
}

// -----

hyc.func @four_spatial_dimensions(%x: tensor<1x1x2x2x2x2xf32>) {
  // expected-error@+1 {{[convolution.ranks] slides along 4 dimensions, expected 1 to 3}}
  %0 = hyc.convolution %x, %x strides [1, 1, 1, 1] dilations [1, 1, 1, 1] pads [0, 0, 0, 0] [0, 0, 0, 0] : (tensor<1x1x2x2x2x2xf32>, tensor<1x1x2x2x2x2xf32>) -> tensor<1x1x1x1x1x1xf32>
  hyc.return
}

// -----

hyc.func @stride_of_zero(%x: tensor<1x3x5xf32>, %w: tensor<2x3x2xf32>) {
  // expected-error@+1 {{[convolution.ranks] has a stride or a dilation below 1}}
  %0 = hyc.convolution %x, %w strides [0] dilations [1] pads [0] [0] : (tensor<1x3x5xf32>, tensor<2x3x2xf32>) -> tensor<1x2x4xf32>
  hyc.return
}

// -----

hyc.func @negative_padding(%x: tensor<1x3x5xf32>, %w: tensor<2x3x2xf32>) {
  // expected-error@+1 {{[convolution.ranks] has negative padding}}
  %0 = hyc.convolution %x, %w strides [1] dilations [1] pads [-1] [0] : (tensor<1x3x5xf32>, tensor<2x3x2xf32>) -> tensor<1x2x4xf32>
  hyc.return
}

// -----

hyc.func @channels_that_do_not_agree(%x: tensor<1x4x5xf32>, %w: tensor<2x3x2xf32>) {
  // expected-error@+1 {{[convolution.channels]}}
  %0 = hyc.convolution %x, %w strides [1] dilations [1] pads [0] [0] : (tensor<1x4x5xf32>, tensor<2x3x2xf32>) -> tensor<1x2x4xf32>
  hyc.return
}

// -----

hyc.func @groups_that_do_not_divide(%x: tensor<1x4x5xf32>, %w: tensor<3x2x2xf32>) {
  // expected-error@+1 {{[convolution.channels]}}
  %0 = hyc.convolution %x, %w strides [1] dilations [1] pads [0] [0] {groups = 2 : i64} : (tensor<1x4x5xf32>, tensor<3x2x2xf32>) -> tensor<1x3x4xf32>
  hyc.return
}

// -----

hyc.func @positions_of_another_number(%x: tensor<1x3x5xf32>, %w: tensor<2x3x2xf32>) {
  // expected-error@+1 {{[convolution.positions] has 5 positions along spatial dimension 0, expected 4}}
  %0 = hyc.convolution %x, %w strides [1] dilations [1] pads [0] [0] : (tensor<1x3x5xf32>, tensor<2x3x2xf32>) -> tensor<1x2x5xf32>
  hyc.return
}

// -----

hyc.func @kernel_that_does_not_fit(%x: tensor<1x3x5xf32>, %w: tensor<2x3x3xf32>) {
  // expected-error@+1 {{[convolution.positions] has a kernel of 3 elements, 4 apart, over 5 elements}}
  %0 = hyc.convolution %x, %w strides [1] dilations [4] pads [0] [0] : (tensor<1x3x5xf32>, tensor<2x3x3xf32>) -> tensor<1x2x1xf32>
  hyc.return
}

// -----

hyc.func @transposed_into_another_size(%y: tensor<1x2x4xf32>, %w: tensor<2x3x2xf32>) {
  // expected-error@+1 {{[convolution.positions] has 4 positions along spatial dimension 0, expected 6}}
  %0 = hyc.convolution_transpose %y, %w strides [1] dilations [1] pads [0] [0] : (tensor<1x2x4xf32>, tensor<2x3x2xf32>) -> tensor<1x3x7xf32>
  hyc.return
}

// -----

hyc.func @pool_window_of_other_rank(%x: tensor<1x3x5xf32>) {
  // expected-error@+1 {{[max_pool.ranks] has a window of 2 dimensions, expected 1}}
  %0, %1 = hyc.max_pool %x window [2, 2] strides [1] dilations [1] pads [0] [0] : (tensor<1x3x5xf32>) -> (tensor<1x3x4xf32>, tensor<1x3x4xi64>)
  hyc.return
}

// -----

hyc.func @pool_with_places_of_32_bits(%x: tensor<1x3x5xf32>) {
  // expected-error@+1 {{[max_pool.positions] gives 'tensor<1x3x4xf32>' and 'tensor<1x3x4xi32>'}}
  %0, %1 = hyc.max_pool %x window [2] strides [1] dilations [1] pads [0] [0] : (tensor<1x3x5xf32>) -> (tensor<1x3x4xf32>, tensor<1x3x4xi32>)
  hyc.return
}

// -----

hyc.func @gather_before_its_batch(%x: tensor<4x5xf32>, %i: tensor<4x2xi64>) {
  // expected-error@+2 {{[gather.dims] picks of dimension 0 of 'tensor<4x5xf32>'}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = hyc.gather %x, %i dim 0 batch 1 : (tensor<4x5xf32>, tensor<4x2xi64>) -> tensor<4x2xf32>
  hyc.return
}

// -----

hyc.func @gather_by_reals(%x: tensor<4x5xf32>, %i: tensor<2xf32>) {
  // expected-error@+2 {{[gather.indices]}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = hyc.gather %x, %i dim 0 batch 0 : (tensor<4x5xf32>, tensor<2xf32>) -> tensor<2x5xf32>
  hyc.return
}

// -----

hyc.func @scatter_of_other_shape(%u: tensor<3x5xf32>, %i: tensor<2xi64>) {
  // expected-error@+1 {{[scatter.shapes] puts 'tensor<3x5xf32>' by 'tensor<2xi64>' into dimension 0 of 'tensor<4x5xf32>'}}
  %0 = hyc.scatter sum %i, %u dim 0 batch 0 : (tensor<2xi64>, tensor<3x5xf32>) -> tensor<4x5xf32>
  hyc.return
}

// -----

hyc.func @resample_beyond_the_last_dimension(%x: tensor<1x3xf32>) {
  // expected-error@+2 {{[resample.dims] resamples from dimension 1 on of 'tensor<1x3xf32>' by 2 lists of first taps and 2 of weights, expected one of each}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = hyc.resample %x dim 1 firsts [array<i64: 0>, array<i64: 0>] weights [array<f64: 1.0>, array<f64: 1.0>] : (tensor<1x3xf32>) -> tensor<1x1xf32>
  hyc.return
}

// -----

hyc.func @resample_by_more_weights_than_first_taps(%x: tensor<1x3xf32>) {
  // expected-error@+2 {{[resample.dims] resamples from dimension 0 on of 'tensor<1x3xf32>' by 1 lists of first taps and 2 of weights}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = hyc.resample %x dim 0 firsts [array<i64: 0>] weights [array<f64: 1.0>, array<f64: 1.0>] : (tensor<1x3xf32>) -> tensor<1x3xf32>
  hyc.return
}

// -----

hyc.func @resample_of_integers(%x: tensor<1x3xi64>) {
  // expected-error@+2 {{[resample.dims] resamples from dimension 1 on of 'tensor<1x3xi64>'}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = hyc.resample %x dim 1 firsts [array<i64: 0>] weights [array<f64: 1.0>] : (tensor<1x3xi64>) -> tensor<1x1xi64>
  hyc.return
}

// -----

hyc.func @resample_with_taps_outside(%x: tensor<1x3xf32>) {
  // expected-error@+2 {{[resample.tables] makes 2 elements with 4 weights of dimension 1 of 'tensor<1x3xf32>', expected as many taps for each, all of them inside}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = hyc.resample %x dim 1 firsts [array<i64: 0, 2>] weights [array<f64: 1.0, 0.0, 0.5, 0.5>] : (tensor<1x3xf32>) -> tensor<1x2xf32>
  hyc.return
}

// -----

hyc.func @resample_with_rows_of_unequal_length(%x: tensor<1x3xf32>) {
  // expected-error@+2 {{[resample.tables] makes 2 elements with 3 weights of dimension 1}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = hyc.resample %x dim 1 firsts [array<i64: 0, 1>] weights [array<f64: 1.0, 0.5, 0.5>] : (tensor<1x3xf32>) -> tensor<1x2xf32>
  hyc.return
}

// -----

hyc.func @cumsum_beyond_the_last_dimension(%x: tensor<4xf32>) {
  // expected-error@+1 {{[cumsum.dim] adds along dimension 1 of 'tensor<4xf32>'}}
  %0 = hyc.cumsum %x dim 1 : tensor<4xf32>
  hyc.return
}

// -----

hyc.func @order_of_a_number(%x: tensor<f32>) {
  // expected-error@+2 {{[argsort.rows] orders 'tensor<f32>', which has no rows}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = hyc.argsort %x : (tensor<f32>) -> tensor<i64>
  hyc.return
}

// -----

hyc.func @more_than_a_row_has(%x: tensor<2x4xf32>) {
  // expected-error@+2 {{[argsort.first] takes 5 elements of rows of 4}}
  // expected-error@+1 {{failed to infer returned types}}
  %0 = hyc.argsort %x first 5 : (tensor<2x4xf32>) -> tensor<2x5xi64>
  hyc.return
}

// -----

hyc.func @dequantize_of_numbers(%c: tensor<8x16xi8>, %s: tensor<8xf32>) {
  // expected-error@+1 {{[dequantize.codes] makes 'tensor<8x16xf32>' of codes 'tensor<8x16xi8>', expected ui8 of that shape}}
  %w = hyc.dequantize int8 %c, %s block 16 strides [16, 1] : (tensor<8x16xi8>, tensor<8xf32>) -> tensor<8x16xf32>
  hyc.return
}

// -----

hyc.func @dequantize_of_a_byte_each(%c: tensor<8x16xui8>, %a: tensor<2xui8>, %s: tensor<1xf32>, %m: tensor<f32>) {
  // expected-error@+1 {{[dequantize.codes] makes 'tensor<8x16xf32>' of codes 'tensor<8x16xui8>'}}
  %w = hyc.dequantize nf4 %c, %a, %s, %m block 64 strides [16, 1] : (tensor<8x16xui8>, tensor<2xui8>, tensor<1xf32>, tensor<f32>) -> tensor<8x16xf32>
  hyc.return
}

// -----

hyc.func @dequantize_without_a_mean(%c: tensor<8x8xui8>, %a: tensor<2xui8>, %s: tensor<1xf32>) {
  // expected-error@+1 {{[dequantize.scales] has 2 operands beside its codes, expected 3 and perhaps an offset, an i64 scalar}}
  %w = hyc.dequantize nf4 %c, %a, %s block 64 strides [16, 1] : (tensor<8x8xui8>, tensor<2xui8>, tensor<1xf32>) -> tensor<8x16xf32>
  hyc.return
}

// -----

hyc.func @dequantize_in_fewer_strides(%c: tensor<8x16xui8>, %s: tensor<8xf32>) {
  // expected-error@+1 {{[dequantize.place] has block 16 and strides [1] for 'tensor<8x16xf32>'}}
  %w = hyc.dequantize int8 %c, %s block 16 strides [1] : (tensor<8x16xui8>, tensor<8xf32>) -> tensor<8x16xf32>
  hyc.return
}
