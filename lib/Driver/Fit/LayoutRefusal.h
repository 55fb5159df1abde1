// LayoutRefusal: why a search has found no layout, as people can act on it: what is fixed leaves none, no rank can have
// its part, none can be compiled, or none fits.
#ifndef HYC_LIB_DRIVER_FIT_LAYOUTREFUSAL_H
#define HYC_LIB_DRIVER_FIT_LAYOUTREFUSAL_H

#include "Fit/LayoutPlanning.h"

namespace hyc {

/// "--tp 2, --global-batch 6": all that a search may not change; empty where that is nothing.
std::string describeFixed(const CompileOptions &options);

/// An error where options of a search are given, and there is none.
llvm::Error checkSearchIsAsked(const CompileOptions &options);

/// An error where the search tries nothing that is asked for, or the machine has fewer ranks.
llvm::Error checkSearch(const CompileOptions &options, const MachineRates &machine);

/// Where no layout could be scored.
llvm::Error nothingLeft(const CompileOptions &options, const SearchRequest &request, const CostModel &costs,
                        const SearchResult &found, const SearchMeans &means);

/// Where layouts were scored, and none was planned that fits.
llvm::Error nothingFits(const CompileOptions &options, const SearchRequest &request, const SearchResult &found,
                        const LayoutPlanning &planning, const SearchMeans &means);

/// "none of 6504 layouts of 8 ranks fits 18.1 MiB of device memory (…); what comes closest needs …": of a search in
/// which memory is what is missing.
std::string describeLack(const CompileOptions &options, const SearchRequest &request, const SearchResult &found,
                         const LayoutPlanning &planning, const SearchMeans &means);

} // namespace hyc

#endif // HYC_LIB_DRIVER_FIT_LAYOUTREFUSAL_H
