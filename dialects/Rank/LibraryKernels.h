// The kernels that rank.call names: results, then inputs, in the order of the call's operands. Most mirror
// kernels/<op>/op.h; the rest are single statements of generated code.
#ifndef HYC_DIALECTS_RANK_LIBRARYKERNELS_H
#define HYC_DIALECTS_RANK_LIBRARYKERNELS_H

#include "llvm/ADT/StringRef.h"

namespace hyc::rank {

struct LibraryKernel {
  llvm::StringLiteral name;
  unsigned outs;
  unsigned ins;
  unsigned optionalIns; // further inputs that may be left out
};

inline constexpr LibraryKernel kLibraryKernels[] = {
    // y, mean, rstd = x, scale, bias                              {epsilon}
    {"layer_norm", 3, 3, 0},
    // dx, dscale, dbias, workspace = x, scale, mean, rstd, dy     the mode is that of dscale and dbias
    {"layer_norm_grad", 4, 5, 0},
    // y, rstd = x, scale                                          {epsilon}
    {"rms_norm", 2, 2, 0},
    // dx, dscale, workspace = x, scale, rstd, dy                  the mode is that of dscale
    {"rms_norm_grad", 3, 4, 0},
    // y = x, cos, sin                                             {inverse}
    {"rope", 1, 3, 0},
    // cos, sin of position times frequency                        {frequencies, factor}
    {"rotary_table", 2, 0, 0},
    // o, lse = q, k, v, a key a sample, place of the first head   {scale, causal, dropout}
    {"attention", 2, 3, 2},
    // dq, dk, dv = q, k, v, o, lse, do, keys, place               {scale, causal, dropout}
    {"attention_grad", 3, 6, 2},
    // y = ids, table, first row held
    {"embedding", 1, 2, 1},
    // dtable = ids, dy, first row held
    {"embedding_grad", 1, 2, 1},
    // loss_sum, count, lse, scratch a token = logits, labels      {ignore_index}
    {"cross_entropy", 4, 2, 0},
    // dlogits = cotangent, logits, labels, lse, first column      {ignore_index, vocabulary}
    {"cross_entropy_grad", 1, 4, 1},
    // max = logits, first column                                  {vocabulary}
    {"vocab_max", 1, 2, 0},
    // sum_exp, picked = logits, max, labels, first column         {vocabulary}
    {"vocab_sum_exp", 2, 4, 0},
    // loss_sum, count, lse = max, sum_exp, picked, labels         {ignore_index}
    {"vocab_loss", 3, 4, 0},
    // y, columns = x, w                                           {strides, dilations, low, groups}
    {"convolution", 2, 2, 0},
    // x, columns = y, w                                           as above
    {"convolution_transpose", 2, 2, 0},
    // w, columns = x, y                                           as above
    {"convolution_weight", 2, 2, 0},
    // y, indices = x                                              {window, strides, dilations, low}
    {"max_pool", 2, 1, 0},
    // rows = data, indices                                        {dim, batch}
    {"gather", 1, 2, 0},
    // data = indices, rows                                        {kind, dim, batch}
    {"scatter", 1, 2, 0},
    // y = x                                                       {dim, reverse, exclusive}
    {"cumsum", 1, 1, 0},
    // order, workspace = x                                        {descending}
    {"argsort", 2, 1, 0},
    // y = x, of equal shape, any strides
    {"strided_copy", 1, 1, 0},
    // y = or += x, dense
    {"accumulate", 1, 1, 0},
    // y = or the greater of y and x, scalars of f32
    {"accumulate_max", 1, 1, 0},
    // y = a number everywhere                                     {value}
    {"fill", 1, 0, 0},
    // y = values in the program                                   {values}
    {"constant", 1, 0, 0},
    // y = x, rounded to y's type
    {"round", 1, 1, 0},
    // exact sum = or += Σ x², one f64 a block
    {"sum_of_squares", 1, 1, 0},
    // y = exact sum, rounded
    {"round_sum", 1, 1, 0},
    // scale, norm = sum of squares, count, loss scale             {max_norm, normalizer}
    {"gradient_scale", 2, 2, 1},
    // counter += 1 = predicate
    {"increment", 1, 0, 1},
    // Updates: the predicate, where there is one, is the last input. The momentum, this step's beta1, is an input
    // before
    // it with {cycles}, which takes the place of {beta1}'s value.
    // p, m, v = gradient, lr, step, scale, momentum, predicate    {beta1, beta2, epsilon, weight_decay, uncorrected}
    {"adamw", 3, 4, 2},
    {"adam", 3, 4, 2},
    // direction (in the place of the gradient), m, v = p, step, scale, momentum, predicate      as above
    {"lamb_direction", 3, 3, 2},
    // ratio = squares of the parameter, of the direction          {least, most}
    {"trust_ratio", 1, 2, 0},
    // p = direction, lr, ratio, predicate
    {"lamb", 1, 3, 1},
    // p, m = gradient, lr, scale, momentum, predicate             {beta1, beta2, weight_decay}
    {"lion", 2, 3, 2},
    // p = gradient, lr, scale, predicate                          {weight_decay}
    {"sgd", 1, 3, 1},
    // p, velocity = gradient, lr, scale, predicate                {momentum, weight_decay}
    {"sgd_momentum", 2, 3, 1},
    // scale, good steps, hysteresis left = whether finite         {window, hysteresis, min_scale,
    // consecutive_hysteresis}
    {"update_loss_scale", 3, 1, 0},
    // scale, inverse, history = amax                              {largest}
    {"update_fp8_scale", 3, 1, 0},
    // the end of a buffer's life: under hyc-run --poison nothing of it is left
    {"poison", 1, 0, 0},
    // y = coordinate along axes · size                            {axes, size}
    {"shard_offset", 1, 0, 0},
    // y = this rank's shard of x, zeros beyond its end            {dim, axes}
    {"slice_shard", 1, 1, 0},
};

inline const LibraryKernel *findLibraryKernel(llvm::StringRef name) {
  for (const LibraryKernel &kernel : kLibraryKernels)
    if (kernel.name == name)
      return &kernel;
  return nullptr;
}

} // namespace hyc::rank

#endif // HYC_DIALECTS_RANK_LIBRARYKERNELS_H
