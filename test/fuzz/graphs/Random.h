// Numbers by seed, the same with every standard library.
#ifndef HYC_TEST_FUZZ_GRAPHS_RANDOM_H
#define HYC_TEST_FUZZ_GRAPHS_RANDOM_H

#include <cstdint>
#include <iterator>

namespace hyc::fuzzing {

/// splitmix64.
class Random {
public:
  explicit Random(uint64_t seed) : state(seed) {}

  uint64_t next() {
    uint64_t z = state += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }
  /// Of 0 to count - 1.
  int64_t below(int64_t count) { return count <= 1 ? 0 : static_cast<int64_t>(next() % static_cast<uint64_t>(count)); }
  int64_t between(int64_t least, int64_t most) { return least + below(most - least + 1); }
  bool oneIn(int64_t count) { return below(count) == 0; }
  template <typename List> const auto &pick(const List &list) {
    return *(std::begin(list) + below(static_cast<int64_t>(std::size(list))));
  }

private:
  uint64_t state;
};

} // namespace hyc::fuzzing

#endif // HYC_TEST_FUZZ_GRAPHS_RANDOM_H
