// Rows of recipes: an operator's arguments by the names and kinds of torch's schemas.
#include "ArchiveRecipes.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

using namespace hyc::fuzzing;

namespace {
struct Row {
  const char *targets; ///< without "aten.", several where they are used alike
  const char *arguments;
  char result = 'f'; ///< its type
  int results = 1;
  bool isList = false;
};

constexpr Row kRows[] = {
    // Element by element
    {"add.Tensor sub.Tensor", "self=f[n,c,k] other=f[c,k] alpha?=#1..3"},
    {"add.Scalar sub.Scalar", "self=f[n,c] other=% alpha?=#1..3"},
    {"mul.Tensor div.Tensor", "self=f[n,c,k] other=f[k]"},
    {"mul.Scalar div.Scalar", "self=f[n,c] other=%"},
    {"mul.Tensor add.Tensor sub.Tensor", "self=f[n,c] other=i[c]"},
    {"eq.Tensor ne.Tensor lt.Tensor le.Tensor gt.Tensor ge.Tensor", "self=f[n,c] other=f[n,c]", 'b'},
    {"eq.Scalar ne.Scalar lt.Scalar le.Scalar gt.Scalar ge.Scalar", "self=f[n,c] other=%", 'b'},
    {"__and__.Tensor __or__.Tensor bitwise_and.Tensor bitwise_or.Tensor logical_and.default logical_or.default",
     "self=b[n,c] other=b[n,c]", 'b'},
    {"__and__.Scalar __or__.Scalar bitwise_and.Scalar bitwise_or.Scalar", "self=b[n,c] other=?", 'b'},
    {"logical_not.default", "self=b[n,c]", 'b'},
    {"masked_fill.Scalar", "self=f[n,c] mask=b[n,c] value=%"},
    {"masked_fill.Tensor", "self=f[n,c] mask=b[n,c] value=f[]"},
    {"pow.Tensor_Scalar", "self=f[n,c] exponent=#1..3"},
    {"pow.Tensor_Scalar", "self=f[n,c] exponent=%"},
    {"pow.Tensor_Tensor", "self=f[n,c] exponent=f[c]"},
    {"maximum.default minimum.default", "self=f[n,c] other=f[n,c]"},
    {"neg.default abs.default exp.default log.default sqrt.default rsqrt.default reciprocal.default tanh.default "
     "erf.default sin.default cos.default relu.default sigmoid.default silu.default",
     "self=f[n,c,k]"},
    {"gelu.default", "self=f[n,c] approximate?='none|tanh"},
    {"clamp.default", "self=f[n,c] min?=% max?=%"},
    {"where.self", "condition=b[n,c] self=f[n,c] other=f[c]"},
    {"where.ScalarOther", "condition=b[n,c] self=f[n,c] other=%"},
    {"where.ScalarSelf", "condition=b[n,c] self=% other=f[n,c]"},
    {"where.Scalar", "condition=b[n,c] self=% other=%"},
    {"to.dtype", "self=f[n,c] dtype=^"},
    {"to.dtype", "self=i[n,c] dtype=^"},
    {"to.dtype_layout _to_copy.default", "self=b[n,c] dtype=^"},
    {"to.device", "self=f[n,c] dtype=^"},
    {"to.other", "self=i[n,c] other=f[n,c]"},
    {"alias.default clone.default contiguous.default lift_fresh_copy.default", "self=f[n,c]"},
    {"detach.default detach_.default", "self=d[n,c]"},
    {"copy.default", "self=f[n,c] src=f[n,c]"},
    {"dropout.default", "input=f[n,c] p=%0..0 train=!"},
    // Checks, which have no result
    {"_assert_tensor_metadata.default", "a=f[n,c]", 'f', 0},
    {"_assert_async.msg", "self=b[] assert_msg='no", 'b', 0},
    {"_assert_scalar.default", "self=#1..2 assert_msg='no", 'b', 0},
    {"sym_constrain_range.default sym_constrain_range_for_size.default", "size=#1..2 min?=#0..1 max?=#2..9", 'b', 0},
    // Shapes
    {"view.default _unsafe_view.default view_copy.default", "self=f[n,4,6] size=@-1,24"},
    {"reshape.default", "self=f[n,4,6] shape=@4,3,8"},
    {"flatten.using_ints", "self=f[n,c,k] start_dim=#0..1 end_dim?=#-1..2"},
    {"expand.default", "self=f[n,1,3] size=@4,5,-1"},
    {"unsqueeze.default", "self=f[n,c] dim=#-3..2"},
    {"squeeze.default", "self=f[n,1,c,1]"},
    {"squeeze.dim", "self=f[n,1,c] dim=#-2..1"},
    {"squeeze.dims", "self=f[n,1,c,1] dim=@1,-1"},
    {"transpose.int", "self=f[n,c,k] dim0=#-3..2 dim1=#-3..2"},
    {"t.default", "self=f[n,c]"},
    {"permute.default", "self=f[n,c,k] dims=@2,0,-2"},
    {"slice.Tensor", "self=f[n,c,4] dim?=#1..2 start?=#0..0 end?=#1..9 step?=#1..2"},
    {"select.int", "self=f[n,c,3] dim=#-1..-1 index=#-3..2"},
    {"index.Tensor", "self=f[n,5] indices=oi[3]{0..3}"},
    {"gather.default", "self=f[n,3] dim=#1..1 index=i[n,2]{0..2}"},
    {"embedding.default", "weight=f[5,c] indices=i[n,k]{0..4}"},
    {"cat.default", "tensors=f[n,c]*2 dim?=#-2..1"},
    {"stack.default", "tensors=f[n,c]*2 dim?=#-3..2"},
    {"split.Tensor", "self=f[n,4] split_size=#2..2 dim=#1..1", 'f', 2, true},
    {"split_with_sizes.default", "self=f[n,4] split_sizes=@1,3 dim=#-1..-1", 'f', 2, true},
    {"chunk.default", "self=f[n,4] chunks=#2..2 dim=#1..1", 'f', 2, true},
    {"arange.default", "end=#1..5", 'i'},
    {"arange.start", "start=#0..1 end=#2..5", 'i'},
    {"arange.start_step", "start=#0..1 end=#4..9 step?=#1..3", 'i'},
    {"ones.default zeros.default", "size=@2,3"},
    {"new_ones.default new_zeros.default", "self=f[n,c] size=@2,3"},
    {"ones_like.default zeros_like.default", "self=f[n,c]"},
    {"full.default", "size=@2,3 fill_value=%"},
    {"full.default", "size=@2,3 fill_value=#-3..3", 'i'},
    {"new_full.default", "self=f[n,c] size=@2 fill_value=%"},
    {"full_like.default", "self=f[n,c] fill_value=%"},
    {"scalar_tensor.default", "s=%"},
    {"tril.default triu.default", "self=f[n,c,k] diagonal?=#-2..2"},
    {"cumsum.default", "self=f[n,c] dim=#-2..1"},
    {"diff.default", "self=f[n,4] n?=#1..1 dim?=#-1..1 prepend?=f[n,4]"},
    // Sizes that are computed
    {"sym_size.int", "self=f[n,c] dim=#0..1", 's'},
    {"_operator.add _operator.sub _operator.mul _operator.floordiv", "a=s b=#1..3", 's'},
    // Contractions and reductions
    {"matmul.default", "self=f[n,c,k] other=f[k,m]"},
    {"mm.default", "self=f[n,k] mat2=f[k,m]"},
    {"bmm.default", "self=f[n,c,k] mat2=f[n,k,m]"},
    {"linear.default", "input=f[n,c,k] weight=f[m,k] bias?=f[m]"},
    {"addmm.default", "self=f[m] mat1=f[n,k] mat2=f[k,m] beta?=% alpha?=%"},
    {"sum.default mean.default", "self=f[n,c]"},
    {"sum.dim_IntList mean.dim amax.default amin.default", "self=f[n,c,k] dim=@-1,0 keepdim?=?"},
    {"softmax.int", "self=f[n,c,k] dim=#-3..2"},
    {"_softmax.default", "self=f[n,c,k] dim=#-3..2 half_to_float=!"},
    {"layer_norm.default", "input=f[n,c,4] normalized_shape=@4 weight?=f[4] bias?=f[4] eps?=%"},
    {"scaled_dot_product_attention.default", "query=f[n,2,c,4] key=f[n,2,k,4] value=f[n,2,k,m] scale?=% is_causal?=?"},
    // Windows
    {"conv2d.default", "input=f[n,4,5,5] weight=f[2,4,2,2] bias?=f[2] stride?=@1,2 padding?=@1,0 dilation?=@1,1"},
    {"conv2d.default", "input=f[n,4,5,5] weight=f[4,2,2,2] bias?=f[4] groups=#2..2"},
    {"conv1d.default", "input=f[n,4,5] weight=f[2,4,2] bias?=f[2] stride?=@2 padding?=@1 dilation?=@2"},
    {"conv3d.default", "input=f[n,2,3,3,3] weight=f[2,2,2,2,2] bias?=f[2] stride?=@1,1,2"},
    {"convolution.default", "input=f[n,4,5,5] weight=f[2,4,2,2] bias?=f[2] stride=@1,2 padding=@1,0 dilation=@1,1 "
                            "transposed=! output_padding=@0,0 groups=#1..1"},
    {"max_pool1d.default", "self=f[n,2,6] kernel_size=@2 stride?=@2 padding?=@1 ceil_mode?=?"},
    {"max_pool2d.default", "self=f[n,2,6,6] kernel_size=@2,2 stride?=@2,1 padding?=@1,0 ceil_mode?=?"},
    {"max_pool2d_with_indices.default", "self=f[n,2,6,6] kernel_size=@2,2 stride?=@2,1", 'f', 2},
    {"avg_pool1d.default", "self=f[n,2,6] kernel_size=@2 stride?=@2 count_include_pad?=?"},
    {"avg_pool2d.default", "self=f[n,2,6,6] kernel_size=@2,2 stride?=@2,1 padding?=@1,0 count_include_pad?=?"},
    {"adaptive_avg_pool1d.default", "self=f[n,2,6] output_size=@3"},
    {"adaptive_avg_pool2d.default", "self=f[n,2,6,6] output_size=@3,2"},
    {"batch_norm.default", "input=f[n,c,k] weight=f[c] bias=f[c] running_mean=a[c] running_var=a[c] training=? "
                           "momentum=%0.1..0.1 eps=% cudnn_enabled=?"},
    {"_native_batch_norm_legit_no_training.default",
     "input=f[n,c,k] weight=f[c] bias=f[c] running_mean=a[c] running_var=a[c] momentum=% eps=%", 'f', 3},
    {"_native_batch_norm_legit_functional.default",
     "input=f[n,c,k] weight=f[c] bias=f[c] running_mean=a[c] running_var=a[c] training=? momentum=% eps=%", 'f', 5},
};
} // namespace

std::vector<ArchiveRecipe> hyc::fuzzing::archiveRecipes() {
  std::vector<ArchiveRecipe> recipes;
  for (const Row &row : kRows) {
    llvm::SmallVector<llvm::StringRef> targets, arguments;
    llvm::StringRef(row.targets).split(targets, ' ', -1, false);
    llvm::StringRef(row.arguments).split(arguments, ' ', -1, false);
    for (llvm::StringRef target : targets) {
      ArchiveRecipe recipe{
          (target.starts_with("_operator") ? "" : "aten.") + target.str(), {}, row.result, row.results, row.isList};
      for (llvm::StringRef argument : arguments) {
        auto [name, kind] = argument.split('=');
        bool isOptional = name.consume_back("?");
        recipe.arguments.push_back({name.str(), kind.str(), isOptional});
      }
      recipes.push_back(std::move(recipe));
    }
  }
  return recipes;
}
