// How another host's tool is started: this same executable there, by ssh, with what it has to know on its standard
// input, where no shell reads it.
#ifndef HYC_RUN_SSH_H_
#define HYC_RUN_SSH_H_

#include <string>

#include "rank_process.h"

namespace hycrun {

inline constexpr int kSshFailed = 255;  // its exit status where the host is not reached, or no more

// How a tool is told that another host's has started it. No option of the user's has this name.
inline constexpr char kAgentFlag[] = "--agent";

// `flag` is all that this executable is told there beside `input`. port 0: ssh's own.
RankCommand commandOn(const std::string& host, int port, const char* flag, const std::string& input,
                      const sigset_t& signals);

// With links resolved; as it is where there is nothing.
std::string absolutePath(const std::string& path);

// Where ranks of this run meet: a port by its name, so that two runs on one host seldom have the same.
int portFor(const std::string& runName);

}  // namespace hycrun

#endif  // HYC_RUN_SSH_H_
