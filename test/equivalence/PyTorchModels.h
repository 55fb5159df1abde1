// The small models of test/models as PyTorch has computed them: their batches, logits, gradients and losses, and the
// same from one device here.
#ifndef HYC_TEST_EQUIVALENCE_PYTORCHMODELS_H
#define HYC_TEST_EQUIVALENCE_PYTORCHMODELS_H

#include "SafeTensors.h"
#include "TrainedModule.h"
#include "hyc/Interpreter/Interpreter.h"
#include <map>

namespace hyc::equivalence {

constexpr int64_t kSteps = 10;
constexpr double kRate = 1e-3;

struct Model {
  const char *file; ///< "llama.pt2"
  const char *name; ///< "llama": whose reference it is held to
  const char *loss;
  ModelMode mode = ModelMode::AsExported; ///< in which it trains
  bool hasDocuments = false;              ///< its samples hold several, which --separate-documents keeps apart
  bool isOnnx() const { return llvm::StringRef(file).ends_with(".onnx"); }
  friend void PrintTo(const Model &model, std::ostream *out) { *out << model.file; }
};

/// "llama_pt2"
std::string nameOf(const Model &model);

using Reference = std::map<std::string, hyc_e2e::HostTensor>;

/// What PyTorch computed, read once a model.
const Reference &referenceOf(const Model &model);
std::string pathOf(const Model &model);

/// Of what is [steps, samples, …]: `samples` of one step from number `sample` on, of the last dimension elements
/// [begin, end).
interpreter::Tensor part(const hyc_e2e::HostTensor &all, interpreter::ElementKind kind, int64_t step, int64_t sample,
                         int64_t samples, int64_t begin, int64_t end);

/// `samples` inputs of one step, from number `first` on.
interpreter::NamedTensors batchOf(const Model &model, int64_t step, int64_t samples, int64_t first = 0);
/// Samples of a step.
int64_t batchSize(const Model &model);
Plan optionsOf(const Model &model);

/// max |a - b| over max |b|.
double relativeDifference(llvm::ArrayRef<double> actual, llvm::ArrayRef<double> expected);

/// That of `actual`, or of its transpose where that is nearer: ONNX's exporters store the weights of products
/// transposed.
double gradientDifference(const std::vector<double> &actual, const hyc_e2e::HostTensor &expected, bool mayBeTransposed);

/// Whether a gradient is nothing but the rounding of zeros, beside the model's largest. A bias of keys that are not
/// turned adds one number to each row of scores, which softmax does not see.
bool isZero(llvm::ArrayRef<double> gradient, double largest);

/// One device: its losses; the gradients of the first step, sums over what is counted, by parameter; and what frozen
/// parameters hold after the last step.
struct OneDevice {
  explicit OneDevice(const Model &model, int64_t microBatches = 1) : OneDevice(model, microBatches, optionsOf(model)) {}
  OneDevice(const Model &model, int64_t microBatches, const Plan &options);

  TrainedModule module;
  std::vector<double> losses;
  interpreter::NamedTensors gradients, buffers;
  double counted = 0, largest = 0; ///< largest: element of all gradients
};

/// The same run for every test that compares with it.
const OneDevice &oneDevice(const Model &model, int64_t microBatches = 1);

/// Losses and the gradients of every parameter.
void expectPyTorchsTraining(const Model &model);

/// All ranks of the mesh that `options` asks for, in phase 4 and maybe 5, against one device with as many samples a
/// micro-batch: losses, gradients where they are not in shards, and what is in frozen parameters in the end.
void expectMeshToTrainAlike(const Model &model, const Plan &options, const OneDevice &expected,
                            Phase last = Phase::Local);
/// What frozen parameters hold after ten steps, against the reference; returns how many there are.
size_t expectPyTorchsBuffers(const Model &model);

} // namespace hyc::equivalence

#endif // HYC_TEST_EQUIVALENCE_PYTORCHMODELS_H
