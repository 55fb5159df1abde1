// Operators that hyc will not read, each with the reason and what serves instead: they are no gap in the tables.
#include "Translator.h"

#include "llvm/ADT/StringMap.h"

using namespace hyc::torchexport;
using llvm::StringRef;

namespace {
constexpr char kBackward[] = "it is torch's own backward, and hyc differentiates for itself; export forward alone";
constexpr char kOut[] = "it writes into a tensor that is given to it (out=); call it without, and use its result, or "
                        "export the program after .run_decompositions({}), which writes nothing in place";
constexpr char kShape[] = "how many elements its result has depends on values known only when it runs; write it with a "
                          "mask of fixed size, such as torch.where";
constexpr char kFactors[] =
    "hyc has no matrix factorisations; compute what is made of it before the model, and give it "
    "as an input";

constexpr char kPacked[] = "it runs over packed sequences, whose lengths are known only when it runs; give the layer "
                           "sequences that are padded to "
                           "one length (no pack_padded_sequence), and mask what is behind their ends";

struct Refusal {
  StringRef target, why;
};

constexpr Refusal kRefusals[] = {
    {"aten._adaptive_avg_pool2d_backward.default", kBackward},
    {"aten.avg_pool2d_backward.default", kBackward},
    {"aten.convolution_backward.default", kBackward},
    {"aten.embedding_dense_backward.default", kBackward},
    {"aten.max_pool2d_with_indices_backward.default", kBackward},
    {"aten.native_group_norm_backward.default", kBackward},
    {"aten.native_layer_norm_backward.default", kBackward},
    {"aten.repeat_interleave.Tensor", kShape},
    {"aten.repeat_interleave.self_Tensor", kShape},
    {"aten.cholesky.default", kFactors},
    {"aten.linalg_cholesky.default", kFactors},
    {"aten.linalg_cholesky_ex.default", kFactors},
    {"aten.linalg_eig.default", kFactors},
    {"aten.linalg_eigvals.default", kFactors},
    {"aten.linalg_eigh.default", kFactors},
    {"aten._linalg_eigh.default", kFactors},
    {"aten.linalg_eigvalsh.default", kFactors},
    {"aten.linalg_qr.default", kFactors},
    {"aten.linalg_svd.default", kFactors},
    {"aten._linalg_svd.default", kFactors},
    {"aten.linalg_svdvals.default", kFactors},
    {"aten.linalg_solve.default", kFactors},
    {"aten.linalg_solve_ex.default", kFactors},
    {"aten._linalg_solve_ex.default", kFactors},
    {"aten.linalg_solve_triangular.default", kFactors},
    {"aten.triangular_solve.default", kFactors},
    {"aten.cholesky_solve.default", kFactors},
    {"aten.cholesky_inverse.default", kFactors},
    {"aten.linalg_lstsq.default", kFactors},
    {"aten.linalg_lu.default", kFactors},
    {"aten.linalg_lu_factor.default", kFactors},
    {"aten.linalg_lu_factor_ex.default", kFactors},
    {"aten.linalg_lu_solve.default", kFactors},
    {"aten.linalg_ldl_factor_ex.default", kFactors},
    {"aten.linalg_inv.default", kFactors},
    {"aten.linalg_inv_ex.default", kFactors},
    {"aten.inverse.default", kFactors},
    {"aten.linalg_pinv.default", kFactors},
    {"aten.linalg_pinv.atol_rtol_tensor", kFactors},
    {"aten.linalg_pinv.atol_rtol_float", kFactors},
    {"aten.pinverse.default", kFactors},
    {"aten.linalg_matrix_exp.default", kFactors},
    {"aten.matrix_exp.default", kFactors},
    {"aten.lstm.data", kPacked},
    {"aten.gru.data", kPacked},
    {"aten.rnn_tanh.data", kPacked},
    {"aten.rnn_relu.data", kPacked},
    {"aten._pack_padded_sequence.default", kPacked},
    {"aten._pad_packed_sequence.default", kPacked},
};
} // namespace

StringRef hyc::torchexport::refusalOf(StringRef target) {
  static const llvm::StringMap<StringRef> table = [] {
    llvm::StringMap<StringRef> result;
    for (const Refusal &refusal : kRefusals)
      result[refusal.target] = refusal.why;
    return result;
  }();
  // Writing into what is given is refused of any operator that is not known otherwise.
  return table.contains(target) || !writesOut(target) || withoutWriting(target) ? table.lookup(target)
                                                                                : StringRef(kOut);
}

llvm::SmallVector<StringRef> hyc::torchexport::allRefused() {
  llvm::SmallVector<StringRef> targets;
  for (const Refusal &refusal : kRefusals)
    targets.push_back(refusal.target);
  return targets;
}
