// HYC_LOG, for whoever starts ranks: an environment that asks for a level that there is not had better be refused once.
#ifndef HYCRT_LOG_H_
#define HYCRT_LOG_H_

#include "hycrt/status.h"

namespace hycrt {

// A usage error names the value and the levels.
Status checkLogLevel();

}  // namespace hycrt

#endif  // HYCRT_LOG_H_
