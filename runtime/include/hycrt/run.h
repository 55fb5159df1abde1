// The whole life of one rank: arenas, the other ranks, initial values, the schedule step by step, what is saved at the
// end. As a program of its own:
//
//   int main(int argc, char** argv) { return hycrt::runProgram(argc, argv, kProgram); }
//
// or inside another program, which gives settings, and is told what happens:
//
//   struct Losses : hycrt::RunEvents {
//     hycrt::Status step(const hycrt::StepRecord& record) override { …; return {}; }
//   } losses;
//   hycrt::RunOptions settings;
//   settings.out = "out";        // what hyc-compile wrote
//   settings.data = "text.bin";
//   hycrt::Status status = hycrt::runProgram(kProgram, settings, losses);
//
// Environment, of both: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT, as torchrun, hyc-run
// and others set them. With none of them, a program of one rank runs as the only one.
#ifndef HYCRT_RUN_H_
#define HYCRT_RUN_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "hycrt/accelerator.h"
#include "hycrt/program.h"
#include "hycrt/status.h"

namespace hycrt {

struct ExchangeRecord;  // exchange_record.h
struct MemoryRecord;    // memory_report.h
struct RunEvent;        // run_event.h
struct RunOptions;      // options.h
struct StepRecord;      // step_report.h

// What a run may be asked for while it goes on; bits.
enum RunWish : uint32_t {
  kWriteCheckpoint = 1,
  kEndRun = 2,    // with a checkpoint
  kTimeIsUp = 4,  // the same, by --time-limit
  kRelayout = 8,  // the same, to be gone on from by programs of another layout
};
// Those after which a run ends.
inline constexpr uint32_t kEndingWishes = kEndRun | kTimeIsUp | kRelayout;

// The cause of such an end, as kEnd has it.
inline constexpr char kAnotherLayout[] = "another layout";

// What hyc-run asks its ranks for kRelayout by, once they have told of a measurement.
int relayoutSignal();

// What a rank tells whoever runs it; on the thread that runs it but where said otherwise. An error that is returned
// ends the run with it.
class RunEvents {
 public:
  virtual ~RunEvents() = default;
  // Of every rank: the ranks have met, and the states have their first values.
  virtual Status begin() { return {}; }
  // Of rank 0: a step, or a batch of an evaluation, is over.
  virtual Status step(const StepRecord&) { return {}; }
  // Of rank 0, once a second and at the end of a training: what it has waited for exchanges so far, a call a kind and
  // cause.
  virtual Status exchange(const ExchangeRecord&) { return {}; }
  // Of every rank, at the end of a training.
  virtual Status memory(const MemoryRecord&) { return {}; }
  // Of rank 0, and where a run ends early (kEnd, after which it gives no error) of every rank.
  virtual Status happened(const RunEvent&) { return {}; }
  // Of rank 0: a JSON object for the log, beside steps and events ("exchanges", docs/instruments.md).
  virtual Status record(const std::string&) { return {}; }
  // Of every rank, after each step but the last of a run with --checkpoint: what is asked of it, as RunWish. What one
  // rank says is done by all.
  virtual uint32_t wishes() { return 0; }
  // A line for people, such as which device was taken, or who is waited for; of programs for GPUs the latter is told on
  // another thread.
  virtual void note(const std::string&) {}
  // A line for those who look for a fault: what the rank does now, and by which ways it reaches others.
  virtual void debug(std::string_view) {}
  // Of programs for GPUs, on another thread: this rank waits for its device, which waits for a rank that is gone or
  // does not come. Of any, at the start: OpenMP ends the process, since it gets no threads. When this returns the
  // process ends, with the error's exit code.
  virtual void abandon(const Status&) {}
};

// Runs one rank and returns how it ended. It reads no command line, installs no handler, and prints nothing but
// warnings of a disk that does not answer. While it runs, the calling thread and OpenMP's teams are this rank's: they
// may be pinned to its share of the cores. settings.out has to be given; Neither settings.logFile nor another
// instrument is written, since `events` has what would stand there. Where a run on a GPU fails, what the device may
// still use is not given back before the process ends.
Status runProgram(const Program& program, const RunOptions& settings, RunEvents& events,
                  MakeAccelerator makeAccelerator = nullptr);

// The same from a command line: hyc-run's options (run_option_rows.h), and --out, without which the folder is the one
// above that of the executable. Gives the process's exit status: 0, or the code of the first error (see status.h),
// which has been printed to stderr. Programs for GPUs say how their device is made.
int runProgram(int argc, char** argv, const Program& program, MakeAccelerator makeAccelerator = nullptr);

}  // namespace hycrt

#endif  // HYCRT_RUN_H_
