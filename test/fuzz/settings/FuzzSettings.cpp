// hyc-fuzz-settings: files of settings, drawn from the tables that read them, with one thing changed: plan.json by the
// table of settings, a ds_config by that of its keys, config.json by the keys of its readers.
#include "JsonChange.h"
#include "TextEdits.h"
#include "test/fuzz/graphs/Trial.h"
#include "test/fuzz/trials/Minimise.h"

#include "Config/ConfigKeys.h"
#include "hyc/Plan/PlanText.h"
#include "hyc/Plan/SettingTable.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Signals.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

using namespace hyc;
using namespace hyc::fuzzing;
using llvm::StringRef;
namespace cl = llvm::cl;
namespace json = llvm::json;

static cl::OptionCategory ours("Options");
static cl::opt<uint64_t> seed("seed", cl::desc("The first seed"), cl::init(0), cl::cat(ours));
static cl::opt<uint64_t> files("files", cl::desc("How many"), cl::init(1000), cl::cat(ours));
static cl::opt<std::string> folder("folder", cl::desc("Of inputs and findings"), cl::Required, cl::cat(ours));
static cl::opt<std::string> logFile("log", cl::desc("A file with a line for each"), cl::cat(ours));
static cl::opt<int> jobs("jobs", cl::desc("Processes"), cl::init(1), cl::cat(ours));

static cl::opt<std::string> found("minimise", cl::desc("Makes a finding in FOLDER/found/SEED small, and does no more"),
                                  cl::cat(ours));
static cl::opt<bool> minimises("minimise-found", cl::desc("Makes what is found small"), cl::cat(ours));
static cl::opt<std::string> pattern("finding-is",
                                    cl::desc("A pattern: errors that match are findings, and no other errors are"),
                                    cl::cat(ours));

static constexpr uint64_t kTrialsOfAPlan = 8;

static void write(const std::string &path, const std::string &text) { std::ofstream(path, std::ios::binary) << text; }

/// One that the range of its type allows.
static json::Value valueOfType(const ConfigType &type, Random &random) {
  if (random.oneIn(12))
    return "auto";
  switch (type.kind) {
  case ConfigType::Bool:
    return random.oneIn(2);
  case ConfigType::Integer:
    return static_cast<int64_t>(type.least) + random.below(std::min<int64_t>(4, static_cast<int64_t>(type.most)));
  case ConfigType::Number:
    return std::min(type.most, type.least + random.pick(std::initializer_list<double>{0, 0.5, 1e-3}));
  case ConfigType::Pair:
    return json::Array{0.9, 0.95};
  case ConfigType::Any:
    return json::Object{{"a", 1}};
  case ConfigType::Text:
    break;
  }
  llvm::SmallVector<StringRef> choices;
  type.choices.split(choices, '|', -1, false);
  return choices.empty() ? json::Value("Adam") : json::Value(random.pick(choices));
}

/// A configuration with some of the keys, each at the end of its dotted path.
static json::Value randomConfig(Random &random) {
  json::Object root{{"train_micro_batch_size_per_gpu", 2}};
  for (int64_t left = random.between(1, 10); left > 0; --left) {
    const ConfigKey &key = getConfigKeys()[random.below(static_cast<int64_t>(getConfigKeys().size()))];
    llvm::SmallVector<StringRef> parts;
    key.path.split(parts, '.');
    json::Object *object = &root;
    for (StringRef part : llvm::ArrayRef(parts).drop_back()) {
      json::Value &inside = (*object)[part.str()];
      if (!inside.getAsObject())
        inside = json::Object();
      object = inside.getAsObject();
    }
    std::string last = parts.back() == "*" ? "some_key" : parts.back().str();
    (*object)[last] = valueOfType(key.type, random);
  }
  return root;
}

static json::Value parsed(const std::string &text) {
  llvm::Expected<json::Value> value = json::parse(text);
  if (!value) {
    llvm::errs() << "not JSON: " << llvm::toString(value.takeError()) << "\n";
    std::exit(70);
  }
  return *value;
}

/// Four layers of a few numbers.
static constexpr char kModel[] = R"(hyc.param @a.weight : tensor<8x16xf32> from #hyc.fill<0.5 : f64>
hyc.param @b.weight : tensor<16x8xf32> from #hyc.fill<0.25 : f64>
hyc.param @c.weight : tensor<8x16xf32> from #hyc.fill<0.5 : f64>
hyc.param @d.weight : tensor<16x8xf32> from #hyc.fill<0.25 : f64>
hyc.func @train(%x: tensor<4x8xf32> {hyc.input = "x"}) -> (tensor<4x8xf32> {hyc.output = "y"}) {
  %a = hyc.read @a.weight : tensor<8x16xf32>
  %b = hyc.read @b.weight : tensor<16x8xf32>
  %c = hyc.read @c.weight : tensor<8x16xf32>
  %d = hyc.read @d.weight : tensor<16x8xf32>
  %0 = hyc.einsum "bk,kn->bn" %x, %a {id = "a"} : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %1 = hyc.gelu %0 {id = "act"} : tensor<4x16xf32>
  %2 = hyc.einsum "bn,nk->bk" %1, %b {id = "b"} : (tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
  %3 = hyc.einsum "bk,kn->bn" %2, %c {id = "c"} : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %4 = hyc.gelu %3 {id = "act2"} : tensor<4x16xf32>
  %5 = hyc.einsum "bn,nk->bk" %4, %d {id = "d"} : (tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
  hyc.return %5 : tensor<4x8xf32>
}
)";

struct PlanText {
  std::string text, loss; ///< and the flag of the loss, which no plan holds
};

/// The plan of a small model under a random layout. Making one takes longer than reading it: it serves several trials.
static const PlanText &randomPlan(uint64_t number, const std::string &place) {
  static uint64_t last = 0;
  static PlanText plan;
  if (!plan.text.empty() && last == number)
    return plan;
  last = number;
  Random random(number * 0x2545F4914F6CDD1D + 29);
  std::string model = place + "/model.mlir";
  write(model, kModel);
  plan = {};
  for (int attempt = 0; attempt < 8 && plan.text.empty(); ++attempt) { // not every layout fits
    std::vector<std::string> flags = randomFlags(random, 4, "mse");
    CompileOptions options = optionsOf(model, flags);
    options.emit = std::string("local");
    if (CompileResult result = compile(options, Toolchain()))
      plan = {writePlan(result.plan), flags.front()};
  }
  return plan;
}

/// Keys of GPT-2 and of Llama, as the readers know them.
static std::string configText(Random &random) {
  if (random.oneIn(2))
    return R"({"model_type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 8, "n_inner": 16, "n_positions": 8,
      "vocab_size": 16, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "initializer_range": 0.02,
      "tie_word_embeddings": true, "scale_attn_weights": true, "scale_attn_by_inverse_layer_idx": false,
      "add_cross_attention": false, "attn_pdrop": 0.1, "embd_pdrop": 0.1, "resid_pdrop": 0.1})";
  return R"({"model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "hidden_size": 16, "intermediate_size": 32, "head_dim": 4, "vocab_size": 16, "max_position_embeddings": 8,
    "hidden_act": "silu", "rms_norm_eps": 1e-6, "attention_bias": false, "mlp_bias": false, "attention_dropout": 0.0,
    "initializer_range": 0.02, "tie_word_embeddings": false, "sliding_window": null, "rope_theta": 10000.0,
    "base_model_tp_plan": {"layers.*.self_attn.q_proj": "colwise"},
    "rope_parameters": {"rope_type": "llama3", "factor": 4.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
      "original_max_position_embeddings": 4, "rope_theta": 10000.0}})";
}

enum class Kind { DsConfig, Config, Plan };
constexpr const char *kNames[] = {"ds_config", "config.json", "plan.json"};
constexpr const char *kFiles[] = {"ds.json", "config.json", "plan.json"};

static std::string firstLine(const std::string &path) {
  std::ifstream stream(path);
  std::string line;
  std::getline(stream, line);
  return line;
}

/// What hyc says of the file of that kind in `place`, and of the model and the flag beside a plan.
static Verdict readFile(Kind kind, const std::string &place) {
  std::string path = place + "/" + kFiles[static_cast<int>(kind)], name = kNames[static_cast<int>(kind)];
  TrialOutcome outcome;
  if (kind == Kind::DsConfig) {
    CompileOptions options;
    options.configFile = path;
    outcome = judge(explainConfig(options));
  } else if (kind == Kind::Config) {
    outcome = compileToRank(path, {"--emit=model", "--weights=initialise"});
  } else {
    outcome = compileToRank(place + "/model.mlir", {firstLine(place + "/flags"), "--plan=" + path, "--emit=rank"});
  }
  Verdict verdict{outcome.code, outcome.finding, name, outcome.said};
  if (outcome.code == 0)
    verdict.reached = {name};
  return lookFor(verdict, pattern);
}

static Verdict tryFile(uint64_t number, const std::string &place) {
  Random random(number * 0x2545F4914F6CDD1D + 23);
  Kind kind = static_cast<Kind>(number % 3);
  bool isChanged = number / 3 % 8 != 0;
  std::string path = place + "/" + kFiles[static_cast<int>(kind)];
  write(place + "/about", std::string(kNames[static_cast<int>(kind)]) + "\n");
  if (kind == Kind::DsConfig) {
    write(path, printChanged(randomConfig(random), random, isChanged));
  } else if (kind == Kind::Config) {
    write(path, printChanged(parsed(configText(random)), random, isChanged));
  } else {
    const PlanText &plan = randomPlan(number / 3 / kTrialsOfAPlan, place);
    if (plan.text.empty())
      return {-1};
    write(path, printChanged(parsed(plan.text), random, isChanged));
    write(place + "/model.mlir", kModel);
    write(place + "/flags", plan.loss + "\n");
  }
  return readFile(kind, place);
}

/// The file of a finding made small, in a folder `minimised` beside it.
static bool minimiseFile(const Supervision &options, const std::string &place) {
  namespace fs = std::filesystem;
  const auto *file = std::find_if(std::begin(kFiles), std::end(kFiles),
                                  [&](const char *name) { return fs::exists(place + "/" + std::string(name)); });
  std::string made = place + "/minimised";
  if (file == std::end(kFiles)) {
    llvm::errs() << place << ": has no ds.json, config.json or plan.json, expected what a finding leaves behind\n";
    return false;
  }
  fs::remove_all(made);
  fs::create_directories(made);
  for (const char *beside : {"model.mlir", "flags"})
    if (fs::exists(place + "/" + beside))
      fs::copy(place + "/" + std::string(beside), made);
  std::string path = made + "/" + *file;
  std::ifstream stream(place + "/" + *file, std::ios::binary);
  std::string whole{std::istreambuf_iterator<char>(stream), {}};
  auto attempt = [&](const std::string &text) {
    write(path, text);
    return readFile(static_cast<Kind>(file - kFiles), made);
  };
  auto result = minimise<std::string>(options, whole, textEdits(), attempt);
  if (!result) {
    llvm::errs() << place << ": shows no finding\n";
    return false;
  }
  write(path, result->smallest);
  llvm::outs() << path << ": " << whole.size() << " bytes → " << result->smallest.size() << " in " << result->trials
               << " trials: " << result->verdict.finding << ": " << result->verdict.said << "\n"
               << result->smallest << "\n";
  return true;
}

int main(int argc, char **argv) {
  cl::HideUnrelatedOptions(ours);
  cl::ParseCommandLineOptions(argc, argv, "Files of settings with one thing changed, through hyc's readers.\n");
  llvm::sys::PrintStackTraceOnErrorSignal(argv[0]);
  std::filesystem::create_directories(folder.getValue());
  Supervision supervision{.first = seed, .count = files, .folder = folder, .log = logFile, .jobs = jobs};
  if (!found.empty())
    return !minimiseFile(supervision, found);
  Tally tally = superviseTrials(supervision, tryFile);
  llvm::outs() << describe(tally);
  for (const Finding &finding : tally.findings)
    if (minimises)
      minimiseFile(supervision, folder + "/found/" + std::to_string(finding.seed));
  for (const auto &[kind, count] : tally.reached)
    llvm::outs() << count << " good " << kind << "\n";
  return !tally.findings.empty() || tally.reached.size() != 3;
}
