// One node test on its way to C++: the model, its inputs and outputs, and what was emitted for it.
#ifndef HYC_TEST_CONFORMANCE_LOWEREDTEST_H
#define HYC_TEST_CONFORMANCE_LOWEREDTEST_H

#include "TensorFile.h"

#include <map>
#include <string>
#include <vector>

namespace hyc::conformance {

/// Where a tensor lies when the program runs.
struct Place {
  int arena = 0;
  int64_t offset = 0;
};

struct LoweredTest {
  std::string name;      // "abs"
  std::string reason;    // why there is no program; empty if there is one
  std::string source;    // the emitted C++ without its includes
  std::string addresses; // addresses.h, which all programs share
  std::vector<int64_t> arenaBytes;
  std::vector<std::pair<FileTensor, Place>> inputs, outputs;
  int library = -1; // the number of the program that it is
};

/// Imports and lowers the test in `folder`; what prevents it is the result's reason. Inputs that the model needs when
/// compiling (shapes, axes) are given to it then: first lists and single integers, then single numbers of any type,
/// then all where values decide how many elements there are. Lists of tensors and optional values are always given.
LoweredTest lowerTest(const std::string &folder, const std::string &name);

} // namespace hyc::conformance

#endif // HYC_TEST_CONFORMANCE_LOWEREDTEST_H
