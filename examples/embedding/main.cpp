// Trains a compiled program of one rank from inside of this one.
//
// Usage: embedding FOLDER_OF_HYC_COMPILE DATA STEPS
#include <cstdio>
#include <cstdlib>

#include "hycrt/options.h"
#include "hycrt/run.h"
#include "hycrt/step_report.h"

const hycrt::Program &stage0Program();

namespace {

// Told of what happens; an error that it returns would end the run.
struct Losses : hycrt::RunEvents {
  hycrt::Status step(const hycrt::StepRecord &record) override {
    std::printf("%.17g\n", record.loss);
    return {};
  }
};

} // namespace

int main(int argc, char **argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: embedding FOLDER_OF_HYC_COMPILE DATA STEPS\n");
    return 64;
  }
  hycrt::RunOptions settings; // a member an option of hyc-run
  settings.out = argv[1];
  settings.data = argv[2];
  settings.steps = std::atoll(argv[3]);
  Losses losses;
  const hycrt::Status status = hycrt::runProgram(stage0Program(), settings, losses);
  if (!status.ok())
    std::fprintf(stderr, "embedding: %s\n", status.message().c_str());
  return status.exitCode();
}
