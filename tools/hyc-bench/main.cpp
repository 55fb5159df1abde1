// hyc-bench -o machine.json: measures what ranks compute and exchange, on this machine or over hosts, and writes the
// file that hyc-compile --machine reads. Wiring only.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "bench_options.h"
#include "figure.h"
#include "fleet.h"
#include "hycrt/limits.h"
#include "hycrt/options.h"
#include "hycrt/printable.h"
#include "hycrt/standard_output.h"
#include "hycrt/token.h"
#include "machine_file.h"
#include "passes.h"
#include "rank.h"
#include "ssh.h"

namespace {

using hycrt::Result;
using hycrt::Status;
using namespace hycbench;

constexpr int kMostDefaultRanks = 8;

std::string hostName() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return *name ? name : "machine";
}

// What ranks tell becomes rows of the table as it comes.
class Table {
 public:
  explicit Table(Bench* bench) : bench_(bench) {}

  Status take(const std::string& line) {
    if (!line.empty() && line[0] == kAboutMark) {
      about(line.substr(1));
      return {};
    }
    if (!line.empty() && line[0] == kPassMark) {
      std::printf("pass %s\n", hycrt::printable(line.substr(1)).c_str());
      std::fflush(stdout);
      return {};
    }
    if (line.empty() || line[0] != kFigureMark) {
      std::printf("%s\n", hycrt::printable(line).c_str());
      return {};
    }
    Result<Figure> figure = decode(line);
    if (!figure.ok()) return figure.status();
    figures.push_back(*figure);
    std::fputs(toRow(*figure).c_str(), stdout);
    std::fflush(stdout);
    return {};
  }

  std::vector<Figure> figures;

 private:
  void about(const std::string& text) {
    char* end = nullptr;
    bench_->threads = static_cast<int>(std::strtol(text.c_str(), &end, 10));
    bench_->cpu = hycrt::printable(*end ? end + 1 : end);
    std::printf("%s%s\n%s", describe(*bench_).c_str(), bench_->onDevice ? "" : "; a figure is the slowest rank's",
                headOfRows().c_str());
    std::fflush(stdout);
  }

  Bench* const bench_;
};

Result<std::vector<hycrun::Host>> hostsFor(const BenchOptions& options) {
  Result<std::vector<hycrun::Host>> hosts = hycrun::readHostfile(options.hostfile);
  if (!hosts.ok()) return hosts;
  HYCRT_RETURN_IF_ERROR(hycrun::selectHosts(options.include, options.exclude, &*hosts));
  for (const hycrun::Host& host : *hosts) {
    if (host.slots.size() == hosts->front().slots.size()) continue;
    return hycrt::usageError("host '" + host.name + "' has " + std::to_string(host.slots.size()) + " slots and '" +
                             hosts->front().name + "' " + std::to_string(hosts->front().slots.size()) +
                             ", expected as many on each; take fewer by --include, as in " + host.name + ":0");
  }
  return hosts;
}

// How far passes agree; by more than this they differ where something else runs, or the machine is shared.
std::string differences(const std::vector<Figure>& figures) {
  constexpr double kMuch = 1.2;
  const std::optional<Spread> widest = widestSpread(figures);
  if (!widest) return "";
  const std::string advice = widest->ratio() > kMuch
                                 ? ", as beside other work, or on a shared machine; measure again, or by more --passes"
                                 : "";
  return "the file has medians; between passes differed most: " + describe(*widest) + advice + "\n";
}

Status measure(const BenchOptions& options) {
  HYCRT_RETURN_IF_ERROR(checkMachineFile(options.output));
  Bench bench;
  bench.name = options.name.empty() ? hostName() : options.name;
  bench.onDevice = options.onDevice;
  bench.passes = options.passes;
  Table table(&bench);
  const TakeLine take = [&](const std::string& line) { return table.take(line); };
  Status status;
  if (options.onDevice) {
    status = runOnDevice(options, take);
  } else if (options.hostfile.empty()) {
    bench.ranksHere = options.ranks > 0 ? options.ranks : std::min(kMostDefaultRanks, hycrt::defaultThreads(1));
    status =
        runHere(options, {0, bench.ranksHere, bench.ranksHere, hycrt::makeName(), hycrt::makeToken(), "", 0}, take);
  } else {
    const Result<std::vector<hycrun::Host>> hosts = hostsFor(options);
    if (!hosts.ok()) return hosts.status();
    bench.hosts = static_cast<int>(hosts->size());
    bench.ranksHere = static_cast<int>(hosts->front().slots.size());
    status = runOnHosts(options, *hosts, take);
  }
  HYCRT_RETURN_IF_ERROR(status);
  HYCRT_RETURN_IF_ERROR(writeMachineFile(options.output, machineFile(bench, table.figures)));
  std::fputs(differences(table.figures).c_str(), stdout);
  const char* const missing = options.onDevice           ? "exchanges between GPUs and disks were not measured\n"
                              : options.nvmePath.empty() ? "no disk was measured: --nvme-path DIR names one\n"
                                                         : "";
  std::printf("%swrote %s, for hyc-compile --machine %s\n", missing, options.output.c_str(), options.output.c_str());
  return {};
}

// A rank's own words go to the hyc-bench that has started it, which knows its number.
int finish(const Status& status, bool isRank) {
  const Status printed = hycrt::flushOutput();
  const Status end = status.ok() ? printed : status;
  if (end.ok()) return 0;
  std::fprintf(stderr, "%serror: %s\n", isRank ? "" : "hyc-bench: ", hycrt::printable(end.message()).c_str());
  return end.exitCode();
}

}  // namespace

int main(int argc, char** argv) {
  hycrt::raiseDescriptorLimit();
  const std::string first = argc > 1 ? argv[1] : "";
  if (first == hycrun::kAgentFlag && argc == 2) return finish(runAsAgent(), false);
  if (first == kRankFlag) {
    const Result<BenchOptions> options = optionsOfRank({argv + 2, argv + argc});
    return finish(options.ok() ? runRank(*options) : options.status(), true);
  }
  const Result<CommandLine> line = parseCommandLine(argc, argv);
  if (!line.ok()) return finish(line.status(), false);
  if (!line->help.empty()) std::fputs(line->help.c_str(), stdout);
  return finish(line->help.empty() ? measure(line->options) : Status(), false);
}
