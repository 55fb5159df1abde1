// The functions that rank.compute names, with their number of operands: the elementwise ops of hyc, by the same names.
#ifndef HYC_DIALECTS_RANK_SCALARFUNCTIONS_H
#define HYC_DIALECTS_RANK_SCALARFUNCTIONS_H

#include "llvm/ADT/StringRef.h"

namespace hyc::rank {

struct ScalarFunction {
  llvm::StringLiteral name;
  unsigned operands;
};

// gelu_tanh and gelu_tanh_grad are hyc.gelu and hyc.gelu_grad with their `tanh` attribute; compare_xx is hyc.compare;
// random_word(key, n) is the 32 random bits, as an i64, that hyc.dropout_mask's description defines.
inline constexpr ScalarFunction kScalarFunctions[] = {
    {"neg", 1},        {"abs", 1},        {"exp", 1},
    {"log", 1},        {"sqrt", 1},       {"rsqrt", 1},
    {"reciprocal", 1}, {"tanh", 1},       {"erf", 1},
    {"sin", 1},        {"cos", 1},        {"relu", 1},
    {"sigmoid", 1},    {"add", 2},        {"sub", 2},
    {"mul", 2},        {"div", 2},        {"pow", 2},
    {"max", 2},        {"min", 2},        {"and", 2},
    {"or", 2},         {"not", 1},        {"gelu", 1},
    {"gelu_tanh", 1},  {"gelu_grad", 2},  {"gelu_tanh_grad", 2},
    {"compare_eq", 2}, {"compare_ne", 2}, {"compare_lt", 2},
    {"compare_le", 2}, {"compare_gt", 2}, {"compare_ge", 2},
    {"select", 3},     {"convert", 1},    {"random_word", 2},
    {"floor", 1},      {"ceil", 1},       {"round", 1},
    {"sign", 1},       {"tan", 1},        {"asin", 1},
    {"acos", 1},       {"atan", 1},       {"sinh", 1},
    {"cosh", 1},       {"asinh", 1},      {"acosh", 1},
    {"atanh", 1},      {"softplus", 1},   {"rem", 2},
};

inline const ScalarFunction *findScalarFunction(llvm::StringRef name) {
  for (const ScalarFunction &function : kScalarFunctions)
    if (function.name == name)
      return &function;
  return nullptr;
}

} // namespace hyc::rank

#endif // HYC_DIALECTS_RANK_SCALARFUNCTIONS_H
