// The file that hyc-compile --machine reads, from what was measured.
#ifndef HYC_BENCH_MACHINE_FILE_H_
#define HYC_BENCH_MACHINE_FILE_H_

#include <string>
#include <vector>

#include "figure.h"
#include "hycrt/status.h"

namespace hycbench {

// What was measured on.
struct Bench {
  std::string name;  // of the machine
  std::string cpu;   // rank 0's, and the instruction set that its kernels took; or what the device is called
  bool onDevice = false;
  int hosts = 1, ranksHere = 1, threads = 1;
  int passes = 1;
};

// "8 ranks of 1 thread at once on 2 hosts, AMD EPYC (avx512)"
std::string describe(const Bench& bench);

// As text, of what all passes have told. What was not measured is left out, and hyc-compile then assumes it.
std::string machineFile(const Bench& bench, const std::vector<Figure>& told);

// Whether the file may be written there: not where something else has the name.
hycrt::Status checkMachineFile(const std::string& path);
// Whole, or not at all.
hycrt::Status writeMachineFile(const std::string& path, const std::string& text);

}  // namespace hycbench

#endif  // HYC_BENCH_MACHINE_FILE_H_
