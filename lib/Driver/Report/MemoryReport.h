// The account of memory and communication as people and programs read it: a short table for the terminal, tables for
// report.txt, and memory.json.
#ifndef HYC_LIB_DRIVER_REPORT_MEMORYREPORT_H
#define HYC_LIB_DRIVER_REPORT_MEMORYREPORT_H

#include "hyc/Analysis/MemoryAccount.h"
#include "hyc/Analysis/StepTime.h"

#include <string>

namespace hyc {

/// "1.25 GiB", "512 B": three digits at least, base 1,024.
std::string formatBytes(double bytes);

/// The world ranks of a stage: "rank 3", "ranks 8 to 15".
std::string describeRanks(const JobAccount &job, const StageAccount &stage);

/// Arena, bytes at the peak, peak op, and the total: of every stage, or of the largest where there are more than four.
std::string summarizeMemory(const JobAccount &job);

/// Every stage and arena, what is alive at each peak, and the volume of communication.
std::string reportMemory(const JobAccount &job);

/// What a step works on, as memory.json and manifest.json say it: samples, micro-batches, and tokens of a sample, 1
/// where nothing is a token.
struct StepBatch {
  int64_t microBatch = 1, gradAccum = 1, sequence = 1;
};

/// memory.json; docs/memory-account.md describes it. `step`: null where no time was estimated.
std::string writeMemoryJson(const JobAccount &job, llvm::StringRef name, const StepBatch &batch, const StepTime *step);

} // namespace hyc

#endif // HYC_LIB_DRIVER_REPORT_MEMORYREPORT_H
