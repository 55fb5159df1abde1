// Cuts: where a planned model is divided into chunks, in the words in which --plan and hyc-assign-stages take it.
#ifndef HYC_ANALYSIS_CUTS_H
#define HYC_ANALYSIS_CUTS_H

#include "dialects/Hyc/HycDialect.h"

#include <string>
#include <vector>

namespace hyc {

/// Of @microbatch after phase 3: the id of the first op of each chunk but the first that works on what flows through
/// the model.
std::vector<std::string> findCuts(FuncOp microbatch, int64_t chunks);

} // namespace hyc

#endif // HYC_ANALYSIS_CUTS_H
