// A config.json for each shape, a CostModel for each, and the short formula.
#include "Prediction.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "Framework.h"
#include "dialects/Dist/DistDialect.h"
#include "dialects/Hyc/HycDialect.h"
#include "dialects/Rank/RankDialect.h"
#include "hyc/Import/HuggingFace/Import.h"
#include "hyc/Planner/Machine.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::accuracy;

MachineRates hyc::accuracy::scaled(MachineRates rates, const Factors &factors) {
  rates.products *= factors.products;
  rates.narrowProducts *= factors.products;
  rates.fp8Products *= factors.products;
  rates.memory *= factors.memory;
  rates.link *= factors.link;
  rates.launch *= factors.launch;
  rates.dispatch += factors.dispatch;
  // Who starts kernels one by one from Python makes exchanges in their stream, where it awaits them.
  rates.communicationThread = rates.communicationThread && rates.dispatch == 0;
  for (MachineTier &tier : rates.tiers) tier.scaleRates(factors.link);
  return rates;
}

static std::string configOf(const Shape &shape) {
  auto pair = [](const char *key, auto value) { return ", \"" + std::string(key) + "\": " + std::to_string(value); };
  if (shape.isGated)
    return R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "rms_norm_eps": 1e-5, "hidden_act": "silu",
      "tie_word_embeddings": false, "rope_theta": 500000.0)" +
           pair("hidden_size", shape.hidden) + pair("intermediate_size", shape.inner) +
           pair("num_attention_heads", shape.heads) + pair("num_key_value_heads", shape.keyHeads) +
           pair("num_hidden_layers", shape.layers) + pair("vocab_size", shape.vocabulary) +
           pair("max_position_embeddings", shape.sequence) + "}";
  return R"({"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "activation_function": "gelu_new",
      "layer_norm_epsilon": 1e-5)" +
         pair("n_embd", shape.hidden) + pair("n_layer", shape.layers) + pair("n_head", shape.heads) +
         pair("vocab_size", shape.vocabulary) + pair("n_positions", shape.sequence) +
         pair("attn_pdrop", shape.dropout) + pair("embd_pdrop", shape.dropout) + pair("resid_pdrop", shape.dropout) +
         "}";
}

Predictor::Predictor(std::string machinesFolder)
    : folder(std::move(machinesFolder)), context(MLIRContext::Threading::DISABLED) {
  context.loadDialect<HycDialect, dist::DistDialect, rank::RankDialect>();
}

Predictor::~Predictor() {
  for (const std::string &path : configs) std::remove(path.c_str());
}

const MachineRates &Predictor::ratesOf(const std::string &machine) {
  auto [found, isNew] = machines.try_emplace(machine);
  if (isNew) {
    llvm::Expected<MachineRates> read = readMachine(folder + "/" + machine + ".json", MachineRates());
    if (!read) {
      std::fprintf(stderr, "%s\n", llvm::toString(read.takeError()).c_str());
      std::exit(65);
    }
    found->second = *read;
  }
  return found->second;
}

/// Of a framework whose products take operands of 8 bits that the kernels before them have cast (Transformer Engine):
/// the bytes of 16 bits, products at the rate of 8, attention at that of 16.
static MachineRates withCastsFused(MachineRates rates) {
  if (rates.fp8Products <= 0) return rates;
  rates.attentionShare *= rates.narrowProducts / rates.fp8Products;
  rates.narrowProducts = rates.fp8Products;
  return rates;
}

/// all_reduce over four hosts of 8 A100 with 8 × 200 Gb/s each (ml-engineering, network/benchmarks); smaller messages
/// as the machine's file has them.
static MachineRates withWideNetwork(MachineRates rates) {
  MachineTier &tier = rates.tiers.back();
  tier.rates = {tier.rates.front(), {16777216, 93.93e9}, {134217728, 88.23e9}, {1073741824, 94.15e9}};
  tier.measuredRanks = 32;
  return rates;
}

MachineRates Predictor::ratesFor(const Key &key) {
  const MachineRates &file = ratesOf(std::get<1>(key));
  MachineRates rates = scaled(std::get<5>(key) ? withWideNetwork(file) : file, factors);
  if (double share = std::get<4>(key); share > 0) rates.attentionShare = share;
  return std::get<2>(key) == "fp8" ? withCastsFused(rates) : rates;
}

double hyc::accuracy::heldByMegatron(const PublishedRow &row) {
  const Layout &layout = row.layout;
  const Shape &shape = row.shape;
  double tp = static_cast<double>(layout.tp), pp = static_cast<double>(layout.pp), dp = static_cast<double>(layout.dp);
  // Parameters and gradients of 16 bits; of the optimizer 12 bytes, divided over dp.
  double states = layout.zero == 3 ? 16 / dp : 4 + 12 / dp;
  // A layer's tokens keep inputs of norms and of products, queries, keys and values, and masks of dropout.
  double operand = row.precision == "fp8" ? 1 : 2;
  double hidden = static_cast<double>(shape.hidden), inner = static_cast<double>(shape.inner);
  double keys = static_cast<double>(shape.keyHeads) / static_cast<double>(shape.heads);
  double kept = hidden * (2 * 2 + 3 * operand + 2 * (1 + 2 * keys) + (shape.dropout > 0 ? 2 : 0)) +
                inner * ((shape.isGated ? 4 : 2) + operand);
  double tokens = static_cast<double>(layout.microBatch * shape.sequence), pieces = layout.virtualStages;
  // Of its layers, the first stage has these many micro-batches begun and not ended.
  double ahead = pp > 1 ? std::min<double>(layout.gradAccum, pp + (pieces > 1 ? (pp - 1) / pieces : 0)) : 1;
  double layers = static_cast<double>(shape.layers) / pp;
  return shape.parameters() / (tp * pp) * states + ahead * layers * tokens * kept / tp;
}

Predictor::Key Predictor::keyOf(const PublishedRow &row) {
  return {row.shape, row.machine, row.precision, row.keepsScores, row.attentionShare, row.hasWideNetwork};
}

CostModel *Predictor::costsOf(const PublishedRow &row) {
  auto [found, isNew] = models.try_emplace(keyOf(row));
  Timed &timed = found->second;
  if (!isNew) {
    if (timed.costs && timed.by.all() != factors.all()) timed.costs->setRates(ratesFor(found->first));
    timed.by = factors;
    return timed.costs.get();
  }
  std::string path =
      "/tmp/planner_accuracy-" + std::to_string(getpid()) + "-" + std::to_string(configs.size()) + ".json";
  std::ofstream(path) << configOf(row.shape);
  configs.push_back(path);
  Plan base;
  base.precision = row.precision == "fp8" ? "bf16" : row.precision;  // withCastsFused has the rest
  base.entry = "train";
  base.threads = 1;
  auto read = [this, path, sequence = row.shape.sequence, writesOut = row.keepsScores](int64_t batch) {
    HuggingFaceOptions options;
    options.batch = std::max<int64_t>(1, batch);
    options.sequence = sequence;
    options.weights = FolderWeights::Initialise;
    FailureOr<OwningOpRef<ModuleOp>> module = importHuggingFace(context, path, options);
    if (succeeded(module) && writesOut)  // as a plan file's "forms" would
      (*module)->walk([&](AttentionOp op) { op->setAttr("hyc.form", StringAttr::get(&context, "decomposed")); });
    return module;
  };
  timed = {CostModel::create(read, base, ratesFor(found->first)), factors};
  if (timed.costs) timed.costs->keepPrograms();
  return timed.costs.get();
}

void Predictor::calibrate(const Factors &changed) { factors = changed; }

std::optional<double> Predictor::predict(PublishedRow &row) {
  CostModel *costs = costsOf(row);
  if (!costs) return std::nullopt;
  if (row.recomputesWhatMustBe)
    row.layout.recompute =
        heldByMegatron(row) <= ratesOf(row.machine).deviceMemory ? RecomputeMode::None : RecomputeMode::Layer;
  const ModelCost *planned = costs->costOfModel(row.layout);
  if (!planned) return std::nullopt;
  ModelCost model = *planned;
  if (row.precision == "fp8") {  // the last product stays at 16 bits
    PublishedRow wide = row;
    wide.precision = "bf16";
    CostModel *others = costsOf(wide);
    model.layers.back() = others->costOfModel(row.layout)->layers.back();
  }
  if (row.keepsScores) {
    addUnfusedKernels(row, ratesFor(keyOf(row)), model);
    if (!row.layout.sequenceParallel)  // each rank of tp sends a part to the next stage, and gathers within the host
      for (LayerCost &layer : model.layers) layer.crossing /= static_cast<double>(row.layout.tp);
  }
  if (row.addsGradients) addGradientSums(ratesFor(keyOf(row)), model);
  if (row.awaitsSums) awaitSums(row, ratesFor(keyOf(row)), model);
  if (row.tellsTrainMetrics) addTrainMetrics(row, ratesFor(keyOf(row)), model);
  if (row.hidesTensorExchanges) hideTensorExchanges(ratesFor(keyOf(row)), model);
  std::vector<size_t> ends = costs->cut(model, row.layout);
  if (row.dividesEvenly) ends = cutEvenly(row, model).value_or(ends);
  if (ends.size() != static_cast<size_t>(row.layout.pp * row.layout.virtualStages)) return std::nullopt;
  double seconds = costs->costOf(model, row.layout, ends).seconds;
  return row.broadcastsParameters ? seconds + addedByBroadcasts(row, ratesFor(keyOf(row)), model) : seconds;
}

double hyc::accuracy::predictByFormula(const PublishedRow &row, const MachineRates &rates) {
  const Layout &layout = row.layout;
  const Shape &shape = row.shape;
  double tp = static_cast<double>(layout.tp), pp = static_cast<double>(layout.pp), dp = static_cast<double>(layout.dp);
  double micro = static_cast<double>(layout.gradAccum), pieces = static_cast<double>(layout.virtualStages);
  double tokens = static_cast<double>(layout.microBatch * shape.sequence), hidden = static_cast<double>(shape.hidden);
  double layers = static_cast<double>(shape.layers), passes = layout.recompute == RecomputeMode::Layer ? 4 : 3;
  // Products, and attention over the whole sequence.
  double attention = 4 * static_cast<double>(shape.sequence) * hidden * layers;
  double operations = passes * tokens * (2 * shape.parameters() + attention) / (tp * pp);
  double peak = row.precision == "fp8" && rates.fp8Products > 0 ? rates.fp8Products : rates.narrowProducts;
  double width = tokens * hidden / tp, reached = 0.55 * width / (width + 1e6);
  double micros = operations / (peak * reached);
  // Sums over tp: two a pass and layer.
  double inside = layout.tp <= 8 ? 200e9 : 20e9;
  if (layout.tp > 1) micros += 2 * passes * layers / pp * (2 * tokens * hidden * (tp - 1) / tp * 2 / inside + 3e-5);
  if (layout.pp > 1) micros += 2 * pieces * 2 * tokens * hidden / 10e9;
  // The bubble, and the sum of gradients.
  double step = (micro + (pp - 1) / pieces) * micros;
  double bytes = 2 * shape.parameters() / (tp * pp) * 2 * (dp - 1) / dp;
  return step + (layout.dp > 1 ? bytes / 20e9 : 0);
}
