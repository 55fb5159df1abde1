// Emitted programs compiled into shared objects, several programs each, and called.
#ifndef HYC_TEST_CONFORMANCE_LIBRARY_H
#define HYC_TEST_CONFORMANCE_LIBRARY_H

#include "LoweredTest.h"

#include <string>
#include <vector>

namespace hyc::conformance {

/// Compiles all tests that have a program; equal programs once. Objects are kept under a hash of all that they are made
/// of. A test whose program does not compile gets a reason.
class Libraries {
public:
  explicit Libraries(std::vector<LoweredTest> &tests);

  /// An empty string if the outputs are as expected, else what is wrong.
  std::string run(const LoweredTest &test) const;

private:
  struct Unit {
    std::vector<LoweredTest *> tests;
    std::string source, path;
    void *handle = nullptr;
  };
  void compile();
  static bool build(const Unit &unit);

  std::vector<Unit> units;
};

} // namespace hyc::conformance

#endif // HYC_TEST_CONFORMANCE_LIBRARY_H
