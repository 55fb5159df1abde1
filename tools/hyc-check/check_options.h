// What hyc-check is asked for.
#ifndef HYC_CHECK_CHECK_OPTIONS_H_
#define HYC_CHECK_CHECK_OPTIONS_H_

#include <string>

#include "comm/network_options.h"
#include "hycrt/status.h"

namespace hyccheck {

struct CheckOptions {
  std::string hostfile, include, exclude; // as hyc-run's; without the first this machine alone
  int sshPort = 0;
  hycrt::NetworkOptions network; // interface and ports
  double seconds = 5;            // for which a host is tried
  bool json = false;
};

struct CommandLine {
  CheckOptions options;
  std::string help; // not empty: it is asked for
};
// Wrong usage names the option, what was found and what was expected.
hycrt::Result<CommandLine> parseCommandLine(int argc, char **argv);

} // namespace hyccheck

#endif // HYC_CHECK_CHECK_OPTIONS_H_
