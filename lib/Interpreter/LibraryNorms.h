// What ops of the model and calls of programs have in common: rms_norm and rotary positions over whole tensors. Shapes
// have been checked by the caller; results are written whole.
#ifndef HYC_LIB_INTERPRETER_LIBRARYNORMS_H
#define HYC_LIB_INTERPRETER_LIBRARYNORMS_H

#include "hyc/Interpreter/Tensor.h"

namespace hyc::interpreter {

void computeRmsNorm(double epsilon, const Tensor &x, const Tensor &scale, Tensor &y, Tensor &rstd);
void computeRmsNormGrad(const Tensor &x, const Tensor &scale, const Tensor &rstd, const Tensor &dy, Tensor &dx,
                        Tensor &dscale);
void computeRotaryTable(llvm::ArrayRef<float> frequencies, double factor, Tensor &cos, Tensor &sin);
void computeRope(bool inverse, const Tensor &x, const Tensor &cos, const Tensor &sin, Tensor &y);

} // namespace hyc::interpreter

#endif // HYC_LIB_INTERPRETER_LIBRARYNORMS_H
