// What follows from what hosts say: what is in the way of training, and what may be.
#ifndef HYC_CHECK_FINDINGS_H_
#define HYC_CHECK_FINDINGS_H_

#include <string>
#include <vector>

#include "inspection.h"

namespace hyccheck {

enum class Weight { kNote, kProblem };

struct Finding {
  Weight weight;
  std::string text; // with the way out
};

// In the order of their weight and then of the hosts.
std::vector<Finding> findingsOf(const Inspection &inspection);

} // namespace hyccheck

#endif // HYC_CHECK_FINDINGS_H_
