// /proc/cpuinfo.
#include "base/instruction_sets.h"

#include <fstream>
#include <set>
#include <sstream>

namespace hycrt {
namespace {

// Behind "name : " in the first line that has it.
std::string fieldOf(const std::string& name) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos || line.compare(0, name.size(), name) != 0) continue;
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

}  // namespace

std::vector<std::string> missingInstructions(const std::vector<std::string>& wanted) {
  std::set<std::string> there;
  for (const char* name : {"flags", "Features"}) {  // of x86, and of Arm
    std::istringstream words(fieldOf(name));
    for (std::string word; words >> word;) there.insert(word);
  }
  std::vector<std::string> missing;
  for (const std::string& one : wanted) {
    if (!there.empty() && there.count(one) == 0) missing.push_back(one);
  }
  return missing;
}

std::string nameOfCpu() { return fieldOf("model name"); }

}  // namespace hycrt
