// Attributes of the dialect as text for people and as keys, without the IR's printer: setting one up takes longer than
// the text, and every exchange has some.
#ifndef HYC_DIALECTS_DIST_ATTRIBUTETEXT_H
#define HYC_DIALECTS_DIST_ATTRIBUTETEXT_H

#include "dialects/Dist/DistDialect.h"

#include <string>

namespace hyc::dist {

/// As they are printed: `#dist.axes<{tp}>`, `#dist.sharding<[{dp}, {}]>`.
std::string textOf(AxisListAttr axes);
std::string textOf(ShardingAttr sharding);

/// `{tp}`, `{} stages [0, 1]`: what is printed between the brackets of `#dist.group<…>`.
std::string textOf(GroupAttr group);

} // namespace hyc::dist

#endif // HYC_DIALECTS_DIST_ATTRIBUTETEXT_H
