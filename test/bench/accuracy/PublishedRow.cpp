// One reader a table. What a table does not tell and is known otherwise stands here, with where it is from.
#include "PublishedRow.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>

using namespace hyc;
using namespace hyc::accuracy;

namespace {

using Row = std::map<std::string, std::string>;

std::vector<Row> readTable(const std::string &path) {
  std::ifstream file(path);
  if (!file) {
    std::fprintf(stderr, "cannot read %s\n", path.c_str());
    std::exit(74);
  }
  std::vector<Row> rows;
  std::vector<std::string> names;
  for (std::string line; std::getline(file, line);) {
    std::stringstream cells(line);
    std::vector<std::string> values;
    for (std::string cell; std::getline(cells, cell, ',');) values.push_back(cell);
    if (names.empty()) {
      names = values;
      continue;
    }
    Row row;
    for (size_t column = 0; column < names.size(); ++column)
      row[names[column]] = column < values.size() ? values[column] : "";
    if (!values.empty()) rows.push_back(row);
  }
  return rows;
}

double number(const Row &row, const char *name) { return std::atof(row.at(name).c_str()); }
int64_t whole(const Row &row, const char *name) { return std::atoll(row.at(name).c_str()); }

/// What the columns tp, pp, dp, mbs, gbs say, named as they are in most tables.
Layout layoutOf(const Row &row, int64_t globalBatch) {
  Layout layout;
  layout.tp = std::max<int64_t>(1, whole(row, "tp"));
  layout.pp = std::max<int64_t>(1, whole(row, "pp"));
  layout.dp = std::max<int64_t>(1, whole(row, "dp"));
  layout.microBatch = whole(row, "mbs");
  layout.gradAccum = globalBatch / layout.microBatch / layout.dp;
  return layout;
}

/// Of an A100's data sheet, what the first FlashAttention reaches: 25 to 40 % (arXiv:2307.08691, abstract).
constexpr double kFirstFlashAttention = 0.325;

Shape gpt(int64_t hidden, int64_t layers, int64_t heads, int64_t vocabulary, int64_t sequence, double dropout = 0) {
  return {hidden, layers, heads, heads, 4 * hidden, vocabulary, sequence, false, dropout};
}

/// Sizes of models that tables name, of their config.json.
const std::map<std::string, Shape> &knownModels() {
  static const std::map<std::string, Shape> models = {
      {"Llama3-8B", {4096, 32, 32, 8, 14336, 128256, 8192, true, 0}},
      {"Llama3-70B", {8192, 80, 64, 8, 28672, 128256, 8192, true, 0}},
      {"Llama3-405B", {16384, 126, 128, 8, 53248, 128256, 8192, true, 0}},
      // Without a gate: two products of 3/2 of the inner size are as many operations as these three.
      {"Nemotron4-15B", {6144, 32, 48, 8, 16384, 256000, 4096, true, 0}},
      {"Nemotron4-340B", {18432, 96, 96, 8, 49152, 256000, 4096, true, 0}},
      {"Llama2-7b", {4096, 32, 32, 32, 11008, 32000, 4096, true, 0}},
      {"Llama2-13b", {5120, 40, 40, 40, 13824, 32000, 4096, true, 0}},
      {"Llama2-34b", {8192, 48, 64, 8, 22016, 32000, 4096, true, 0}},
      {"Llama2-70b", {8192, 80, 64, 8, 28672, 32000, 4096, true, 0}},
      {"InternLM-7B", {4096, 32, 32, 32, 11008, 103168, 2048, true, 0}},
      {"GPT3-175B", gpt(12288, 96, 96, 51200, 2048)},
      // MosaicML's: hidden, layers and heads of scripts/train/yamls/pretrain; they agree with the table's NumParams.
      {"mpt-125m", gpt(768, 12, 12, 50368, 2048)},
      {"mpt-350m", gpt(1024, 24, 16, 50368, 2048)},
      {"mpt-760m", gpt(1536, 24, 12, 50368, 2048)},
      {"mpt-1b", gpt(2048, 24, 16, 50368, 2048)},
      {"mpt-3b", gpt(2560, 32, 20, 50368, 2048)},
      {"mpt-7b", gpt(4096, 32, 32, 50368, 2048)},
      {"mpt-13b", gpt(5120, 40, 40, 50368, 2048)},
      {"mpt-30b", gpt(7168, 48, 56, 50368, 2048)},
      {"mpt-70b", gpt(8192, 80, 64, 50368, 2048)},
  };
  return models;
}

/// Megatron-LM before fused attention: scores in memory, dropout, gradients summed after backward; what goes to the
/// next stage is sent in parts. By the configurations of its rows (config/validation, "use_checkpoint",
/// "inter_node_bandwidth") every layer is computed again, and a host has 800 Gb/s.
PublishedRow ofVTrain(const Row &row) {
  PublishedRow result;
  result.shape = gpt(whole(row, "hidden"), whole(row, "layers"), whole(row, "heads"), 51200, whole(row, "seq"), 0.1);
  result.machine = "a100-sxm-80";
  result.keepsScores = result.addsGradients = result.dividesEvenly = true;
  result.hasWideNetwork = true;
  result.layout = layoutOf(row, whole(row, "gbs"));
  result.layout.recompute = "layer";
  result.seconds = number(row, "step_ms") / 1e3;
  std::string name = row.at("params_b").empty()
                         ? std::to_string(result.shape.hidden) + " × " + std::to_string(result.shape.layers) + " layers"
                         : row.at("params_b") + "B";
  result.group = name + " on " + row.at("gpus") + ", batch " + row.at("gbs");
  return result;
}

PublishedRow ofDgxc(const Row &row) {
  PublishedRow result;
  std::string model = row.at("model");
  result.group = model + " " + row.at("precision") + " on " + row.at("gpus");
  if (number(row, "cp") > 1) result.leftOut = "context parallelism";
  if (model.find("proxy") != std::string::npos)
    result.leftOut = "a proxy of fewer layers, whose loss layers are not told";
  if (model.find("FSDP+DP") != std::string::npos) result.leftOut = "ZeRO over a part of dp";
  bool isFsdp = model == "Llama3-70B FSDP";
  // maxtext/configure.sh at the row's commit: from 64 hosts on the parameters are divided over 16 of them.
  if (isFsdp && number(row, "gpus") >= 512) result.leftOut = "ZeRO over a part of dp";
  model = isFsdp ? "Llama3-70B" : model.rfind("Llama3.1-", 0) == 0 ? "Llama3-" + model.substr(9) : model;
  if (auto found = knownModels().find(model); found != knownModels().end())
    result.shape = found->second;
  else if (result.leftOut.empty())
    result.leftOut = "the model's sizes are not told";
  if (whole(row, "pp") > 1 && row.at("vp").empty()) result.leftOut = "virtual stages are not told";
  result.machine = "h100-sxm";
  result.precision = row.at("precision") == "FP8" ? "fp8" : "bf16";
  result.layout = layoutOf(row, whole(row, "gbs"));
  result.layout.virtualStages = std::max<int64_t>(1, whole(row, "vp"));
  result.layout.sequenceParallel = result.layout.tp > 1;
  result.dividesEvenly = true;
  result.hidesTensorExchanges = !isFsdp;  // "ub_tp_comm_overlap" of their recipes
  result.layout.zero = isFsdp ? 3 : 1;
  result.layout.prefetch = isFsdp ? 1 : 0;
  result.recomputesWhatMustBe = true;
  result.seconds = number(row, "step_s");
  return result;
}

PublishedRow ofFoundry(const Row &row) {
  PublishedRow result;
  std::string name = row.at("Model");
  auto found = knownModels().find("mpt-" + name);
  if (found == knownModels().end())
    result.leftOut = "the model's sizes are not told";
  else
    result.shape = found->second;
  result.shape.sequence = whole(row, "SeqLen (T)");
  result.machine = row.at("GPU") == "a100_80gb" ? "a100-sxm-80" : "a100-sxm-40";
  result.hasWideNetwork = row.at("section").find("1600 Gbps") != std::string::npos;
  Layout &layout = result.layout;
  layout.dp = whole(row, "# GPUs");
  layout.microBatch = whole(row, "MicroBatchSize");
  layout.gradAccum = whole(row, "GradAccum");
  layout.zero = 3;
  layout.prefetch = 1;
  layout.recompute = row.at("Activation Checkpointing") == "True" ? "layer" : "none";
  result.attentionShare = kFirstFlashAttention;  // "attn_impl: triton", of 2023
  result.tellsTrainMetrics = true;               // "use_train_metrics", which is on by default
  if (row.at("Sharding Strategy") != "FULL_SHARD") result.leftOut = "ZeRO other than of everything";
  // Sequences a second are printed as whole numbers.
  result.seconds = number(row, "GlobalBatchSize (T)") / number(row, "Throughput (T/s)");
  result.group = name + " × " + row.at("SeqLen (T)") + " on " + row.at("# GPUs") + " " + row.at("GPU") + ", batch " +
                 row.at("GlobalBatchSize");
  return result;
}

PublishedRow ofBridge(const Row &row) {
  PublishedRow result;
  std::string model = row.at("Model"), system = row.at("System"), precision = row.at("Precision");
  static const std::map<std::string, std::string> names = {
      {"LLAMA3_8B", "Llama3-8B"}, {"LLAMA3_70B", "Llama3-70B"}, {"LLAMA3.1_405B", "Llama3-405B"}};
  auto known = names.find(model);
  if (known == names.end())
    result.leftOut = "experts or state spaces";
  else
    result.shape = knownModels().at(known->second);
  result.shape.sequence = whole(row, "Sequence Length");
  if (row.at("kind").find("Pre-Training") == std::string::npos)
    result.leftOut = "no training of all parameters on whole sequences";
  if (precision.empty()) result.leftOut = "the precision is not told";
  if (whole(row, "CP") > 1) result.leftOut = "context parallelism";
  result.precision = precision.find("FP8") != std::string::npos ? "fp8" : "bf16";
  result.machine = system == "DGX-B200" ? "b200-sxm" : "h100-sxm";
  Layout &layout = result.layout;
  layout.tp = whole(row, "TP");
  layout.pp = whole(row, "PP");
  int64_t gpus = whole(row, "#-GPUs");
  layout.dp = gpus / (layout.tp * layout.pp);
  layout.virtualStages = std::max<int64_t>(1, whole(row, "VP"));
  layout.microBatch = whole(row, "MBS");
  layout.gradAccum = whole(row, "GBS") / layout.microBatch / std::max<int64_t>(1, layout.dp);
  layout.sequenceParallel = layout.tp > 1;
  result.dividesEvenly = result.hidesTensorExchanges = true;
  bool isFsdp = whole(row, "FSDP") > 0;
  layout.zero = isFsdp ? 3 : 1;
  layout.prefetch = isFsdp ? 1 : 0;
  result.recomputesWhatMustBe = true;
  result.seconds = number(row, "GBS") * number(row, "Sequence Length") /
                   (number(row, "Tokens / sec / GPU") * static_cast<double>(gpus));
  result.group = row.at("release") + ", " + model + " on " + std::to_string(gpus) + " " + system;
  return result;
}

/// Seconds a step, of whichever measure the row has.
double secondsOf(const Row &row, const Shape &shape) {
  double tokens = number(row, "gbs") * number(row, "seq"), gpus = number(row, "gpus");
  if (number(row, "step_s") > 0) return number(row, "step_s");
  if (number(row, "tok_s_gpu") > 0) return tokens / gpus / number(row, "tok_s_gpu");
  // The paper's own count of operations, with the second forward.
  double h = static_cast<double>(shape.hidden), s = static_cast<double>(shape.sequence),
         l = static_cast<double>(shape.layers), v = static_cast<double>(shape.vocabulary);
  double operations = 96 * tokens * l * h * h * (1 + s / (6 * h) + v / (16 * l * h));
  return operations / gpus / (number(row, "tflops_gpu") * 1e12);
}

PublishedRow ofSingles(const Row &row) {
  PublishedRow result;
  std::string model = row.at("model"), zero = row.at("zero"), recompute = row.at("recompute");
  bool isMegatron = model.rfind("GPT", 0) == 0;
  if (auto found = knownModels().find(model); found != knownModels().end())
    result.shape = found->second;
  else if (isMegatron)  // heads of the paper's table, where this one has none: of 128
    result.shape = gpt(whole(row, "hidden"), whole(row, "layers"),
                       std::max<int64_t>(whole(row, "heads"), whole(row, "heads") ? 0 : whole(row, "hidden") / 128),
                       whole(row, "vocab"), whole(row, "seq"), 0.1);
  else
    result.leftOut = "the model's sizes are not told";
  std::string hardware = row.at("hardware");
  if (hardware.rfind("A100-SXM-80", 0) == 0)
    result.machine = "a100-sxm-80";
  else
    result.leftOut = "no published rates of its machine (" + hardware + ")";
  result.hasWideNetwork = hardware.find("DGX") != std::string::npos;  // 8 × 200 Gb/s, by its data sheet
  result.keepsScores = result.dividesEvenly = isMegatron;
  bool isInternEvo = model.rfind("InternLM", 0) == 0;
  if (isInternEvo) result.attentionShare = kFirstFlashAttention;
  result.broadcastsParameters = isInternEvo;
  Layout &layout = result.layout = layoutOf(row, whole(row, "gbs"));
  layout.virtualStages = std::max<int64_t>(1, whole(row, "vpp"));
  layout.sequenceParallel = recompute.find("+sp") != std::string::npos;
  result.addsGradients = result.awaitsSums = isMegatron && !layout.sequenceParallel;  // of 2021; those with it of 2022
  layout.recompute = recompute == "full" ? "layer" : recompute.rfind("selective", 0) == 0 ? "selective" : "none";
  layout.zero = zero.rfind("1", 0) == 0 ? 1 : zero == "FSDP" ? 3 : 0;
  layout.prefetch = layout.zero == 3;
  if (zero == "HSDP" || (zero.find(" over ") != std::string::npos && zero.find("over all") == std::string::npos &&
                         zero != "1 over " + row.at("dp")))
    result.leftOut = "ZeRO over a part of dp";
  if (recompute.rfind("selective", 0) == 0 && !isMegatron) result.leftOut = "recomputation of some layers";
  if (isMegatron && layout.pp > 1 && row.at("vpp").empty()) result.leftOut = "virtual stages are not told";
  if (layout.gradAccum < 1) result.leftOut = "its batch is no multiple";
  result.seconds = result.leftOut.empty() ? secondsOf(row, result.shape) : 0;
  result.group = model + " on " + row.at("gpus") + ", batch " + row.at("gbs");
  return result;
}

PublishedRow ofNone(const char *why) {
  PublishedRow result;
  result.leftOut = why;
  return result;
}

struct Table {
  const char *file;
  std::function<PublishedRow(const Row &)> read;
};

}  // namespace

double Shape::parameters() const {
  double h = static_cast<double>(hidden), keys = static_cast<double>(keyHeads) / static_cast<double>(heads);
  double layer = h * h * (2 + 2 * keys) + (isGated ? 3 : 2) * h * static_cast<double>(inner);
  return layer * static_cast<double>(layers) + h * static_cast<double>(vocabulary);
}

std::string PublishedRow::model() const {
  std::string name = machine + " " + precision;
  for (int64_t size : {shape.hidden, shape.layers, shape.heads, shape.inner, shape.vocabulary})
    name += " " + std::to_string(size);
  return name;
}

std::string PublishedRow::describe() const {
  char text[200];
  std::snprintf(text, sizeof text, "%-44s tp %2lld pp %2lld×%lld dp %4lld zero %lld micro-batch %2lld × %3lld %s",
                group.c_str(), static_cast<long long>(layout.tp), static_cast<long long>(layout.pp),
                static_cast<long long>(layout.virtualStages), static_cast<long long>(layout.dp),
                static_cast<long long>(layout.zero), static_cast<long long>(layout.microBatch),
                static_cast<long long>(layout.gradAccum), layout.recompute.str().c_str());
  return text;
}

std::vector<PublishedRow> hyc::accuracy::readPublished(const std::string &folder) {
  static const Table tables[] = {
      {"vtrain-multi", ofVTrain},
      {"vtrain-single", ofVTrain},
      {"dgxc", ofDgxc},
      {"llm-foundry", ofFoundry},
      {"megatron-bridge", ofBridge},
      {"published-singles", ofSingles},
      {"amp-predicted-measured", [](const Row &) { return ofNone("no published rates of its machine (T4, V100)"); }},
      {"sailor-validation",
       [](const Row &) { return ofNone("precision and attention are not told, nor its network"); }},
  };
  std::vector<PublishedRow> rows;
  for (const Table &table : tables)
    for (const Row &row : readTable(folder + "/" + table.file + ".csv")) {
      rows.push_back(table.read(row));
      rows.back().source = table.file;
    }
  return rows;
}
