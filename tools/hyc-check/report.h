// What a person or a program is told.
#ifndef HYC_CHECK_REPORT_H_
#define HYC_CHECK_REPORT_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "findings.h"
#include "inspection.h"

namespace hyccheck {

// What this machine alone is asked: whether programs compile and run, and by what hosts could be asked.
struct Tools {
  std::vector<std::pair<std::string, std::string>> paths; // name and place; empty: not found
  int openMpThreads = 0;
  std::string nvcc;
};
Tools findTools();
// Whether compiling and training go on this machine, problems aside.
bool trainsHere(const Tools &tools);

std::string toText(const Inspection &inspection, const Tools &tools, const std::vector<Finding> &findings);
nlohmann::json toJson(const Inspection &inspection, const Tools &tools, const std::vector<Finding> &findings);

} // namespace hyccheck

#endif // HYC_CHECK_REPORT_H_
