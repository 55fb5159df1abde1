// embedding OUT DATA STEPS STOP: a program of its own that trains the miniature model in itself (hycrt/run.h). Prints
// what it is told, and how the run ended; from step STOP on it wants no more.
#include <cstdio>
#include <cstdlib>

#include "hycrt/memory_report.h"
#include "hycrt/options.h"
#include "hycrt/run.h"
#include "hycrt/step_report.h"

const hycrt::Program& miniatureProgram();

namespace {

class Printer : public hycrt::RunEvents {
 public:
  explicit Printer(int64_t stop) : stop_(stop) {}
  hycrt::Status begin() override {
    std::puts("begin");
    return {};
  }
  hycrt::Status step(const hycrt::StepRecord& record) override {
    std::puts(hycrt::toJson(record).c_str());
    return record.step == stop_ ? hycrt::dataError("that is enough") : hycrt::Status();
  }
  hycrt::Status memory(const hycrt::MemoryRecord& record) override {
    std::printf("memory of rank %d\n", record.rank);
    return {};
  }

 private:
  const int64_t stop_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 64;
  hycrt::RunOptions settings;
  settings.out = argv[1];
  settings.data = argv[2];
  settings.steps = std::atoll(argv[3]);
  settings.seed = 3;
  settings.threads = 1;
  Printer printer(std::atoll(argv[4]));
  const hycrt::Status status = hycrt::runProgram(miniatureProgram(), settings, printer);
  std::printf("ended: %s\n", status.ok() ? "well" : status.message().c_str());
  return 0;
}
