// What a host says of itself: what is installed, what it has, what limits it sets, what is left of earlier runs.
#ifndef HYC_CHECK_FACTS_H_
#define HYC_CHECK_FACTS_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "hycrt/status.h"

namespace hyccheck {

// A rank, or a hyc-run, that runs now.
struct Process {
  int pid = 0, parent = 0;
  int64_t seconds = 0; // for which it has run
  std::string what;    // "rank 3 of /data/out/bin/stage0"
  bool isLeft = false; // whoever has started it is gone
};

// Bytes that are free, and what they are free in.
struct Disk {
  std::string folder;
  int64_t free = 0, total = 0;
};

struct Facts {
  std::string name, kernel, cpu;
  std::string tool;              // SHA-256 of this executable
  std::vector<std::string> sets; // instruction sets that kernels have versions for
  int cores = 0;                 // that this process may use
  int64_t memory = 0, available = 0;
  std::vector<Disk> disks;
  std::string compiler;                               // its first line; empty: none
  std::vector<std::string> gpus;                      // "NVIDIA H200, 143771 MiB, 570.86"
  std::string nccl;                                   // its version; empty: it does not load
  int64_t descriptors = 0, processes = 0, locked = 0; // the most of them; bytes of the last; -1: no limit
  std::vector<std::string> variables;                 // NAME=value, of those that change how ranks run
  std::vector<Process> running;
};

// Of this host. `folder` is where ranks would work.
Facts collectFacts(const std::string &folder);

nlohmann::json toJson(const Facts &facts);
// A data error where another version of hyc-check has written it.
hycrt::Result<Facts> factsFrom(const nlohmann::json &json);

// Whether a C++ program with OpenMP compiles and runs here: its threads; 0: it does not.
int openMpThreads();

// Where a program of this name lies in PATH, or beside this executable; empty: nowhere.
std::string findProgram(const std::string &name);

} // namespace hyccheck

#endif // HYC_CHECK_FACTS_H_
