// runProgram: the whole life of one rank. Options and environment, arenas, rendezvous, initial values, the schedule
// step by step, what is saved at the end. Called once, from the main of a generated executable.
//
// Environment: RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT, as torchrun, hyc-run and others set them. With
// none of them, a program of a 1×1×1 mesh runs as the only rank. The manifest is looked for at --out DIR, and without
// it in the folder above the one that the executable lies in.
//
// Options: hyc-run's (run_option_rows.h), and --out.
#ifndef HYCRT_RUN_H_
#define HYCRT_RUN_H_

#include "hycrt/accelerator.h"
#include "hycrt/program.h"

namespace hycrt {

// The process's exit status: 0, or the code of the first error (see status.h), which has been printed to stderr.
// Programs for GPUs say how their device is made.
int runProgram(int argc, char** argv, const Program& program, MakeAccelerator makeAccelerator = nullptr);

}  // namespace hycrt

#endif  // HYCRT_RUN_H_
