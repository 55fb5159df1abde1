// hyc-check: what this machine, or each host of a job, has for training, and what is in the way. Wiring only.
#include <algorithm>
#include <cstdio>
#include <string>

#include "check_options.h"
#include "findings.h"
#include "hostfile.h"
#include "hycrt/printable.h"
#include "hycrt/standard_output.h"
#include "inspection.h"
#include "report.h"
#include "ssh.h"

namespace {

using hycrt::Result;
using hycrt::Status;
using namespace hyccheck;

Result<Inspection> inspect(const CheckOptions &options) {
  if (options.hostfile.empty())
    return inspectHere();
  Result<std::vector<hycrun::Host>> hosts = hycrun::readHostfile(options.hostfile);
  if (!hosts.ok())
    return hosts.status();
  HYCRT_RETURN_IF_ERROR(hycrun::selectHosts(options.include, options.exclude, &*hosts));
  std::fprintf(stderr, "asking %zu hosts by ssh …\n", hosts->size());
  return inspectHosts(options, *hosts);
}

Result<int> check(const CheckOptions &options) {
  const Result<Inspection> inspection = inspect(options);
  if (!inspection.ok())
    return inspection.status();
  const Tools tools = inspection->hasHosts ? Tools() : findTools();
  const std::vector<Finding> findings = findingsOf(*inspection);
  const std::string text =
      options.json ? toJson(*inspection, tools, findings).dump(1) + "\n" : toText(*inspection, tools, findings);
  std::fputs(text.c_str(), stdout);
  const bool isClear = std::none_of(findings.begin(), findings.end(),
                                    [](const Finding &finding) { return finding.weight == Weight::kProblem; });
  const bool able = isClear && (inspection->hasHosts || trainsHere(tools));
  return able ? 0 : static_cast<int>(hycrt::StatusCode::kUnavailable);
}

int finish(Result<int> end) {
  if (const hycrt::Status printed = hycrt::flushOutput(); end.ok() && !printed.ok())
    end = printed;
  if (end.ok())
    return *end;
  std::fprintf(stderr, "hyc-check: error: %s\n", hycrt::printable(end.status().message()).c_str());
  return end.status().exitCode();
}

} // namespace

int main(int argc, char **argv) {
  if (argc == 2 && std::string(argv[1]) == hycrun::kAgentFlag)
    return runAsAgent();
  const Result<CommandLine> line = parseCommandLine(argc, argv);
  if (!line.ok())
    return finish(line.status());
  if (line->help.empty())
    return finish(check(line->options));
  std::fputs(line->help.c_str(), stdout);
  return finish(0);
}
