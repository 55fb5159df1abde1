// The table of settings for programs that drive hyc-compile (python/): one JSON object a flag.
#ifndef HYC_PLAN_SETTINGSJSON_H
#define HYC_PLAN_SETTINGSJSON_H

#include <string>

namespace hyc {

/// A JSON list of every setting with a flag, in the table's order: {"flag": "--micro-batch", "type": "integer", "list":
/// false, "choices": [], "values": "1 to 65536", "default": "1, or …", "help": "…"}. `type` is bool, integer, number or
/// text; a list is said by repeating the flag.
std::string writeSettingsJson();

} // namespace hyc

#endif // HYC_PLAN_SETTINGSJSON_H
