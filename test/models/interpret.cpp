// hyc-interpret: executes the text of a phase in the interpreter, on given samples, and prints each step's loss. One
// rank after phases 2 and 3, all ranks of the mesh in one process after phases 4 and 5. Nothing is compiled.
//
//   hyc-compile model.pt2 --loss causal_lm --optimizer sgd --tp 2 --pp 2 --emit=local -o model.mlir
//   hyc-interpret model.mlir --data samples.safetensors --steps 10 --gradients first.safetensors
//
// SAMPLES has a tensor for each of the program's inputs, samples first; each step takes the next share of them. Sums
// are printed with all their digits, so that equal lines are equal bits.
#include "SafeTensors.h"
#include "dialects/Dist/DistDialect.h"
#include "dialects/Hyc/HycDialect.h"
#include "dialects/Rank/RankDialect.h"
#include "hyc/Import/Text/ImportText.h"
#include "hyc/Interpreter/MeshInterpreter.h"
#include "hyc/Interpreter/RankInterpreter.h"
#include "hyc/Support/DriverError.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"

#include <functional>

using namespace mlir;
using namespace hyc;
using namespace hyc::interpreter;

static llvm::cl::opt<std::string> input(llvm::cl::Positional, llvm::cl::desc("<text of phase 2 to 5>"),
                                        llvm::cl::Required);
static llvm::cl::opt<std::string> data("data", llvm::cl::Required, llvm::cl::value_desc("SAMPLES"),
                                       llvm::cl::desc("safetensors: a tensor for each input, samples first"));
static llvm::cl::opt<int64_t> steps("steps", llvm::cl::init(1), llvm::cl::desc("Shares that the samples are cut into"));
static llvm::cl::opt<int64_t> microBatches("micro-batches", llvm::cl::init(1),
                                           llvm::cl::desc("Of a step, in phases 2 and 3; later texts say it"));
static llvm::cl::opt<double> rate("lr", llvm::cl::init(1e-3), llvm::cl::desc("Learning rate"));
static llvm::cl::opt<std::string> gradients("gradients", llvm::cl::value_desc("FILE"),
                                            llvm::cl::desc("safetensors: the first step's, summed, by parameter"));
static llvm::cl::opt<std::string> parameters("parameters", llvm::cl::value_desc("FILE"),
                                             llvm::cl::desc("safetensors: what they are after the last step"));

namespace {
/// An interpreter of any phase: a step, and a state by its name, null where there is none.
struct Job {
  std::function<FailureOr<StepResult>(const NamedTensors &)> step;
  std::function<Tensor(StringRef)> stateOf;
};
} // namespace

/// Shares of equally many samples, or an error that names an input that has another number of them.
static FailureOr<std::vector<NamedTensors>> cut(ModuleOp module, const NamedTensors &samples, int64_t count,
                                                StringRef whose, StringRef option) {
  FailureOr<std::vector<NamedTensors>> parts = splitMicroBatches(samples, count);
  if (succeeded(parts))
    return parts;
  if (count < 1)
    return module.emitError("--") << option << " is " << count << ", expected at least 1", failure();
  for (const auto &[name, tensor] : samples) {
    int64_t found = tensor && tensor.getTensorRank() > 0 ? tensor.getDim(0) : 0;
    if (found % count != 0 || found == 0)
      return module.emitError(whose) << " has " << found << " samples of \"" << name << "\", expected a multiple of "
                                     << count << " (--" << option << "); give as many, or another --" << option,
             failure();
  }
  return failure();
}

/// Programs of one rank are for a number of samples.
static LogicalResult checkMicroBatch(ModuleOp module, const NamedTensors &part) {
  auto function = module.lookupSymbol<FuncOp>("microbatch");
  for (unsigned index = 0; function && index < function.getNumArguments(); ++index) {
    auto name = function.getArgAttrOfType<StringAttr>(index, "hyc.input");
    auto given = name ? part.find(name.getValue().str()) : part.end();
    auto type = dyn_cast<RankedTensorType>(function.getArgument(index).getType());
    if (given == part.end() || !type || type.getRank() == 0 || given->second.getDim(0) == type.getDimSize(0))
      continue;
    int64_t found = given->second.getDim(0), expected = type.getDimSize(0);
    return module.emitError("a micro-batch has ")
           << found << " samples of \"" << name.getValue() << "\", expected " << expected << ": give --data "
           << expected * steps * microBatches << " samples, for " << steps.getValue() << " steps (--steps) of "
           << microBatches.getValue() << " micro-batches (--micro-batches), or other numbers of these";
  }
  return success();
}

static FailureOr<Job> oneRank(ModuleOp module) {
  FailureOr<Interpreter> made = Interpreter::create(module);
  if (failed(made))
    return failure();
  auto job = std::make_shared<Interpreter>(std::move(*made));
  return Job{[job, module](const NamedTensors &samples) mutable -> FailureOr<StepResult> {
               FailureOr<std::vector<NamedTensors>> parts =
                   cut(module, samples, microBatches, "a step", "micro-batches");
               if (failed(parts) || failed(checkMicroBatch(module, parts->front())))
                 return failure();
               return runTrainStep(*job, *parts, rate.getValue());
             },
             [job](StringRef name) {
               const Tensor *state = job->getState(name);
               return state ? *state : Tensor();
             }};
}

template <typename Ranks> static FailureOr<Job> allRanks(ModuleOp module) {
  FailureOr<Ranks> made = Ranks::create(module);
  if (failed(made))
    return failure();
  auto job = std::make_shared<Ranks>(std::move(*made));
  return Job{[job](const NamedTensors &samples) { return job->runStep(samples, rate.getValue()); },
             [job](StringRef name) {
               FailureOr<Tensor> state = job->gatherState(name);
               return succeeded(state) ? *state : Tensor();
             }};
}

static FailureOr<Job> makeJob(ModuleOp module) {
  if (!module.getOps<rank::ProgramOp>().empty())
    return allRanks<RankInterpreter>(module);
  return module.getOps<dist::ScheduleOp>().empty() ? oneRank(module) : allRanks<MeshInterpreter>(module);
}

/// What kind each input has, by its name.
static llvm::StringMap<ElementKind> inputKinds(ModuleOp module) {
  llvm::StringMap<ElementKind> kinds;
  for (auto function : module.getOps<FuncOp>())
    for (unsigned index = 0; index < function.getNumArguments(); ++index)
      if (auto name = function.getArgAttrOfType<StringAttr>(index, "hyc.input"))
        if (auto kind = elementKind(cast<RankedTensorType>(function.getArgument(index).getType()).getElementType(),
                                    Arithmetic::AsTyped))
          kinds[name.getValue()] = *kind;
  for (auto program : module.getOps<rank::ProgramOp>())
    for (auto argument : program.getOps<rank::InputOp>())
      if (auto kind = elementKind(argument.getType().getElementType(), Arithmetic::AsTyped))
        kinds[argument.getSymName()] = *kind;
  return kinds;
}

static NamedTensors readSamples(ModuleOp module) {
  llvm::StringMap<ElementKind> kinds = inputKinds(module);
  NamedTensors samples;
  for (const auto &[name, tensor] : hyc_e2e::readSafeTensors(data))
    if (auto kind = kinds.find(name); kind != kinds.end())
      samples[name] = Tensor::fromDoubles(kind->second, tensor.shape, tensor.values);
  return samples;
}

/// What states there are that hold parameters, or their gradients, under the parameter's name.
static void save(const Job &job, ArrayRef<std::string> names, StringRef suffix, const std::string &path) {
  std::vector<hyc_e2e::TypedTensor> tensors;
  for (const std::string &name : names)
    if (Tensor state = job.stateOf(name + suffix.str()))
      tensors.push_back({name, "F32", {std::vector<int64_t>(state.getShape()), state.toDoubles()}});
  hyc_e2e::writeSafeTensors(path, tensors);
}

static std::vector<std::string> statesOf(ModuleOp module, bool gradientsOnly) {
  std::vector<std::string> names;
  llvm::StringSet<> seen;
  auto add = [&](StringRef name) {
    bool isGradient = name.consume_back(".grad");
    if (isGradient == gradientsOnly && seen.insert(name).second)
      names.push_back(name.str());
  };
  for (Operation &op : module.getOps())
    if (isa<ParamOp>(op) ? !gradientsOnly : gradientsOnly && isa<StateOp>(op))
      add(cast<SymbolOpInterface>(op).getName());
  for (auto program : module.getOps<rank::ProgramOp>())
    for (auto state : program.getOps<rank::StateOp>())
      if (state.getRole() == (gradientsOnly ? "gradient" : "parameter"))
        add(state.getSymName());
  return names;
}

static LogicalResult train(ModuleOp module) {
  FailureOr<Job> job = makeJob(module);
  if (failed(job))
    return failure();
  NamedTensors samples = readSamples(module);
  FailureOr<std::vector<NamedTensors>> shares = cut(module, samples, steps, "--data", "steps");
  if (failed(shares))
    return failure();
  for (size_t step = 0; step < shares->size(); ++step) {
    FailureOr<StepResult> result = job->step((*shares)[step]);
    if (failed(result))
      return failure();
    llvm::outs() << llvm::format("{\"step\": %zu, \"loss\": %.9g, \"loss_sum\": %.17g, \"tokens\": %lld}\n", step + 1,
                                 result->meanLoss(), result->lossSum, static_cast<long long>(result->tokenCount));
    if (step == 0 && !gradients.empty())
      save(*job, statesOf(module, true), ".grad", gradients);
  }
  if (!parameters.empty())
    save(*job, statesOf(module, false), "", parameters);
  return success();
}

int main(int argc, char **argv) {
  if (!llvm::cl::ParseCommandLineOptions(argc, argv, "executes the text of a phase\n", &llvm::errs()))
    return static_cast<int>(ExitCode::Usage);
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.printOpOnDiagnostic(false);
  context.loadDialect<HycDialect, dist::DistDialect, rank::RankDialect>();
  llvm::SourceMgr sources;
  SourceMgrDiagnosticHandler handler(sources, &context);
  FailureOr<OwningOpRef<ModuleOp>> module = importText(context, input);
  if (failed(module))
    return static_cast<int>(ExitCode::Data);
  try {
    return succeeded(train(**module)) ? 0 : static_cast<int>(ExitCode::Data);
  } catch (const std::exception &error) { // of the file of samples
    llvm::errs() << "hyc-interpret: error: " << error.what() << "\n";
    return static_cast<int>(ExitCode::Data);
  }
}
