// The limits that the system sets a process, for whoever starts ranks.
#ifndef HYCRT_LIMITS_H_
#define HYCRT_LIMITS_H_

#include <string>

#include "hycrt/status.h"

namespace hycrt {

// As many descriptors as the process may ask for, and those it starts.
void raiseDescriptorLimit();

// Of a thread or a process that could not be started: kUnavailable, with the limit that was hit. `what` reads like
// "cannot start a rank".
Status startError(const std::string& what, int error);

}  // namespace hycrt

#endif  // HYCRT_LIMITS_H_
