// hyc-compile: a model and a mesh in, one program a pipeline stage out. Only what a terminal needs lives here: the
// command line, printing, progress and interruption.
#include "Flags.h"
#include "hyc/Driver/Compile.h"
#include "hyc/Driver/Interruption.h"
#include "hyc/Plan/SettingTable.h"
#include "hyc/Plan/SettingsJson.h"
#include "hyc/Support/NearestName.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/raw_ostream.h"

#include <chrono>
#include <unistd.h>

using namespace llvm;

/// What LLVM says of a command line that it cannot read, as one error: what was found, what was expected. Of several
/// complaints the first is the cause.
static std::string describeUsage(StringRef said) {
  auto [first, rest] = said.split('\n');
  first.consume_front("hyc-compile: ");
  std::string text = "hyc-compile: error: ";
  if (first.consume_front("Unknown command line argument '")) {
    const auto isQuote = [](char c) { return c == '\''; };
    StringRef nearest = rest.split('\n').first, flag = first.take_until(isQuote);
    text += "unknown flag '" + flag.str() + "'";
    const bool isOffered = nearest.consume_front("hyc-compile: Did you mean '");
    nearest = nearest.take_until(isQuote);
    // What resembles it no more is no help.
    if (isOffered && hyc::nameDistance(flag, nearest) <= std::max<size_t>(2, flag.size() / 3))
      text += "; the nearest is '" + nearest.str() + "'";
    return text + " (--help lists all)\n";
  }
  if (first.starts_with("Too many positional"))
    return text + "more than one model is given, expected one\n";
  return text + first.str() + "\n";
}

/// Whether a word is a flag that takes the next one as its value.
static bool wantsValue(StringRef word) {
  if (!word.consume_front("--") && !word.consume_front("-"))
    return false;
  auto found = cl::getRegisteredOptions().find(word);
  return found != cl::getRegisteredOptions().end() && found->second->getValueExpectedFlag() == cl::ValueRequired;
}

/// A flag at the end that has no value behind it, of which LLVM would speak by itself; else nothing.
static StringRef flagWithoutValue(ArrayRef<const char *> words) {
  bool wants = false;
  for (StringRef word : words)
    wants = !wants && wantsValue(word);
  return wants ? words.back() : "";
}

/// A flag whose value is empty, which is what a shell makes of a variable that is not set: taken for "not given" it
/// would silently leave out what was asked for.
static StringRef flagWithEmptyValue(ArrayRef<const char *> words) {
  StringRef waiting; // for its value
  for (StringRef word : words) {
    if (!waiting.empty() && word.empty())
      return waiting;
    auto [flag, value] = word.split('=');
    if (waiting.empty() && flag.starts_with("--") && word.contains('=') && value.empty())
      return flag;
    waiting = waiting.empty() && wantsValue(word) ? word : StringRef();
  }
  return "";
}

/// What the table of settings says of a flag's values, or that there is to be one.
static std::string expectedOf(StringRef flag) {
  for (const hyc::SettingRow &row : hyc::getSettings())
    if (std::string range = hyc::describe(row.range); row.flag == flag.ltrim('-') && !range.empty())
      return range;
  return "a value";
}

/// LLVM's libraries register hundreds of options of their own, one of them `--threads`: all but help go, so that help,
/// typo suggestions and values are ours alone.
static void dropLibraryOptions() {
  std::vector<cl::Option *> foreign;
  for (const auto &[name, option] : cl::getRegisteredOptions())
    if (!is_contained({"help", "h", "help-hidden", "version"}, name))
      foreign.push_back(option);
  for (cl::Option *option : foreign)
    option->removeArgument();
}

static constexpr char kOverview[] =
    "Compiles a model into one training program for each pipeline stage.\n\n"
    "EXAMPLE: hyc-compile gpt2.onnx --loss cross_entropy --logits logits --labels labels \\\n"
    "             --tp 2 --pp 2 --dp 2 --micro-batch 2 --grad-accum 4 --optimizer adamw --lr 1e-3 -o out\n"
    "         hyc-run out --data text.bin --steps 100\n";

/// Diagnostics as they come, and on a terminal one line that tells how far a step is.
static hyc::CompileListener standardError() {
  hyc::CompileListener listener;
  listener.diagnosed = [](const hyc::CompileDiagnostic &diagnostic) { errs() << diagnostic.str() << "\n"; };
  listener.progressed = [live = sys::Process::StandardErrIsDisplayed()](const std::string &text) {
    if (!text.empty())
      errs() << (live ? "\r" : "") << text << (live ? "" : "\n");
    else if (live)
      errs() << "\r\033[K";
  };
  return listener;
}

/// What is printed at the end, and the status.
static int report(const hyc::CompileResult &result) {
  outs() << result.text;
  outs().flush();
  if (!result.error.empty())
    errs() << "hyc-compile: error: " << result.error << "\n";
  if (!outs().has_error() || !result)
    return static_cast<int>(result.code);
  errs() << "hyc-compile: error: cannot write to standard output: " << outs().error().message() << "\n";
  outs().clear_error();
  return static_cast<int>(hyc::ExitCode::Io);
}

/// What LLVM ends the process for: of a stream that could not be written, help among them, and of faults.
static void endFatally(void *, const char *reason, bool) {
  bool isStream = StringRef(reason).contains("IO failure on output stream");
  errs() << "hyc-compile: error: " << (isStream ? "cannot write: " : "") << reason << "\n";
  _exit(static_cast<int>(isStream ? hyc::ExitCode::Io : hyc::ExitCode::Internal));
}

static int compileAndReport(const hyc::CompileOptions &options, const hyc::Toolchain &toolchain) {
  auto begin = std::chrono::steady_clock::now();
  hyc::Interruption interruption;
  hyc::CompileResult result = hyc::compile(options, toolchain, standardError());
  if (result && !result.folder.empty()) {
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    bool evaluates = result.plan.evaluates(), isRunnable = *options.emit == "exe" && !*options.planOnly;
    outs() << result.summary << "wrote " << result.folder << " in " << format("%.1f s", seconds);
    if (isRunnable)
      outs() << (evaluates ? "; evaluate with: hyc-run " : "; train with: hyc-run ") << result.folder << " --data FILE"
             << (evaluates ? "" : " --steps N") << (result.plan.evaluatesBeside() ? " --evaluate-data FILE" : "");
    outs() << "\n";
  }
  return report(result);
}

/// What a folder was compiled with says all else.
static std::string refusalBesideReplan(const hyc::CompileOptions &options) {
  for (const hyc::SettingRow &row : hyc::getSettings()) {
    bool isOfReplan = row.ofOptions == hyc::memberOfOptions<&hyc::CompileOptions::measuredFiles> ||
                      row.ofOptions == hyc::memberOfOptions<&hyc::CompileOptions::planSeconds>;
    if (!isOfReplan && hyc::originOf(row.in(options)) == hyc::Origin::Flag)
      return "--" + row.flag.str() + " is given beside --replan, which takes what the folder was compiled with";
  }
  if (!options.input.empty())
    return "a model is given beside --replan, which takes that of the folder";
  if (options.measuredFiles->size() != 1)
    return "--replan needs one --measured FILE, which hyc-run --profile FILE writes";
  return "";
}

static int replanAndReport(const Flags &flags, const hyc::CompileOptions &options, const hyc::Toolchain &toolchain) {
  hyc::CompileResult result;
  result.error = refusalBesideReplan(options);
  hyc::RelayoutRequest request = flags.relayoutRequest();
  if (result.error.empty() && !(request.margin >= 0 && request.margin < 100))
    result.error = "--replan-margin is " + hyc::print(request.margin) + ", expected percent from 0 to below 100";
  if (!result.error.empty()) {
    result.code = hyc::ExitCode::Usage;
    return report(result);
  }
  request.measured = options.measuredFiles->front();
  request.seconds = options.planSeconds;
  hyc::Interruption interruption;
  Expected<hyc::Relayout> found = hyc::relayout(request, toolchain, standardError());
  if (found) {
    result.text = flags.replansForPrograms() ? found->toJson(request) + "\n" : found->describe(request);
  } else {
    handleAllErrors(found.takeError(), [&](const hyc::DriverError &error) {
      result.code = error.getCode();
      result.error = error.getMessage();
    });
  }
  return report(result);
}

int main(int argc, char **argv) {
  const hyc::IgnoredSignals ignored;
  InitLLVM initialize(argc, argv);
  ignored.restore();
  install_fatal_error_handler(endFatally);
  dropLibraryOptions();
  cl::SetVersionPrinter(
      [](raw_ostream &os) { os << "hyc-compile " HYC_VERSION ", with MLIR " LLVM_VERSION_STRING "\n"; });
  Flags flags;
  const int usage = static_cast<int>(hyc::ExitCode::Usage);
  if (StringRef flag = flagWithoutValue(ArrayRef<const char *>(argv, argc).drop_front()); !flag.empty()) {
    errs() << "hyc-compile: error: " << flag << " has no value, expected one behind it\n";
    return usage;
  }
  if (StringRef flag = flagWithEmptyValue(ArrayRef<const char *>(argv, argc).drop_front()); !flag.empty()) {
    errs() << "hyc-compile: error: " << flag << " is \"\", expected " << expectedOf(flag)
           << "; leave the flag out where nothing is meant\n";
    return usage;
  }
  std::string wrong;
  raw_string_ostream said(wrong);
  if (!cl::ParseCommandLineOptions(argc, argv, kOverview, &said)) {
    if (!wrong.empty()) // of a value that it cannot read, LLVM has said so itself
      errs() << describeUsage(wrong);
    return usage;
  }
  if (flags.printsPage()) {
    outs() << hyc::writeOptionsPage();
    return 0;
  }
  if (flags.printsSettings()) {
    outs() << hyc::writeSettingsJson();
    return 0;
  }
  Expected<hyc::CompileOptions> read = flags.read();
  if (!read) {
    errs() << "hyc-compile: error: " << toString(read.takeError()) << "\n";
    return usage;
  }
  const hyc::CompileOptions &options = *read;
  if (!flags.compared().empty() && options.input.empty()) {
    errs() << "hyc-compile: error: --compare has one plan, expected two: --compare A/plan.json B/plan.json\n";
    return usage;
  }
  if (!flags.compared().empty())
    return report(hyc::comparePlans(flags.compared(), options.input));
  if (flags.explains())
    return report(hyc::explainConfig(options));
  std::string executable = sys::fs::getMainExecutable(argv[0], reinterpret_cast<void *>(main));
  if (flags.replans())
    return replanAndReport(flags, options, hyc::Toolchain::find(executable));
  if (options.input.empty()) {
    errs() << "hyc-compile: error: no model given; try hyc-compile --help\n";
    return usage;
  }
  return compileAndReport(options, hyc::Toolchain::find(executable));
}
