// The parts of the page's data, each a member of one JSON object.
#ifndef HYC_LIB_DRIVER_PAGE_PAGEDATA_H
#define HYC_LIB_DRIVER_PAGE_PAGEDATA_H

#include "hyc/Analysis/MemoryAccount.h"
#include "hyc/Analysis/StepTime.h"
#include "llvm/Support/JSON.h"

namespace hyc {

struct CompiledModel;

/// Whole nanoseconds, or bytes: numbers that JSON has in few digits.
int64_t wholeNumber(double value);
inline int64_t nanoseconds(double seconds) { return wholeNumber(seconds * 1e9); }

/// "h.*.mlp" of "h.3.mlp": every part that is a number alone.
std::string withoutNumbers(llvm::StringRef name);

/// Stages of `count` that are shown where not all can be: the first, the last, `special`, and others evenly between.
std::vector<size_t> chooseStages(size_t count, size_t most, size_t special);

/// "timeline": when each stage executes which instruction.
void writeTimeline(llvm::json::OStream &json, const CompiledModel &model);

/// "memory": for some stages what is alive in every arena over the schedule, and of what it consists.
void writeMemory(llvm::json::OStream &json, const JobAccount &job);

/// "layers", "kernels", "exchanges": tables in which equal layers are one row.
void writeTables(llvm::json::OStream &json, const CompiledModel &model);

} // namespace hyc

#endif // HYC_LIB_DRIVER_PAGE_PAGEDATA_H
