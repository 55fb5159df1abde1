// Ranks and launchers that run now, by what the kernel tells of this user's processes.
#ifndef HYC_CHECK_PROCESSES_H_
#define HYC_CHECK_PROCESSES_H_

#include <vector>

#include "facts.h"

namespace hyccheck {

// In the order of their numbers.
std::vector<Process> findProcesses();

} // namespace hyccheck

#endif // HYC_CHECK_PROCESSES_H_
