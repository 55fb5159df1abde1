// All ops of the hyc dialect, one file a topic.

#ifndef HYC_OPS_TD
#define HYC_OPS_TD

include "dialects/Hyc/HycSymbolOps.td"
include "dialects/Hyc/HycElementwiseOps.td"
include "dialects/Hyc/HycShapeOps.td"
include "dialects/Hyc/HycCompositeOps.td"
include "dialects/Hyc/HycNormOps.td"
include "dialects/Hyc/HycUpdateOps.td"
include "dialects/Hyc/HycMathOps.td"
include "dialects/Hyc/HycWindowOps.td"
include "dialects/Hyc/HycIndexOps.td"
include "dialects/Hyc/HycExpertOps.td"
include "dialects/Hyc/HycQuantizedOps.td"
include "dialects/Hyc/HycLoopOps.td"

#endif // HYC_OPS_TD
