// hyc-compile: a model and a mesh in, one program a pipeline stage out. Only the command line lives here.
#include "hyc/Driver/Compile.h"

#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using hyc::EmitKind;

namespace {
/// The flags, grouped as --help shows them. Descriptions end with the default.
struct Flags {
  cl::OptionCategory model{"Model", "What is trained"};
  cl::OptionCategory mesh{"Parallelism", "How it is spread over ranks; ranks = tp × pp × dp"};
  cl::OptionCategory batch{"Batch", "Global batch = micro-batch × grad-accum × dp samples a step"};
  cl::OptionCategory memory{"Memory", "What is kept and where, and what is computed again"};
  cl::OptionCategory optimizer{"Optimizer", "How parameters are updated"};
  cl::OptionCategory files{"Files that decide", "A flag wins over --config, which wins over defaults"};
  cl::OptionCategory precisionFlags{"Precision", "Types to compute in, and loss scaling"};
  cl::OptionCategory output{"Output", "What is left behind"};

  cl::opt<std::string> input{cl::Positional, cl::desc("MODEL.onnx | MODEL.pt2 | FOLDER"),
                             cl::value_desc("MODEL.onnx | MODEL.pt2 | FOLDER"), cl::cat(model)};
  cl::opt<std::string> loss{
      "loss", cl::value_desc("NAME"), cl::init("cross_entropy"), cl::cat(model),
      cl::desc("cross_entropy, causal_lm, mse, binary_cross_entropy, or a scalar output of the model "
               "[cross_entropy]")};
  cl::opt<std::string> logits{"logits", cl::value_desc("NAME"), cl::cat(model),
                              cl::desc("Output that the loss reads [the only one]")};
  cl::opt<std::string> labels{"labels", cl::value_desc("NAME"), cl::init("labels"), cl::cat(model),
                              cl::desc("Input that holds the labels; added where the model has none [labels]")};
  cl::list<std::string> dims{"dim", cl::value_desc("NAME=N"), cl::cat(model),
                             cl::desc("Size of a symbolic dimension; may be repeated")};
  cl::opt<std::string> weights{
      "weights", cl::value_desc("SOURCE"), cl::init("read"), cl::cat(model),
      cl::desc("Where parameters start: read (the model's own), initialise-missing, initialise, "
               "or a safetensors file or the folder of one [read]")};

  cl::opt<std::string> entry{
      "entry", cl::value_desc("NAME"), cl::init("train"), cl::cat(model),
      cl::desc(
          "What the programs are for: train, or evaluate, which drops nothing, counts what is predicted right, and "
          "needs memory for neither gradients nor optimizer [train]")};
  cl::opt<std::string> mode{
      "mode", cl::value_desc("MODE"), cl::init("exported"), cl::cat(model),
      cl::desc("How the model runs: exported (as the file has it), train (batch norm by the batch, running averages "
               "kept) or evaluate (batch norm by running averages, nothing dropped, no buffer written) [exported]")};
  cl::opt<bool> dropout{
      "dropout", cl::init(true), cl::cat(model),
      cl::desc("What the model drops at random is dropped; =false to evaluate or fine-tune without [on]")};

  cl::opt<int64_t> tp{"tp", cl::value_desc("N"), cl::cat(mesh), cl::desc("Ranks that split each layer [1]")};
  cl::opt<int64_t> pp{"pp", cl::value_desc("N"), cl::cat(mesh), cl::desc("Pipeline stages [1]")};
  cl::opt<int64_t> virtualStages{
      "virtual-stages", cl::value_desc("N"), cl::cat(mesh),
      cl::desc(
          "Pieces of the model that each pipeline stage computes, interleaving 1f1b (virtual pipeline stages) [1]")};
  cl::opt<int64_t> dp{"dp", cl::value_desc("N"), cl::cat(mesh), cl::desc("Ranks that split the batch [1]")};
  cl::opt<std::string> schedule{"schedule", cl::value_desc("NAME"), cl::cat(mesh),
                                cl::desc("Order of micro-batches in the pipeline: gpipe or 1f1b [1f1b]")};
  cl::opt<std::string> partition{"partition-method", cl::value_desc("METHOD"), cl::cat(mesh),
                                 cl::desc("What stages balance: parameters, uniform or type:REGEX [parameters]")};
  cl::opt<std::string> offloadOptimizer{"offload-optimizer", cl::value_desc("WHERE"), cl::cat(memory),
                                        cl::desc("What the optimizer keeps: none, cpu (host memory) or nvme [none]")};
  cl::opt<std::string> offloadParam{"offload-param", cl::value_desc("WHERE"), cl::cat(memory),
                                    cl::desc("Parameters: none, cpu (host memory) or nvme [none]")};
  cl::opt<std::string> nvmePath{"nvme-path", cl::value_desc("FOLDER"), cl::cat(memory),
                                cl::desc("Where nvme is; hyc-run --nvme-path wins")};
  cl::opt<double> offloadRatio{"offload-ratio", cl::value_desc("X"), cl::cat(memory),
                               cl::desc("Part of the elements whose optimizer states are moved out [1]")};
  cl::opt<int64_t> maxInHost{"offload-param-max-in-cpu", cl::value_desc("N"), cl::cat(memory),
                             cl::desc("Elements of parameters for nvme that stay in host memory [0]")};
  cl::opt<int64_t> subGroup{"sub-group-size", cl::value_desc("N"), cl::cat(memory),
                            cl::desc("Elements whose offloaded states move together [16777216]")};
  cl::opt<bool> readAhead{"offload-read-ahead", cl::cat(memory),
                          cl::desc("Read from nvme while the group before is updated [on]")};
  cl::opt<bool> writeBehind{"offload-write-behind", cl::cat(memory),
                            cl::desc("Write to nvme while the group after is updated [on]")};
  cl::opt<int64_t> offloadPrefetch{
      "offload-prefetch", cl::value_desc("N"), cl::cat(memory),
      cl::desc("Uses that what is offloaded is fetched ahead of its own, and evictions that are under way meanwhile "
               "[0; with --target cuda 2]")};
  cl::opt<std::string> config{"config", cl::value_desc("FILE"), cl::cat(files),
                              cl::desc("A DeepSpeed ds_config.json; flags win over it")};
  cl::opt<bool> explain{"explain-config", cl::cat(files),
                        cl::desc("Print what becomes of every key of a ds_config, and stop")};
  cl::opt<int64_t> zero{"zero", cl::value_desc("STAGE"), cl::cat(mesh),
                        cl::desc("What dp ranks divide instead of repeating: 1 optimizer states, 2 gradients too, 3 "
                                 "parameters too [0]")};
  cl::opt<std::string> reduction{"gradient-reduction", cl::value_desc("WHEN"), cl::cat(mesh),
                                 cl::desc("When ranks sum gradients: once a step, or each micro_batch as they are made "
                                          "[step; micro_batch for --zero 2 and 3]")};
  cl::opt<int64_t> threshold{"stage3-param-persistence-threshold", cl::value_desc("N"), cl::cat(mesh),
                             cl::desc("Parameters of at most N elements stay whole under --zero 3 [100000]")};
  cl::opt<int64_t> prefetch{"stage3-prefetch", cl::value_desc("N"), cl::cat(mesh),
                            cl::desc("Under --zero 3 parameters are asked for N uses before they are needed [0]")};
  cl::opt<int64_t> prefetchBucket{"stage3-prefetch-bucket-size", cl::value_desc("N"), cl::cat(mesh),
                                  cl::desc("Most elements that are there before they are needed; without "
                                           "--stage3-prefetch, as early as that allows [50000000]")};
  cl::opt<int64_t> maxLive{"stage3-max-live-parameters", cl::value_desc("N"), cl::cat(mesh),
                           cl::desc("Most elements that prefetching may have gathered at once [1000000000]")};
  cl::opt<int64_t> reductionsInFlight{
      "reductions-in-flight", cl::value_desc("N"), cl::cat(mesh),
      cl::desc(
          "Gradients that are summed as they are made: how many sums may be under way while backward computes [1]")};
  cl::opt<int64_t> reduceBucket{"reduce-bucket-size", cl::value_desc("N"), cl::cat(mesh),
                                cl::desc("Most elements that one reduce-scatter carries [500000000]")};
  cl::opt<int64_t> gatherBucket{"allgather-bucket-size", cl::value_desc("N"), cl::cat(mesh),
                                cl::desc("Most elements that one all-gather carries [500000000]")};
  cl::opt<bool> sequenceParallel{
      "sequence-parallel", cl::cat(mesh),
      cl::desc("Split the sequence over tp too, between the blocks that tp splits otherwise [off]")};
  cl::opt<std::string> plan{"plan", cl::value_desc("FILE"), cl::cat(files),
                            cl::desc("A plan.json of an earlier compilation, edited or not")};
  cl::opt<int64_t> threads{
      "threads", cl::value_desc("N"), cl::init(0), cl::cat(mesh),
      cl::desc("Most threads of each rank; 0 shares the cores of this machine among the ranks [0]")};

  cl::opt<std::string> target{"target", cl::value_desc("NAME"), cl::init("cpu"), cl::cat(output),
                              cl::desc("What programs run on: cpu or cuda [cpu]")};
  cl::opt<int64_t> optimization{
      "optimize", cl::value_desc("N"), cl::init(3), cl::cat(output),
      cl::desc("How hard the host compiler works on generated code, 0 to 3; no bit of a result depends on it [3]")};
  cl::list<std::string> architectures{"arch", cl::value_desc("sm_N"), cl::CommaSeparated, cl::cat(output),
                                      cl::desc("cuda: which GPUs, as in sm_80,sm_90 [both]")};
  cl::opt<bool> poison{"poison", cl::cat(files),
                       cl::desc("For tests: programs whose hyc-run --poison overwrites every buffer at the end of its "
                                "planned life")};

  cl::opt<int64_t> microBatch{"micro-batch", cl::value_desc("N"), cl::cat(batch),
                              cl::desc("Samples of one micro-batch on one rank [1, or what the model fixes]")};
  cl::opt<int64_t> gradAccum{"grad-accum", cl::value_desc("N"), cl::cat(batch),
                             cl::desc("Micro-batches of one step, which fill the pipeline [1]")};

  cl::opt<std::string> recompute{
      "recompute", cl::value_desc("MODE"), cl::cat(memory),
      cl::desc("Activations that backward computes again: none, layer (all but what crosses between layers), selective "
               "(the inside of written-out attention) or auto (what does not fit --activation-memory) [none]")};
  cl::opt<std::string> activationMemory{
      "activation-memory", cl::value_desc("BYTES"), cl::cat(memory),
      cl::desc("With --recompute auto: most bytes of a rank's activations arena, as in 512MiB or 2GiB")};
  cl::opt<std::string> offloadGradients{
      "offload-gradients", cl::value_desc("WHERE"), cl::cat(memory),
      cl::desc("Where gradients are kept between additions to them: none (on the device) or cpu (the host's memory); "
               "goes with --offload-optimizer [none]")};
  cl::opt<std::string> offloadActivations{
      "offload-activations", cl::value_desc("WHERE"), cl::cat(memory),
      cl::desc("Where what --recompute leaves to be saved waits for backward: none (on the device) or cpu (the host's "
               "memory); with --recompute layer, CPU checkpointing [none]")};
  cl::opt<bool> partitionActivations{
      "partition-activations", cl::cat(memory),
      cl::desc("With --recompute layer: each rank of tp keeps its part of what crosses between layers [off]")};

  cl::opt<std::string> optimizerName{"optimizer", cl::value_desc("NAME"), cl::cat(optimizer),
                                     cl::desc("adamw, adam, lamb, lion or sgd [adamw]")};
  cl::opt<double> lr{"lr", cl::value_desc("X"), cl::cat(optimizer), cl::desc("Learning rate [1e-3]")};
  cl::opt<std::string> lrSchedule{"lr-schedule", cl::value_desc("RULE"), cl::cat(optimizer),
                                  cl::desc("constant, linear or cosine, over hyc-run --steps [constant]")};
  cl::opt<int64_t> warmup{"warmup-steps", cl::value_desc("N"), cl::cat(optimizer),
                          cl::desc("Steps over which the learning rate rises from 0 [0]")};
  cl::opt<double> weightDecay{"weight-decay", cl::value_desc("X"), cl::cat(optimizer),
                              cl::desc("Added to the gradient for adam and sgd, decoupled for others [0]")};
  cl::list<std::string> train{"train", cl::value_desc("REGEX"), cl::cat(optimizer),
                              cl::desc("Train only the parameters whose names match; may be repeated [all]")};
  cl::list<std::string> freeze{"freeze", cl::value_desc("REGEX"), cl::cat(optimizer),
                               cl::desc("Do not train the parameters whose names match; may be repeated")};
  cl::list<std::string> noDecay{"no-decay", cl::value_desc("REGEX"), cl::cat(optimizer),
                                cl::desc("Parameters that do not decay; may be repeated")};
  cl::opt<double> momentum{"momentum", cl::value_desc("X"), cl::cat(optimizer), cl::desc("Momentum of sgd [0]")};
  cl::opt<double> clip{"clip-grad-norm", cl::value_desc("X"), cl::cat(optimizer),
                       cl::desc("Largest global norm of the gradient; 0 does not clip [0]")};

  cl::opt<std::string> precision{
      "precision", cl::value_desc("TYPE"), cl::cat(precisionFlags),
      cl::desc("What the model computes in, beside f32 masters: f32, bf16, fp16, or fp8, which is "
               "experimental: bf16, but products with parameters in 8 bits under delayed "
               "scaling [f32]")};
  cl::opt<std::string> gradientType{"gradient-accumulation-type", cl::value_desc("TYPE"), cl::init("f32"),
                                    cl::cat(precisionFlags), cl::desc("What gradients add up in: f32 or bf16 [f32]")};
  cl::opt<std::string> communicationType{"communication-type", cl::value_desc("TYPE"), cl::cat(precisionFlags),
                                         cl::desc("What gradients are reduced in: f32, bf16 or fp16 [as they add up]")};
  cl::opt<double> lossScale{"loss-scale", cl::value_desc("X"), cl::cat(precisionFlags),
                            cl::desc("fp16: a fixed loss scale; 0 adapts it [0]")};
  cl::opt<int64_t> initialScalePower{"initial-scale-power", cl::value_desc("N"), cl::cat(precisionFlags),
                                     cl::desc("fp16: the loss scale begins at 2 to this power [16]")};
  cl::opt<int64_t> lossScaleWindow{"loss-scale-window", cl::value_desc("N"), cl::cat(precisionFlags),
                                   cl::desc("fp16: good steps after which it doubles [1000]")};
  cl::opt<int64_t> hysteresis{"hysteresis", cl::value_desc("N"), cl::cat(precisionFlags),
                              cl::desc("fp16: overflows that it takes to halve it [2]")};
  cl::opt<bool> consecutiveHysteresis{"consecutive-hysteresis", cl::cat(precisionFlags),
                                      cl::desc("fp16: a good step forgets earlier overflows")};
  cl::opt<double> minLossScale{"min-loss-scale", cl::value_desc("X"), cl::cat(precisionFlags),
                               cl::desc("fp16: it never falls below this [1]")};

  cl::opt<bool> checkFinite{
      "check-finite", cl::cat(precisionFlags),
      cl::desc("f32, bf16: programs end with the step, the rank and the first op that makes a NaN or an infinity; they "
               "read every result once more for it [off]")};

  cl::opt<std::string> outputPath{"o", cl::value_desc("PATH"), cl::cat(output),
                                  cl::desc("Folder, or file for the text of a phase [out, or standard output]")};
  cl::opt<EmitKind> emit{
      "emit", cl::init(EmitKind::Exe), cl::cat(output), cl::desc("Where to stop [exe]"),
      cl::values(clEnumValN(EmitKind::Model, "model", "text after phase 1: the model on one device"),
                 clEnumValN(EmitKind::Train, "train", "text after phase 2: micro-batch and update"),
                 clEnumValN(EmitKind::Plan, "plan", "text after phase 3: the same, every decision written on it"),
                 clEnumValN(EmitKind::Local, "local", "text after phase 4: what one rank computes and exchanges"),
                 clEnumValN(EmitKind::Rank, "rank", "text after phase 5: calls at fixed addresses"),
                 clEnumValN(EmitKind::Source, "source", "the folder with its C++, not compiled"),
                 clEnumValN(EmitKind::Exe, "exe", "the folder with its programs"))};
  cl::opt<std::string> machine{"machine", cl::value_desc("FILE"), cl::cat(mesh),
                               cl::desc("JSON with a rank's rates, for the estimate of a step's time in report.txt, which "
                                        "shows the keys [a server CPU's core a thread]")};
  cl::opt<std::string> deviceMemory{
      "device-memory", cl::value_desc("SIZE"), cl::cat(mesh),
      cl::desc("Memory that a rank may have, as in 24GiB; a plan that needs more is refused")};
  cl::opt<bool> planOnly{
      "plan-only", cl::cat(output),
      cl::desc("Stop before any code is made: write plan.json, report.txt, memory.json, memory.html")};
  cl::opt<std::string> dump{"dump-dir", cl::value_desc("FOLDER"), cl::cat(output),
                            cl::desc("Write the text after each phase here too")};

  /// Flags that were not typed stay empty: the plan file or the model may say them.
  hyc::CompileOptions read() const;
};
} // namespace

/// What was typed wins over every other source; what was not leaves the setting to them.
template <typename T> static void offer(const cl::opt<T> &flag, hyc::Setting<T> &setting) {
  if (flag.getNumOccurrences())
    setting.offer(flag.getValue(), hyc::Origin::Flag, "--" + flag.ArgStr.str());
}

hyc::CompileOptions Flags::read() const {
  hyc::CompileOptions options;
  options.activationMemory = activationMemory;
  offer(recompute, options.recompute);
  offer(partitionActivations, options.partitionActivations);
  offer(offloadActivations, options.offloadActivations);
  offer(offloadGradients, options.offloadGradients);
  offer(sequenceParallel, options.sequenceParallel);
  options.input = input;
  options.output = outputPath;
  options.emit = planOnly ? hyc::EmitKind::Account : emit.getValue();
  options.dumpFolder = dump;
  options.loss = loss;
  options.logits = logits;
  options.labels = labels;
  options.dims.assign(dims.begin(), dims.end());
  options.weights = weights;
  options.planFile = plan;
  options.configFile = config;
  offer(microBatch, options.microBatch);
  offer(gradAccum, options.gradAccum);
  offer(tp, options.tp);
  offer(pp, options.pp);
  offer(virtualStages, options.virtualStages);
  offer(dp, options.dp);
  offer(schedule, options.schedule);
  offer(zero, options.zero);
  offer(reduction, options.gradientReduction);
  offer(threshold, options.persistenceThreshold);
  offer(prefetch, options.prefetch);
  offer(prefetchBucket, options.prefetchBucket);
  offer(maxLive, options.maxLiveParameters);
  offer(reductionsInFlight, options.reductionsInFlight);
  offer(reduceBucket, options.reduceBucket);
  offer(gatherBucket, options.gatherBucket);
  offer(partition, options.partitionMethod);
  offer(offloadOptimizer, options.offloadOptimizer);
  offer(offloadParam, options.offloadParam);
  offer(nvmePath, options.nvmePath);
  offer(offloadRatio, options.offloadRatio);
  offer(maxInHost, options.maxInHost);
  offer(subGroup, options.subGroup);
  offer(readAhead, options.readAhead);
  offer(writeBehind, options.writeBehind);
  offer(offloadPrefetch, options.offloadPrefetch);
  offer(optimizerName, options.optimizer);
  offer(lr, options.learningRate);
  offer(weightDecay, options.weightDecay);
  offer(momentum, options.momentum);
  offer(clip, options.clipGradNorm);
  offer(lrSchedule, options.learningRateSchedule);
  offer(warmup, options.warmupSteps);
  options.noDecay.assign(noDecay.begin(), noDecay.end());
  options.train.assign(train.begin(), train.end());
  options.freeze.assign(freeze.begin(), freeze.end());
  options.entry = entry;
  options.mode = mode;
  options.dropout = dropout && mode != "evaluate";
  options.deviceMemory = deviceMemory;
  options.machineFile = machine;
  options.threads = threads;
  options.checkFinite = checkFinite;
  offer(precision, options.precision);
  offer(gradientType, options.gradientAccumulationType);
  offer(communicationType, options.communicationType);
  offer(lossScale, options.lossScale);
  offer(initialScalePower, options.initialScalePower);
  offer(lossScaleWindow, options.lossScaleWindow);
  offer(hysteresis, options.hysteresis);
  offer(consecutiveHysteresis, options.consecutiveHysteresis);
  offer(minLossScale, options.minLossScale);
  options.poison = poison;
  options.target = target;
  options.optimization = optimization;
  if (!architectures.empty())
    options.architectures.assign(architectures.begin(), architectures.end());
  return options;
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

int main(int argc, char **argv) {
  InitLLVM initialize(argc, argv);
  dropLibraryOptions();
  Flags flags;
  cl::HideUnrelatedOptions({&flags.model, &flags.mesh, &flags.batch, &flags.memory, &flags.precisionFlags,
                            &flags.optimizer, &flags.files, &flags.output});
  const int usage = static_cast<int>(hyc::ExitCode::Usage);
  if (!cl::ParseCommandLineOptions(argc, argv, kOverview, &errs()))
    return usage;
  if (flags.planOnly && flags.emit.getNumOccurrences()) {
    errs() << "hyc-compile: error: --plan-only and --emit both say where to stop; leave one out\n";
    return usage;
  }
  if (flags.input.empty() && !flags.explain) {
    errs() << "hyc-compile: no model given; try hyc-compile --help\n";
    return usage;
  }
  std::string executable = sys::fs::getMainExecutable(argv[0], reinterpret_cast<void *>(main));
  int status = 0;
  Error error =
      flags.explain ? hyc::explainConfig(flags.read()) : hyc::compile(flags.read(), hyc::Toolchain::find(executable));
  handleAllErrors(std::move(error), [&](const hyc::DriverError &error) {
    if (!error.getMessage().empty())
      errs() << "hyc-compile: error: " << error.getMessage() << "\n";
    status = static_cast<int>(error.getCode());
  });
  return status;
}
