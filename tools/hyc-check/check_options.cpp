// The command line.
#include "check_options.h"

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cmath>
#include <cstdlib>

#include "base/command_line.h"

namespace hyccheck {
namespace {

using hycrt::Result;
using hycrt::Status;

// CLI11 takes the text, and numbers are looked at here, so that errors read as hyc-run's do.
struct Texts {
  std::string sshPort, ports, seconds;
};

Status takeTexts(const Texts &texts, CheckOptions *options) {
  if (!texts.sshPort.empty()) {
    int high = 0;
    if (!hycrt::parsePorts(texts.sshPort, &options->sshPort, &high) || high != options->sshPort) {
      return hycrt::usageError("--ssh-port: found '" + texts.sshPort + "', expected a whole number from 1 to 65535");
    }
  }
  if (!texts.ports.empty() && !hycrt::parsePorts(texts.ports, &options->network.lowPort, &options->network.highPort)) {
    return hycrt::usageError("--ports: found '" + texts.ports + "', expected a range as in 4000-4100");
  }
  if (!texts.seconds.empty()) {
    char *end = nullptr;
    options->seconds = std::strtod(texts.seconds.c_str(), &end);
    if (*end != '\0' || !std::isfinite(options->seconds) || options->seconds < 0.1 || options->seconds > 600) {
      return hycrt::usageError("--seconds: found '" + texts.seconds + "', expected a number from 0.1 to 600");
    }
  }
  return {};
}

Status checkTogether(const CheckOptions &options) {
  const char *const ofHosts = !options.include.empty()             ? "--include"
                              : !options.exclude.empty()           ? "--exclude"
                              : options.sshPort != 0               ? "--ssh-port"
                              : !options.network.interface.empty() ? "--interface"
                              : options.network.lowPort != 0       ? "--ports"
                                                                   : nullptr;
  if (!ofHosts || !options.hostfile.empty())
    return {};
  return hycrt::usageError(std::string(ofHosts) + " is given without hosts; name them with --hostfile FILE");
}

} // namespace

Result<CommandLine> parseCommandLine(int argc, char **argv) {
  CommandLine line;
  CheckOptions &options = line.options;
  Texts texts;
  CLI::App app("Says what this machine, or each host of a job, has for training, whether the hosts reach each other, "
               "what is left "
               "of earlier runs, and what is in the way. Ends with 0 where nothing is, else with 69.",
               "hyc-check");
  app.add_option("--hostfile", options.hostfile, "Hosts, by ssh, as hyc-run's: a line each, NAME slots=RANKS");
  app.add_option("--include", options.include, "As hyc-run's: of the hostfile only these, as in a:0,1@b");
  app.add_option("--exclude", options.exclude, "As hyc-run's: of the hostfile all but these");
  app.add_option("--ssh-port", texts.sshPort, "Port of ssh on these hosts");
  app.add_option("--interface", options.network.interface,
                 "As hyc-run's: the network that the hosts reach each other by, a name or as in 10.0.0.0/8");
  app.add_option("--ports", texts.ports, "As hyc-run's: where ranks listen, as in 4000-4100");
  app.add_option("--seconds", texts.seconds, "For how long a host is tried (5)");
  app.add_flag("--json", options.json, "Everything as one JSON object on standard output");
  hycrt::refuseEmptyValues(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp &) {
    line.help = app.help();
    return line;
  } catch (const CLI::ParseError &error) {
    return hycrt::refuseCommandLine(app, error);
  }
  HYCRT_RETURN_IF_ERROR(takeTexts(texts, &options));
  HYCRT_RETURN_IF_ERROR(checkTogether(options));
  return line;
}

} // namespace hyccheck
