// Flags at random, and what an outcome has to be.
#include "Trial.h"

#include "hyc/Plan/SettingTable.h"
#include "llvm/Support/Regex.h"
#include "llvm/Support/raw_ostream.h"

using namespace hyc;
using namespace hyc::fuzzing;

std::vector<std::string> hyc::fuzzing::randomFlags(Random &random, int64_t batch, const std::string &loss) {
  std::vector<std::string> flags{"--loss=" + loss, "--emit=rank"};
  auto add = [&](const std::string &flag, auto value) {
    if constexpr (std::is_arithmetic_v<decltype(value)>)
      flags.push_back("--" + flag + "=" + std::to_string(value));
    else
      flags.push_back("--" + flag + "=" + value);
  };
  int64_t dp = random.pick(std::initializer_list<int64_t>{1, 1, 2, 2, 4});
  add("tp", random.pick(std::initializer_list<int64_t>{1, 1, 2, 2, 4}));
  add("pp", random.pick(std::initializer_list<int64_t>{1, 1, 1, 2}));
  add("dp", dp);
  add("micro-batch", batch / dp);
  add("grad-accum", random.pick(std::initializer_list<int64_t>{1, 2}));
  if (dp > 1 && random.oneIn(2))
    add("zero", random.between(1, 3));
  if (random.oneIn(3))
    add("stage3-param-persistence-threshold", int64_t(0));
  add("optimizer", random.pick(std::initializer_list<const char *>{"adamw", "sgd", "sgd", "lion", "lamb", "adam"}));
  static constexpr const char *kFurther[] = {"precision=bf16",
                                             "precision=fp16",
                                             "precision=fp8",
                                             "recompute=layer",
                                             "recompute=selective",
                                             "sequence-parallel=true",
                                             "schedule=gpipe",
                                             "offload-param=cpu",
                                             "offload-activations=cpu",
                                             "clip-grad-norm=1",
                                             "gradient-reduction=micro_batch",
                                             "reduce-bucket-size=16",
                                             "mode=train",
                                             "mode=evaluate",
                                             "entry=evaluate",
                                             "entry=train,evaluate",
                                             "offload-optimizer=cpu",
                                             "offload-optimizer=nvme"};
  for (const char *flag : kFurther)
    if (random.oneIn(16))
      flags.push_back(std::string("--") + flag);
  if (flags.back() == "--offload-optimizer=nvme" || random.oneIn(16))
    flags.push_back("--nvme-path=/tmp");
  return flags;
}

CompileOptions hyc::fuzzing::optionsOf(const std::string &input, const std::vector<std::string> &flags) {
  CompileOptions options;
  options.input = input;
  for (llvm::StringRef flag : flags) {
    auto [name, text] = flag.drop_front(2).split('=');
    bool isKnown = false;
    for (const SettingRow &row : getSettings())
      if (row.flag == name) {
        std::optional<SettingValue> value = parseLike(valueOf(row.in(options)), text);
        isKnown = value.has_value();
        if (isKnown)
          offerTo(row.in(options), *value, Origin::Flag, "--" + name.str());
      }
    if (!isKnown) {
      llvm::errs() << "no flag " << flag << "\n";
      std::exit(64);
    }
  }
  return options;
}

/// What the verifiers of MLIR and of hyc's dialects say of a module that hyc itself has made: "[broadcast.dims] maps
/// …".
static bool isOfVerifier(llvm::StringRef said) {
  static const llvm::Regex rule(
      "' op \\[[a-z_]+\\.[a-z_]+\\]|redefinition of symbol|(operand|result) #[0-9]|does not dominate|"
      "op requires|failed to (verify|infer)");
  return rule.match(said);
}

TrialOutcome hyc::fuzzing::judge(const CompileResult &result) {
  TrialOutcome outcome;
  outcome.code = static_cast<int>(result.code);
  outcome.said = result.error;
  for (const CompileDiagnostic &diagnostic : result.diagnostics)
    if (diagnostic.severity == CompileDiagnostic::Error && outcome.said.empty())
      outcome.said = diagnostic.str();
  switch (result.code) {
  case ExitCode::Ok:
    if (!outcome.said.empty())
      outcome.finding = "succeeded after an error";
    break;
  case ExitCode::Usage:
  case ExitCode::Data:
    if (outcome.said.empty())
      outcome.finding = "refused without a diagnostic";
    else if (isOfVerifier(outcome.said))
      outcome.finding = "makes a module that does not verify";
    break;
  default:
    outcome.finding = "exit " + std::to_string(outcome.code);
  }
  return outcome;
}

TrialOutcome hyc::fuzzing::compileToRank(const std::string &path, const std::vector<std::string> &flags) {
  CompileResult result = compile(optionsOf(path, flags), Toolchain());
  TrialOutcome outcome = judge(result);
  outcome.text = std::move(result.text);
  return outcome;
}
