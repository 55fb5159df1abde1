// Which op of the model an op was made for, by its id: passes name what they make after the op that it stands in for,
// with a suffix that begins with ".grad" (a gradient) or ".fp8" (what measures an operand of a product).
#ifndef HYC_ANALYSIS_ORIGIN_H
#define HYC_ANALYSIS_ORIGIN_H

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"

#include <algorithm>
#include <optional>

namespace hyc {

/// What `ofIds` has for the op that `id` derives from, by the longest id in it; nothing if `id` derives from none.
template <typename T> std::optional<T> findOfOrigin(llvm::StringRef id, const llvm::StringMap<T> &ofIds) {
  auto lastSuffix = [](llvm::StringRef text) {
    size_t gradient = text.rfind(".grad"), quantized = text.rfind(".fp8");
    return gradient == llvm::StringRef::npos    ? quantized
           : quantized == llvm::StringRef::npos ? gradient
                                                : std::max(gradient, quantized);
  };
  for (size_t end = lastSuffix(id); end != llvm::StringRef::npos; end = lastSuffix(id.take_front(end)))
    if (auto entry = ofIds.find(id.take_front(end)); entry != ofIds.end())
      return entry->second;
  return std::nullopt;
}

} // namespace hyc

#endif // HYC_ANALYSIS_ORIGIN_H
