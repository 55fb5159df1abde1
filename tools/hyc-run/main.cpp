// hyc-run OUT [options]: trains what hyc-compile wrote into OUT. Wiring only: the command line and the folder are
// checked here, the ranks are the launcher's.
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <string>
#include <utility>

#include "agent.h"
#include "base/launchers.h"
#include "copy_hosts.h"
#include "folder_copy.h"
#include "host_launcher.h"
#include "hycrt/error_file.h"
#include "hycrt/instruments.h"
#include "hycrt/limits.h"
#include "hycrt/log.h"
#include "hycrt/manifest.h"
#include "hycrt/options.h"
#include "hycrt/printable.h"
#include "hycrt/sizes.h"
#include "hycrt/standard_output.h"
#include "job.h"
#include "replanner.h"
#include "sizes.h"
#include "ssh.h"

namespace {

using hycrt::Result;
using hycrt::Status;

// For the Python package: every option as JSON, and nothing else.
constexpr char kPrintOptions[] = "--print-options";
// For docs/instruments.md: its table.
constexpr char kPrintMetrics[] = "--print-metrics";

// What would make every rank fail is better said once, before any is started.
Status checkFiles(const hycrt::Manifest& manifest, const hycrt::RunOptions& options) {
  for (const hycrt::ManifestRank& rank : manifest.ranks) {
    const std::string path = manifest.folder + "/" + rank.program;
    if (access(path.c_str(), X_OK) != 0) return hycrt::errnoError("cannot execute '" + path + "'", errno);
  }
  return hycrt::checkData(manifest, options);
}

Status checkHosts(const hycrt::RunOptions& options) {
  if (!options.hostfile.empty()) return {};
  const char* const given = !options.include.empty()   ? "--include"
                            : !options.exclude.empty() ? "--exclude"
                            : options.sshPort != 0     ? "--ssh-port"
                            : options.copyOut          ? "--copy-out"
                                                       : nullptr;
  if (!given) return {};
  return hycrt::usageError(std::string(given) + " is given without hosts; name them with --hostfile FILE");
}

// What hyc-run does for all ranks it does for none where it becomes one.
Status checkAsRank(const hycrt::RunOptions& options) {
  struct {
    const char* flag;
    bool isGiven;
    const char* why;
  } const rows[] = {
      {"--replan-after", options.replanAfter > 0, "it is hyc-run that looks for a layout"},
      {"--hostfile", !options.hostfile.empty(), "it is the launcher that chooses hosts"},
      {"--include", !options.include.empty(), "it is the launcher that chooses hosts"},
      {"--exclude", !options.exclude.empty(), "it is the launcher that chooses hosts"},
      {"--ssh-port", options.sshPort != 0, "it is the launcher that reaches hosts"},
      {"--copy-out", options.copyOut, "it is the launcher that reaches hosts"},
      {"--copy", options.copy != hycrt::CopyPlace::kNone, "it is hyc-run that goes on from copies in memory"},
      {"--max-restarts", options.maxRestarts > 0, "it is the launcher that starts ranks again"},
      {"--ranks", options.ranks > 0, "it is the launcher that says how many there are"}};
  for (const auto& [flag, isGiven, why] : rows) {
    if (!isGiven) continue;
    return hycrt::usageError(std::string(flag) + " and --as-rank are given, and " + why + "; leave one out");
  }
  return {};
}

// Each process of a launcher would start all ranks. A batch script of Slurm's is not one of its tasks.
void warnOfLauncher() {
  const Result<hycrt::Launch> launch = hycrt::readLaunch(/*mayBeAlone=*/false);
  if (!launch.ok() || launch->worldSize < 2 || hycrt::isSlurm(*launch)) return;
  std::fprintf(
      stderr,
      "hyc-run: warning: %s is %d of %d (%s), so that %d of hyc-run would each start all ranks of a job of their "
      "own; give --as-rank, and each becomes one rank of one job\n",
      launch->launcher->rank, launch->rank, launch->worldSize, launch->launcher->name, launch->worldSize);
}

Result<int> launch(hycrt::RunOptions options) {
  HYCRT_RETURN_IF_ERROR(hycrt::checkLogLevel());
  const Result<std::vector<hycrt::CompiledSize>> sizes = hycrt::readSizes(options.out);
  if (!sizes.ok()) return sizes.status();
  if (options.asRank) HYCRT_RETURN_IF_ERROR(checkAsRank(options));
  if (options.asRank) return hycrun::becomeRank(options, *sizes);
  warnOfLauncher();
  const Result<std::string> folder = hycrun::folderFor(options, *sizes, {});
  if (!folder.ok()) return folder.status();
  Result<hycrt::Manifest> manifest = hycrt::readManifest(*folder);
  if (!manifest.ok()) return manifest.status();
  if (const int64_t ranks = static_cast<int64_t>(manifest->ranks.size()); options.ranks > 0 && ranks != options.ranks) {
    return hycrt::usageError("--ranks is " + std::to_string(options.ranks) + ", but '" + *folder +
                             "' was compiled for " + std::to_string(ranks) + "; compile with --ranks for several");
  }
  HYCRT_RETURN_IF_ERROR(hycrt::takeEntry(*manifest, &options));
  HYCRT_RETURN_IF_ERROR(hycrun::Replanner::prepare(*manifest, &options));
  HYCRT_RETURN_IF_ERROR(checkFiles(*manifest, options));
  HYCRT_RETURN_IF_ERROR(hycrt::checkOutputs(options, hycrt::filesReadBy(*manifest)));
  HYCRT_RETURN_IF_ERROR(checkHosts(options));
  return hycrun::runJob(std::move(*manifest), std::move(options), *sizes);
}

int fail(const Status& status) {
  std::fprintf(stderr, "hyc-run: error: %s\n", hycrt::printable(status.message()).c_str());
  return status.exitCode();
}

// What was printed and nobody got is a failure of a run that has none else.
int finish(int status) {
  const Status printed = hycrt::flushOutput();
  return printed.ok() || status != 0 ? status : fail(printed);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == hycrun::kAgentFlag) {
    hycrt::raiseDescriptorLimit();
    return finish(hycrun::runAgent());
  }
  if (argc == 2 && std::string(argv[1]) == hycrun::kKeeperFlag) {
    hycrt::raiseDescriptorLimit();
    return fail(hycrt::keepCopies(STDIN_FILENO, stdout));
  }
  if (argc == 2 && std::string(argv[1]) == hycrun::kReceiveFlag) {
    // As ssh ends it removes what has not arrived whole.
    for (int signal : {SIGHUP, SIGPIPE}) std::signal(signal, SIG_IGN);
    const Status received = hycrun::receiveFolder(STDIN_FILENO, stdout);
    return received.ok() ? finish(0) : fail(received);
  }
  if (argc == 2 && std::string(argv[1]) == kPrintOptions) {
    std::fputs(hycrt::writeOptionsJson().c_str(), stdout);
    return finish(0);
  }
  if (argc == 2 && std::string(argv[1]) == kPrintMetrics) {
    std::fputs(hycrt::metricsTable().c_str(), stdout);
    return finish(0);
  }
  Result<hycrt::ParsedCommandLine> parsed = hycrt::parseCommandLine(argc, argv, hycrt::CommandLine::kHycRun);
  if (!parsed.ok()) return fail(parsed.status());
  if (!parsed->help.empty()) {
    std::fputs(parsed->help.c_str(), stdout);
    return finish(0);
  }
  hycrt::raiseDescriptorLimit();
  Result<int> status = launch(parsed->options);
  if (!status.ok() && parsed->options.asRank) hycrt::writeErrorFile(status.status());
  return finish(status.ok() ? *status : fail(status.status()));
}
