// Reading --lora: keys, their values, and what is wrong with them.
#include "hyc/Plan/AdapterSettings.h"

#include "hyc/Support/DriverError.h"
#include "hyc/Support/NearestName.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <cmath>

using namespace llvm;
using namespace hyc;

static constexpr StringRef kKeys[] = {"rank", "alpha", "targets", "variant"};
static constexpr StringLiteral kVariants[] = {"lora", "rslora", "dora"};

static std::string listKeys() { return join(ArrayRef<StringRef>(kKeys), ", "); }

static Error readRank(StringRef text, int64_t &rank) {
  if (to_integer(text, rank, 10) && rank >= 1 && rank <= AdapterSettings::kMostRank)
    return Error::success();
  return usageError("has rank \"" + text.take_front(100) + "\", expected a whole number from 1 to " +
                    Twine(AdapterSettings::kMostRank));
}

static Error readAlpha(StringRef text, double &alpha) {
  if (to_float(text, alpha) && alpha > 0 && alpha <= AdapterSettings::kMostAlpha)
    return Error::success();
  return usageError("has alpha \"" + text.take_front(100) + "\", expected a number above 0 and at most 1e9");
}

Error AdapterSettings::check() const {
  if (rank < 1 || rank > kMostRank)
    return usageError("has no rank; expected one from 1 to " + Twine(kMostRank) +
                      ", as in rank=8,targets=q_proj,v_proj");
  if (!(alpha > 0 && alpha <= kMostAlpha))
    return usageError("has alpha " + Twine(std::to_string(alpha)) + ", expected a number above 0 and at most 1e9");
  if (!is_contained(kVariants, variant))
    return usageError("has variant \"" + StringRef(variant).take_front(100) + "\", expected lora, rslora or dora");
  if (targets.empty())
    return usageError("has no targets; expected names of linear layers, as in targets=q_proj,v_proj, or targets=" +
                      kAllLinear);
  return Error::success();
}

Expected<AdapterSettings> AdapterSettings::parse(StringRef text) {
  AdapterSettings result;
  SmallVector<StringRef> items, seen;
  text.split(items, ',');
  for (StringRef item : items) {
    auto [key, value] = item.split('=');
    if (!item.contains('=')) {
      if (seen.empty() || seen.back() != "targets")
        return usageError("has \"" + item.take_front(100) + "\", expected KEY=VALUE with a key of " + listKeys());
      value = item;
    } else if (!is_contained(kKeys, key)) {
      return usageError("has an unknown key \"" + key.take_front(100) + "\"; the nearest is \"" +
                        nearestName(key, kKeys) + "\" (" + listKeys() + ")");
    } else if (is_contained(seen, key)) {
      return usageError("has the key \"" + key + "\" twice");
    } else {
      seen.push_back(key);
    }
    if (value.empty())
      return usageError("has nothing after \"" + Twine(seen.back()) + "=\"");
    Error error = Error::success();
    if (seen.back() == "rank")
      error = readRank(value, result.rank);
    else if (seen.back() == "alpha")
      error = readAlpha(value, result.alpha);
    else if (seen.back() == "variant")
      result.variant = value.str();
    else
      result.targets.push_back(value.str());
    if (error)
      return error;
  }
  if (!is_contained(seen, "alpha"))
    result.alpha = static_cast<double>(result.rank);
  if (Error error = result.check())
    return error;
  return result;
}

double AdapterSettings::scale() const {
  const auto width = static_cast<double>(rank);
  return alpha / (variant == "rslora" ? std::sqrt(width) : width);
}
