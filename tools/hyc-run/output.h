// Output: what hyc-run prints, where those who read it may stand still: a pager, a terminal that was told to stop, a
// collector that hangs. Then hyc-run waits, and its ranks with it, but not where the user wants an end.
#ifndef HYC_RUN_OUTPUT_H_
#define HYC_RUN_OUTPUT_H_

#include <cstdio>
#include <string>

namespace hycrun {

class Signals;

class Output {
 public:
  explicit Output(const Signals& signals) : signals_(signals) {}

  // Waits until it takes some more. False: nobody reads it, and a signal has come that ends the run.
  bool takes(FILE* to);
  // All of it, and at once; what nobody is there to read is left out.
  void print(FILE* to, const std::string& text);

 private:
  const Signals& signals_;
  bool isLeftOut_[2] = {};  // standard output, standard error
};

}  // namespace hycrun

#endif  // HYC_RUN_OUTPUT_H_
