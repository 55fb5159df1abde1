// StepObserver: tells a library that was loaded before the program (LD_PRELOAD) where steps begin, so that it can count
// what a step does, and nothing of what surrounds the steps. Without such a library nothing happens.
//
//   extern "C" void hycrt_step_begins(int64_t step);      of every rank, from 0; after the last step with their number
#ifndef HYCRT_SRC_RUN_STEP_OBSERVER_H_
#define HYCRT_SRC_RUN_STEP_OBSERVER_H_

#include <dlfcn.h>

#include <cstdint>

namespace hycrt {

class StepObserver {
 public:
  StepObserver() : begins_(reinterpret_cast<Begins>(dlsym(RTLD_DEFAULT, "hycrt_step_begins"))) {}
  void stepBegins(int64_t step) const {
    if (begins_) begins_(step);
  }

 private:
  using Begins = void (*)(int64_t);
  Begins begins_;
};

}  // namespace hycrt

#endif  // HYCRT_SRC_RUN_STEP_OBSERVER_H_
