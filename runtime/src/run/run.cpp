// runProgram: one rank from its command line to its exit status.
#include "hycrt/run.h"

#include <cstdio>
#include <memory>

#include "base/environment.h"
#include "base/limits.h"
#include "hycrt/options.h"
#include "run/interruption.h"
#include "run/rank_run.h"
#include "run/terminal_events.h"
#include "run/whereabouts_signal.h"

namespace hycrt {

// What a device that has failed may still use is left to the end of the process.
static Status runRank(const Program& program, const RunOptions& options, RunEvents& events, Environment& environment,
                      MakeAccelerator makeAccelerator) {
  auto run = std::make_unique<RankRun>(program, options, events, environment, makeAccelerator);
  Status status = run->run();
  if (!status.ok() && run->hasDevice()) (void)run.release();
  return status;
}

Status runProgram(const Program& program, const RunOptions& settings, RunEvents& events,
                  MakeAccelerator makeAccelerator) {
  if (settings.out.empty()) return usageError("no folder is given (RunOptions::out)");
  // Of a run that fails, what may live on keeps a reference to it.
  auto environment = std::make_unique<Environment>();
  Status status = runRank(program, settings, events, *environment, makeAccelerator);
  if (!status.ok()) (void)environment.release();
  return status;
}

int runProgram(int argc, char** argv, const Program& program, MakeAccelerator makeAccelerator) {
  Environment environment;
  Result<ParsedCommandLine> parsed = parseCommandLine(argc, argv, CommandLine::kRank);
  if (!parsed.ok()) return TerminalEvents(environment, {}).report(parsed.status());
  if (!parsed->help.empty()) {
    std::fputs(parsed->help.c_str(), stdout);
    return 0;
  }
  raiseDescriptorLimit();
  takeSignalsOfFirstProcess();
  TerminalEvents events(environment, parsed->options);
  const WhereaboutsSignal signal(TerminalEvents::tellWhere);
  const Status status = runRank(program, parsed->options, events, environment, makeAccelerator);
  const int code = events.report(status);
  if (status.ok() || !makeAccelerator) return code;
  // Without waiting for the device, whose kernels may be waiting for ranks that are gone.
  std::fflush(stderr);
  std::_Exit(code);
}

}  // namespace hycrt
