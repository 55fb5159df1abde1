// Limits: what a process may have of the system, where it hit one, and threads whose start can fail.
#ifndef HYCRT_SRC_BASE_LIMITS_H_
#define HYCRT_SRC_BASE_LIMITS_H_

#include <functional>
#include <string>
#include <thread>

#include "hycrt/limits.h"
#include "hycrt/status.h"

namespace hycrt {

// "; this process may have 64 descriptors open at once (ulimit -n)".
std::string descriptorLimit();

// How many descriptors this process may have open.
int descriptorCount();

// kUnavailable with the limit that was hit, where the system starts no more. `purpose`: "exchanges".
Status startThread(const std::string& purpose, std::function<void()> work, std::thread* thread);

// Whether `count` threads can be had beside this one at once. OpenMP ends the process where its team cannot be.
Status checkThreadsCanStart(int count);

}  // namespace hycrt

#endif  // HYCRT_SRC_BASE_LIMITS_H_
