// The command line.
#include "bench_options.h"

#include <CLI/CLI.hpp>
#include <cmath>

#include "base/command_line.h"

namespace hycbench {
namespace {

using hycrt::Result;
using hycrt::Status;

constexpr int kMostRanks = 1024, kMostThreads = 4096, kMostPort = 65535, kMostPasses = 1000;
constexpr int64_t kMostMib = 4096;
constexpr double kMostSeconds = 60;

// CLI11 takes the text, and numbers are looked at here, so that errors read as hyc-run's do.
struct Texts {
  std::string ranks, threads, mib, seconds, passes, sshPort, target;
};

template <typename T>
Status takeNumber(const char* flag, const std::string& text, int64_t low, int64_t high, T* value) {
  if (text.empty()) return {};
  char* end = nullptr;
  errno = 0;
  const long long found = std::strtoll(text.c_str(), &end, 10);
  if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || found < low || found > high) {
    return hycrt::usageError(std::string(flag) + ": found '" + text + "', expected a whole number from " +
                             std::to_string(low) + " to " + std::to_string(high));
  }
  *value = static_cast<T>(found);
  return {};
}

Status takeSeconds(const std::string& text, double* value) {
  if (text.empty()) return {};
  char* end = nullptr;
  const double found = std::strtod(text.c_str(), &end);
  if (*end != '\0' || !std::isfinite(found) || found < 0.001 || found > kMostSeconds) {
    return hycrt::usageError("--seconds: found '" + text + "', expected a number from 0.001 to 60");
  }
  *value = found;
  return {};
}

void addShared(CLI::App& app, BenchOptions& options, Texts& texts) {
  app.add_option("--threads", texts.threads, "Threads a rank; 0: the cores divided by the ranks");
  app.add_option("--mib", texts.mib, "MiB of the largest message, and of each array that kernels run over (64)");
  app.add_option("--seconds", texts.seconds, "For how long each figure is measured in a pass (0.2)");
  app.add_option("--passes", texts.passes,
                 "How often all of it is measured, one pass after the other: a figure is the median of all passes (3)");
  app.add_option("--nvme-path", options.nvmePath,
                 "Folder on a disk, as hyc-run's: its rate is measured by a file a rank of 4 times --mib");
  app.add_option("--interface", options.interface, "As hyc-run's: the network that the hosts reach each other by");
  app.add_flag("--plaintext", options.plaintext, "As hyc-run's: no encryption between hosts");
}

Status takeTexts(const Texts& texts, BenchOptions* options) {
  HYCRT_RETURN_IF_ERROR(takeNumber("--ranks", texts.ranks, 1, kMostRanks, &options->ranks));
  HYCRT_RETURN_IF_ERROR(takeNumber("--threads", texts.threads, 0, kMostThreads, &options->threads));
  HYCRT_RETURN_IF_ERROR(takeNumber("--mib", texts.mib, 1, kMostMib, &options->mib));
  HYCRT_RETURN_IF_ERROR(takeNumber("--passes", texts.passes, 1, kMostPasses, &options->passes));
  HYCRT_RETURN_IF_ERROR(takeNumber("--ssh-port", texts.sshPort, 1, kMostPort, &options->sshPort));
  return takeSeconds(texts.seconds, &options->seconds);
}

Status takeTarget(const std::string& text, const Texts& texts, BenchOptions* options) {
  if (!text.empty() && text != "cpu" && text != "cuda")
    return hycrt::usageError("--target: found '" + text + "', expected cpu or cuda");
  options->onDevice = text == "cuda";
  const char* const ofCpus = !options->hostfile.empty()   ? "--hostfile"
                             : !texts.ranks.empty()       ? "--ranks"
                             : !texts.threads.empty()     ? "--threads"
                             : !options->nvmePath.empty() ? "--nvme-path"
                                                          : nullptr;
  if (!options->onDevice || !ofCpus) return {};
  return hycrt::usageError(std::string(ofCpus) + " is given with --target cuda, which measures one GPU of this host: " +
                           "leave one of them out");
}

Status checkTogether(const BenchOptions& options) {
  const char* const ofHosts = !options.include.empty()     ? "--include"
                              : !options.exclude.empty()   ? "--exclude"
                              : options.sshPort != 0       ? "--ssh-port"
                              : !options.interface.empty() ? "--interface"
                              : options.plaintext          ? "--plaintext"
                                                           : nullptr;
  if (ofHosts && options.hostfile.empty()) {
    return hycrt::usageError(std::string(ofHosts) + " is given without hosts; name them with --hostfile FILE");
  }
  if (options.ranks > 0 && !options.hostfile.empty()) {
    return hycrt::usageError("--ranks is given beside --hostfile, whose slots say how many; leave it out");
  }
  return {};
}

}  // namespace

Result<CommandLine> parseCommandLine(int argc, char** argv) {
  CommandLine line;
  BenchOptions& options = line.options;
  Texts texts;
  CLI::App app("Measures what ranks compute and exchange here, and writes it as hyc-compile --machine reads it.",
               "hyc-bench");
  app.add_option("-o", options.output, "The machine's file to write (JSON)")->required();
  app.add_option("--name", options.name, "What the file calls the machine; by default this host's name");
  app.add_option("--target", texts.target,
                 "What programs are compiled for: cpu, or cuda, whose kernels are measured on one GPU (cpu)");
  app.add_option("--ranks", texts.ranks, "Ranks on this machine; by default one a core, 8 at most");
  app.add_option("--hostfile", options.hostfile, "Hosts, by ssh, as hyc-run's: a line each, NAME slots=RANKS");
  app.add_option("--include", options.include, "As hyc-run's: of the hostfile only these, as in a:0,1@b");
  app.add_option("--exclude", options.exclude, "As hyc-run's: of the hostfile all but these");
  app.add_option("--ssh-port", texts.sshPort, "Port of ssh on these hosts");
  addShared(app, options, texts);
  hycrt::refuseEmptyValues(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    line.help = app.help();
    return line;
  } catch (const CLI::ParseError& error) {
    return hycrt::refuseCommandLine(app, error);
  }
  HYCRT_RETURN_IF_ERROR(takeTexts(texts, &options));
  HYCRT_RETURN_IF_ERROR(takeTarget(texts.target, texts, &options));
  HYCRT_RETURN_IF_ERROR(checkTogether(options));
  return line;
}

std::vector<std::string> argumentsForDevice(const BenchOptions& options) {
  return {std::to_string(options.mib), std::to_string(options.seconds), std::to_string(options.passes)};
}

std::vector<std::string> argumentsForRanks(const BenchOptions& options) {
  std::vector<std::string> arguments{
      "--threads=" + std::to_string(options.threads), "--mib=" + std::to_string(options.mib),
      "--seconds=" + std::to_string(options.seconds), "--passes=" + std::to_string(options.passes)};
  if (!options.nvmePath.empty()) arguments.push_back("--nvme-path=" + options.nvmePath);
  if (!options.interface.empty()) arguments.push_back("--interface=" + options.interface);
  if (options.plaintext) arguments.push_back("--plaintext");
  return arguments;
}

Result<BenchOptions> optionsOfRank(const std::vector<std::string>& arguments) {
  BenchOptions options;
  Texts texts;
  CLI::App app;
  addShared(app, options, texts);
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // as CLI11 takes them
  try {
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    return hycrt::usageError(std::string(error.what()));
  }
  HYCRT_RETURN_IF_ERROR(takeTexts(texts, &options));
  return options;
}

}  // namespace hycbench
