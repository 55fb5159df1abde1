// /proc/meminfo, and memory.max of each control group (version 2) from this process's to the root.
#include "base/available_memory.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <string>

namespace hycrt {
namespace {

int64_t ofHost() {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    long long kilobytes = 0;
    if (std::sscanf(line.c_str(), "MemAvailable: %lld kB", &kilobytes) == 1) return int64_t{kilobytes} * 1024;
  }
  return INT64_MAX;
}

// -1: the file is not there, or says "max".
int64_t numberIn(const std::string& path, const char* key = nullptr) {
  std::ifstream file(path);
  std::string word;
  long long number = -1;
  while (key && file >> word && word != key) {
  }
  return file >> number ? int64_t{number} : -1;
}

int64_t ofGroup(const std::string& folder) {
  const int64_t most = numberIn(folder + "/memory.max"), used = numberIn(folder + "/memory.current");
  if (most < 0 || used < 0) return INT64_MAX;
  // Pages of files that can go count as used there.
  const int64_t files = std::max<int64_t>(0, numberIn(folder + "/memory.stat", "inactive_file"));
  return std::max<int64_t>(0, most - used + files);
}

}  // namespace

int64_t availableMemory() {
  int64_t least = ofHost();
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (line.rfind("0::/", 0) != 0) continue;
    for (std::string path = line.substr(3); !path.empty(); path.resize(path.rfind('/'))) {
      least = std::min(least, ofGroup("/sys/fs/cgroup" + path));
    }
    least = std::min(least, ofGroup("/sys/fs/cgroup"));
  }
  return least;
}

}  // namespace hycrt
