// CompiledRun: runs the tools as a user does and reads what they write.
#ifndef HYC_TEST_E2E_COMPILEDRUN_H
#define HYC_TEST_E2E_COMPILEDRUN_H

#include <ostream>
#include <string>
#include <sys/types.h>
#include <vector>

namespace hyc_e2e {

struct Outcome {
  int status = 0;     // exit code, or 128 + the signal
  std::string output; // stdout and stderr together
};

/// Runs a program to its end; `arguments[0]` is its path.
Outcome execute(const std::vector<std::string> &arguments);

/// Runs a Python program by the interpreter that HYC_TEST_PYTHON names, else by python3.
Outcome executePython(const std::string &program, const std::vector<std::string> &arguments);

/// Starts a program without waiting, in a session of its own, its output going to `outputFile`.
pid_t start(const std::vector<std::string> &arguments, const std::string &outputFile);

/// Exit code, or 128 + the signal; -1 if it is still running after `seconds`.
int waitFor(pid_t pid, double seconds);

struct Layout {
  int tp = 1, pp = 1, dp = 1;
  std::string schedule = "1f1b";
  std::string optimizer = "adamw";
  std::string precision = "f32";
  std::vector<std::string> further = {}; ///< arguments; their letters are part of the name
  std::string name() const;
  /// For GoogleTest, which would list its bytes otherwise.
  friend void PrintTo(const Layout &layout, std::ostream *out) { *out << layout.name(); }
};

/// Without what evaluates beside training, unless the arguments say what the programs are for: half of what there is to
/// compile, and no bit of training (EntriesTest.cpp).
std::vector<std::string> trainingOnly(std::vector<std::string> arguments);

/// The arguments of hyc-compile for the tiny GPT-2 at a global batch of 16 in this layout, into `folder`.
std::vector<std::string> compileArguments(const Layout &layout, const std::string &folder);

/// Compiles the tiny GPT-2 to train by AdamW at 1e-3, with these further arguments, into a fresh folder `name`, which
/// it returns. Throws std::runtime_error with the tool's output.
std::string compiledTinyGpt2(const std::string &name, const std::vector<std::string> &further);

/// Compiles once a layout and process; returns the folder. Throws std::runtime_error with the tool's output.
std::string compiled(const Layout &layout);

/// The losses and gradient norms of a log that hyc-run wrote.
struct Log {
  std::vector<double> losses, norms, rates;
  std::vector<double> scales; ///< of the loss; empty where it is not scaled
  std::vector<int64_t> skipped;
  struct Evaluation {
    int64_t step;
    double loss, accuracy; // -1: not told
  };
  std::vector<Evaluation> evaluations; ///< of held-out data, after steps
};
Log readLog(const std::string &path);
/// The text of a log's last record; empty where there is none.
std::string lastLine(const std::string &path);

/// Trains `folder` for `steps` on the first windows of text.bin; throws if that fails. `extra` are further arguments.
Log train(const std::string &folder, int steps, const std::vector<std::string> &extra = {});

std::string tool(const std::string &name);
std::string model(const std::string &name);
/// A fresh folder below the test's output folder.
std::string scratch(const std::string &name);

} // namespace hyc_e2e

#endif // HYC_TEST_E2E_COMPILEDRUN_H
