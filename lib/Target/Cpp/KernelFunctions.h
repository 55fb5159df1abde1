// What bodies of generated kernels call, on CPUs and GPUs: the functions of dialects/Rank/ScalarFunctions.h that are
// not in any library, and how a result is written.
#ifndef HYC_LIB_TARGET_CPP_KERNELFUNCTIONS_H
#define HYC_LIB_TARGET_CPP_KERNELFUNCTIONS_H

#include "dialects/Rank/ScalarFunctions.h"

#include <string>

namespace hyc::cpp {

/// Their definitions, to the end of the unnamed namespace that they are in.
inline std::string kernelFunctions() {
  std::string text;
  for (const rank::ScalarFunction &function : rank::getScalarFunctions())
    text += function.definition;
  text += R"(template <typename T>
inline void write(T& out, T value, WriteMode mode) {
  out = mode == WriteMode::kAccumulate ? T(out + value) : value;  // of 16 bits: added in f32, rounded once
}

}  // namespace

)";
  return text;
}

} // namespace hyc::cpp

#endif // HYC_LIB_TARGET_CPP_KERNELFUNCTIONS_H
