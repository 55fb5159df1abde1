// InputSource: what the loader fills an input with. The description of hyc.func tells what each is.
#ifndef HYC_DIALECTS_HYC_INPUTSOURCES_H
#define HYC_DIALECTS_HYC_INPUTSOURCES_H

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>

namespace hyc {

enum class InputSource {
  token,
  nextToken,
  ownToken,
  nextOwnToken,
  position,
  presence,
  sample, ///< the data's own tensor of the input's name
  random, ///< no data
};

struct InputSourceFacts {
  InputSource source;
  llvm::StringLiteral name; ///< in the IR
  bool isToken;             ///< its elements are tokens of the data
};

// In the order of InputSource.
inline constexpr InputSourceFacts kInputSources[] = {
    {InputSource::token, "token", true},        {InputSource::nextToken, "next_token", true},
    {InputSource::ownToken, "own_token", true}, {InputSource::nextOwnToken, "next_own_token", true},
    {InputSource::position, "position", false}, {InputSource::presence, "presence", false},
    {InputSource::sample, "sample", false},     {InputSource::random, "random", false},
};

inline llvm::StringRef nameOf(InputSource source) { return kInputSources[static_cast<size_t>(source)].name; }

/// The source of this name; null if there is none.
inline const InputSourceFacts *findInputSource(llvm::StringRef name) {
  const auto *row = llvm::find_if(kInputSources, [&](const InputSourceFacts &facts) { return facts.name == name; });
  return row == std::end(kInputSources) ? nullptr : row;
}

/// "token, next_token, …", for messages.
inline std::string listInputSources() {
  std::string names;
  for (const InputSourceFacts &facts : kInputSources)
    names += (names.empty() ? "" : ", ") + facts.name.str();
  return names;
}

} // namespace hyc

#endif // HYC_DIALECTS_HYC_INPUTSOURCES_H
