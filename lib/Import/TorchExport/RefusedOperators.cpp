// Operators that hyc will not read, each with the reason and what serves instead: they are no gap in the tables.
#include "Translator.h"

#include "llvm/ADT/StringMap.h"

using namespace hyc::torchexport;
using llvm::StringRef;

namespace {
constexpr char kBackward[] = "it is torch's own backward, and hyc differentiates for itself; export forward alone";
constexpr char kOut[] = "it writes into a tensor that is given to it (out=); call it without, and use its result";
constexpr char kShape[] = "how many elements its result has depends on values known only when it runs; write it with a "
                          "mask of fixed size, such as torch.where";
constexpr char kFactors[] =
    "hyc has no matrix factorisations; compute what is made of it before the model, and give it "
    "as an input";

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
    {"aten.atan2.out", kOut},
    {"aten.repeat_interleave.Tensor", kShape},
    {"aten.repeat_interleave.self_Tensor", kShape},
    {"aten.linalg_cholesky.default", kFactors},
    {"aten.linalg_eigvalsh.default", kFactors},
    {"aten.linalg_qr.default", kFactors},
    {"aten.linalg_svdvals.default", kFactors},
    {"aten.linalg_solve.default", kFactors},
};
} // namespace

StringRef hyc::torchexport::refusalOf(StringRef target) {
  static const llvm::StringMap<StringRef> table = [] {
    llvm::StringMap<StringRef> result;
    for (const Refusal &refusal : kRefusals)
      result[refusal.target] = refusal.why;
    return result;
  }();
  return table.lookup(target);
}

llvm::SmallVector<StringRef> hyc::torchexport::allRefused() {
  llvm::SmallVector<StringRef> targets;
  for (const Refusal &refusal : kRefusals)
    targets.push_back(refusal.target);
  return targets;
}
