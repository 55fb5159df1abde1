// References are read and one-device runs made once a process.
#include "PyTorchModels.h"

#include "test/Places.h"

#include "dialects/Hyc/HycDialect.h"
#include "hyc/Interpreter/MeshInterpreter.h"
#include "hyc/Interpreter/RankInterpreter.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace hyc::equivalence;
using namespace hyc::interpreter;

std::string hyc::equivalence::nameOf(const Model &model) {
  std::string name = model.file;
  for (char &c : name)
    c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
}

const Reference &hyc::equivalence::referenceOf(const Model &model) {
  static std::map<std::string, Reference> known;
  auto [entry, isNew] = known.try_emplace(model.name);
  if (isNew)
    entry->second = hyc_e2e::readSafeTensors(hyc::places::model(std::string(model.name) + ".reference.safetensors"));
  return entry->second;
}

std::string hyc::equivalence::pathOf(const Model &model) { return hyc::places::model(model.file); }

Tensor hyc::equivalence::part(const hyc_e2e::HostTensor &all, ElementKind kind, int64_t step, int64_t sample,
                              int64_t samples, int64_t begin, int64_t end) {
  std::vector<int64_t> shape(all.shape.begin() + 1, all.shape.end());
  int64_t whole = shape.size() > 1 ? shape.back() : 1, rows = samples;
  for (size_t dim = 1; dim + 1 < shape.size(); ++dim)
    rows *= shape[dim];
  int64_t first = (step * shape[0] + sample) * (rows / samples) * whole;
  shape[0] = samples;
  if (shape.size() > 1)
    shape.back() = end - begin;
  Tensor result(kind, shape);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t i = begin; i < end; ++i)
      result.set(row * (end - begin) + i - begin, all.values[first + row * whole + i]);
  return result;
}

/// Adds positions: in sample n documents begin with it, and at each token whose place plus n is a multiple of five;
/// what begins one is no label.
static void addDocuments(NamedTensors &batch, int64_t first) {
  const std::vector<int64_t> shape(batch["input_ids"].getShape());
  Tensor positions(ElementKind::I64, shape);
  for (int64_t sample = 0; sample < shape[0]; ++sample)
    for (int64_t place = 0, begin = 0; place < shape[1]; ++place) {
      if ((place + first + sample) % 5 == 0) {
        begin = place;
        batch["labels"].set(sample * shape[1] + place, -100);
      }
      positions.set(sample * shape[1] + place, static_cast<double>(place - begin));
    }
  batch["position_ids"] = positions;
}

NamedTensors hyc::equivalence::batchOf(const Model &model, int64_t step, int64_t samples, int64_t first) {
  const Reference &reference = referenceOf(model);
  NamedTensors batch;
  if (auto pixels = reference.find("pixel_values"); pixels != reference.end()) {
    batch["pixel_values"] =
        part(pixels->second, ElementKind::F32, step, first, samples, 0, pixels->second.shape.back());
    batch["labels"] = part(reference.at("labels"), ElementKind::I64, step, first, samples, 0, 1);
    return batch;
  }
  const hyc_e2e::HostTensor &tokens = reference.at("tokens");
  int64_t window = tokens.shape.back();
  bool shifts = std::string(model.loss) == "causal_lm";
  batch["input_ids"] = part(tokens, ElementKind::I64, step, first, samples, 0, window - 1);
  batch["labels"] = part(tokens, ElementKind::I64, step, first, samples, shifts ? 0 : 1, shifts ? window - 1 : window);
  if (model.hasDocuments)
    addDocuments(batch, first);
  return batch;
}

int64_t hyc::equivalence::batchSize(const Model &model) {
  const Reference &reference = referenceOf(model);
  auto tokens = reference.find("tokens");
  return (tokens == reference.end() ? reference.at("labels") : tokens->second).shape[1];
}

hyc::Plan hyc::equivalence::optionsOf(const Model &model) {
  hyc::Plan options;
  options.loss = model.loss;
  options.logits = "logits";
  options.optimizer = "adamw";
  options.separateDocuments = model.hasDocuments;
  options.weightDecay = 0.01;
  return options;
}

double hyc::equivalence::relativeDifference(llvm::ArrayRef<double> actual, llvm::ArrayRef<double> expected) {
  if (actual.size() != expected.size())
    return INFINITY;
  double difference = 0, magnitude = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    difference = std::fmax(difference, std::fabs(actual[i] - expected[i]));
    magnitude = std::fmax(magnitude, std::fabs(expected[i]));
  }
  return difference / magnitude;
}

double hyc::equivalence::gradientDifference(const std::vector<double> &actual, const hyc_e2e::HostTensor &expected,
                                            bool mayBeTransposed) {
  double asIs = relativeDifference(actual, expected.values);
  if (!mayBeTransposed || expected.shape.size() != 2 || actual.size() != expected.values.size())
    return asIs;
  int64_t rows = expected.shape[0], columns = expected.shape[1];
  std::vector<double> turned(actual.size());
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      turned[i * columns + j] = actual[j * rows + i];
  return std::min(asIs, relativeDifference(turned, expected.values));
}

bool hyc::equivalence::isZero(llvm::ArrayRef<double> gradient, double largest) {
  return llvm::all_of(gradient, [&](double value) { return std::fabs(value) < 1e-6 * largest; });
}

OneDevice::OneDevice(const Model &model, int64_t microBatches, const hyc::Plan &options)
    : module(pathOf(model), batchSize(model) / microBatches, model.mode) {
  bool compiled = module && module.enter(hyc::Phase::Model, options) && module.enter(hyc::Phase::Train, options);
  llvm::FailureOr<Interpreter> interpreter = llvm::failure();
  if (compiled)
    interpreter = Interpreter::create(module.get());
  const int64_t samples = batchSize(model) / microBatches;
  for (int64_t step = 0; succeeded(interpreter) && step < kSteps; ++step) {
    std::vector<NamedTensors> batches;
    for (int64_t i = 0; i < microBatches; ++i)
      batches.push_back(batchOf(model, step, samples, i * samples));
    llvm::FailureOr<StepResult> result = runTrainStep(*interpreter, batches, kRate);
    if (failed(result))
      break;
    losses.push_back(result->meanLoss());
    counted = static_cast<double>(result->tokenCount);
    for (hyc::ParamOp param : module.get().getOps<hyc::ParamOp>())
      if (const Tensor *gradient = interpreter->getState(param.getSymName().str() + ".grad"); gradient && step == 0)
        gradients[param.getSymName()] = *gradient;
  }
  for (hyc::ParamOp param : module.get().getOps<hyc::ParamOp>())
    if (param.getFrozen() && succeeded(interpreter))
      if (const Tensor *value = interpreter->getState(param.getSymName()))
        buffers[param.getSymName()] = *value;
  for (const auto &entry : gradients)
    for (double value : entry.second.toDoubles())
      largest = std::max(largest, std::fabs(value));
  EXPECT_EQ(losses.size(), static_cast<size_t>(kSteps)) << module.diagnostics();
}

const OneDevice &hyc::equivalence::oneDevice(const Model &model, int64_t microBatches) {
  static std::map<std::pair<std::string, int64_t>, OneDevice> known;
  std::pair<std::string, int64_t> key((model.hasDocuments ? "documents in " : "") + std::string(model.file),
                                      microBatches);
  auto found = known.find(key);
  return found != known.end() ? found->second
                              : known
                                    .emplace(std::piecewise_construct, std::forward_as_tuple(key),
                                             std::forward_as_tuple(model, microBatches))
                                    .first->second;
}

/// The names of PyTorch's gradients; what else a reference has is marked by how its name begins.
static bool isGradient(llvm::StringRef name) {
  return name.contains('.') && !name.starts_with("buffers.") && !name.starts_with("population.") &&
         !name.starts_with("losses.") && !name.starts_with("loss.") && !name.starts_with("logits.");
}

void hyc::equivalence::expectPyTorchsTraining(const Model &model) {
  const std::vector<double> &expected = referenceOf(model).at("losses.adamw").values;
  const OneDevice &run = oneDevice(model);
  ASSERT_EQ(run.losses.size(), static_cast<size_t>(kSteps));
  for (int64_t step = 0; step < kSteps; ++step)
    EXPECT_NEAR(run.losses[step], expected[step], 1e-4 * expected[step]) << "step " << step;
  double largest = 0;
  for (const auto &[name, tensor] : referenceOf(model))
    for (double value : isGradient(name) ? tensor.values : std::vector<double>())
      largest = std::max(largest, std::fabs(value));
  size_t compared = 0;
  ASSERT_FALSE(run.gradients.empty());
  for (const auto &entry : run.gradients) {
    auto gradient = referenceOf(model).find(entry.first().str());
    if (gradient == referenceOf(model).end())
      continue; // ONNX's exporters rename what they fold or tie
    std::vector<double> mean = entry.second.toDoubles();
    for (double &value : mean)
      value /= run.counted;
    if (isZero(gradient->second.values, largest))
      EXPECT_TRUE(isZero(mean, largest)) << entry.first().str();
    else
      EXPECT_LT(gradientDifference(mean, gradient->second, model.isOnnx()), 1e-4) << entry.first().str();
    ++compared;
  }
  EXPECT_GE(compared + 2, run.gradients.size()); // a tied weight and a tied bias may have their other names
  EXPECT_GE(compared, std::min<size_t>(run.gradients.size(), 20));
}

size_t hyc::equivalence::expectPyTorchsBuffers(const Model &model) {
  const OneDevice &run = oneDevice(model);
  size_t compared = 0;
  for (const auto &[name, expected] : referenceOf(model)) {
    llvm::StringRef buffer = name;
    if (!buffer.consume_front("buffers.") || (model.isOnnx() && buffer.ends_with("num_batches_tracked")))
      continue;
    auto found = run.buffers.find(buffer);
    EXPECT_TRUE(found != run.buffers.end()) << name;
    if (found == run.buffers.end())
      continue;
    bool isVariance = buffer.ends_with("running_var");
    const std::vector<double> &wanted =
        isVariance && model.isOnnx() ? referenceOf(model).at("population." + buffer.str()).values : expected.values;
    EXPECT_LT(relativeDifference(found->second.toDoubles(), wanted), 1e-5) << name;
    ++compared;
  }
  EXPECT_EQ(compared, run.buffers.size());
  return compared;
}

/// Ten steps of `Job`, an interpreter of phase 4 or 5.
template <typename Job>
static void expectToTrainAlike(TrainedModule &module, const Model &model, const hyc::Plan &options,
                               const OneDevice &expected) {
  llvm::FailureOr<Job> interpreter = Job::create(module.get());
  ASSERT_TRUE(succeeded(interpreter)) << module.diagnostics();
  for (int64_t step = 0; step < kSteps; ++step) {
    llvm::FailureOr<StepResult> result = interpreter->runStep(batchOf(model, step, batchSize(model)), kRate);
    ASSERT_TRUE(succeeded(result)) << module.diagnostics();
    EXPECT_NEAR(result->meanLoss(), expected.losses[step], 1e-4 * expected.losses[step]) << "step " << step;
    if (step > 0 || options.zero > 0)
      continue;
    for (const auto &entry : expected.gradients) {
      llvm::FailureOr<Tensor> gradient = interpreter->gatherState(entry.first().str() + ".grad");
      ASSERT_TRUE(succeeded(gradient)) << module.diagnostics();
      std::vector<double> sums = gradient->toDoubles(), one = entry.second.toDoubles();
      if (isZero(one, expected.largest))
        EXPECT_TRUE(isZero(sums, expected.largest)) << entry.first().str();
      else
        EXPECT_LT(relativeDifference(sums, one), 1e-4) << entry.first().str();
    }
  }
  for (const auto &entry : expected.buffers) {
    llvm::FailureOr<Tensor> buffer = interpreter->gatherState(entry.first());
    ASSERT_TRUE(succeeded(buffer)) << module.diagnostics();
    EXPECT_LT(relativeDifference(buffer->toDoubles(), entry.second.toDoubles()), 1e-5) << entry.first().str();
  }
}

void hyc::equivalence::expectMeshToTrainAlike(const Model &model, const hyc::Plan &options, const OneDevice &expected,
                                              hyc::Phase last) {
  TrainedModule module(pathOf(model), batchSize(model) / options.gradAccum, model.mode);
  bool compiled = static_cast<bool>(module);
  for (hyc::Phase phase : {hyc::Phase::Model, hyc::Phase::Train, hyc::Phase::Plan, hyc::Phase::Local})
    compiled = compiled && module.enter(phase, options);
  ASSERT_TRUE(compiled) << module.diagnostics();
  expectToTrainAlike<MeshInterpreter>(module, model, options, expected);
  if (last == hyc::Phase::Local)
    return;
  ASSERT_TRUE(module.enter(hyc::Phase::Rank, options)) << module.diagnostics();
  expectToTrainAlike<RankInterpreter>(module, model, options, expected);
}
