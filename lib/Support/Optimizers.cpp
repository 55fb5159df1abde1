// What is asked of the table of optimizers.
#include "hyc/Support/Optimizers.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

using namespace llvm;
using namespace hyc;

static constexpr char kEvery[] = "lr weight_decay max_grad_norm";

bool Optimizer::takesParameter(StringRef parameter) const {
  SmallVector<StringRef> names;
  StringRef(kEvery).split(names, ' ');
  takes.split(names, ' ');
  return is_contained(names, parameter);
}

const Optimizer *hyc::findOptimizer(StringRef name) {
  const Optimizer *row = find_if(kOptimizers, [&](const Optimizer &o) { return name.equals_insensitive(o.name); });
  return row == std::end(kOptimizers) ? nullptr : row;
}

std::string hyc::listConfigOptimizers() {
  std::string text;
  for (const Optimizer &optimizer : kOptimizers) {
    bool isLast = &optimizer == std::end(kOptimizers) - 1;
    text += (text.empty() ? "" : isLast ? " or " : ", ") + optimizer.configName.str();
  }
  return text;
}
