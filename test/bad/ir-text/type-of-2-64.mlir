hyc.param @w : tensor<4294967296x4294967296xf32> from #hyc.fill<0.0>
