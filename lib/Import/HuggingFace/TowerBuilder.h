// TowerBuilder: what encoders and decoders of several towers are built of (Whisper, CLIP): blocks with layer norms
// before attention and MLP, biases, and attention that stays whole.
#ifndef HYC_LIB_IMPORT_HUGGINGFACE_TOWERBUILDER_H
#define HYC_LIB_IMPORT_HUGGINGFACE_TOWERBUILDER_H

#include "GraphBuilder.h"

namespace hyc {

/// The activations of a tower's MLP.
llvm::ArrayRef<llvm::StringRef> towerActivations();

/// A tower's blocks, all of them alike.
struct Tower {
  int64_t width = 0, layers = 0, heads = 0, inner = 0;
  std::string activation;
  double epsilon = 1e-5, dropout = 0, attentionDropout = 0, innerDropout = 0;
  bool keyBias = true;
  bool scalesQueries = false; ///< queries are multiplied by 1 / sqrt(head size), in place of scores
  /// Standard deviations of initial weights: of q, k and v, of what leaves attention, and of the MLP's.
  double intoStddev = 0, outStddev = 0, upStddev = 0, downStddev = 0;
};

class TowerBuilder : public GraphBuilder {
protected:
  using GraphBuilder::GraphBuilder;

  // x: (batch, rows, width), or (batch, width) for linear and norm.
  Value norm(const std::string &path, Value x, double epsilon);
  Value dropout(const std::string &path, Value x, double rate);
  /// Contracts the last dimensions of x, `inputs`, with a weight, and adds a bias.
  Value linear(const std::string &path, Value x, llvm::ArrayRef<int64_t> inputs, llvm::ArrayRef<int64_t> outputs,
               bool bias, double stddev);
  Value activate(const std::string &path, Value x, llvm::StringRef kind);
  /// x looks at `rows`, which are its own or another tower's.
  Value attention(const std::string &path, const Tower &tower, Value x, Value rows, bool causal);
  /// x + what `compute` makes of its norm.
  Value addTo(const std::string &around, const Tower &tower, Value x, const std::string &normPath,
              llvm::function_ref<Value(Value)> compute);
  Value mlp(const std::string &path, const Tower &tower, Value x);
};

} // namespace hyc

#endif // HYC_LIB_IMPORT_HUGGINGFACE_TOWERBUILDER_H
