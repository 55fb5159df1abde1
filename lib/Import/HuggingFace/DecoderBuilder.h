// DecoderBuilder: the graph of a decoder or an encoder, by the row of its family. BuildDecoder.cpp has what is around
// the blocks and how they are put together, BuildAttention.cpp and BuildMlp.cpp what they are made of, BuildEncoder.cpp
// what only encoders have around them.
#ifndef HYC_LIB_IMPORT_HUGGINGFACE_DECODERBUILDER_H
#define HYC_LIB_IMPORT_HUGGINGFACE_DECODERBUILDER_H

#include "DecoderFamily.h"
#include "GraphBuilder.h"

namespace hyc {

class DecoderBuilder : GraphBuilder {
public:
  DecoderBuilder(mlir::ModuleOp module, const DecoderConfig &config, int64_t batch, int64_t sequence)
      : GraphBuilder(module), config(config), family(*config.family), names(family.names), batch(batch),
        sequence(sequence) {}

  void build();

private:
  // x: (batch, sequence, width) where nothing else is said.

  // Around the blocks.
  Value embed(Value tokens);
  std::string aroundEmbeddings() const {
    return names.embeddings.empty() ? names.base.str() : names.base.str() + "." + names.embeddings.str();
  }
  Value addPositions(Value x);
  Value addCountedPositions(Value x, Value tokens);
  Value addTokenTypes(Value x);
  Value embedPatches(Value pixels);
  Value head(Value x);
  mlir::RankedTensorType inputType();
  Value block(int64_t layer, Value x);
  Value finish(Value x);
  void makeTables();
  void noteTensorPlan();

  // What blocks are made of.
  Value norm(const std::string &path, Value x, NormKind kind, double epsilon);
  Value norm(const std::string &path, Value x) { return norm(path, x, family.norm, config.epsilon); }
  Value dropout(const std::string &around, llvm::StringRef name, Value x, double rate);
  Value sum(const std::string &path, llvm::StringRef order, Value x, Value attention, Value mlp);
  /// Contracts the last dimensions of x, `inputs`, with a weight, and adds a bias.
  Value linear(const std::string &path, Value x, llvm::ArrayRef<int64_t> inputs, llvm::ArrayRef<int64_t> outputs,
               bool bias, double stddev);
  Value linear(const std::string &path, Value x, int64_t inputs, int64_t outputs, bool bias) {
    return linear(path, x, llvm::ArrayRef(inputs), llvm::ArrayRef(outputs), bias, config.initializerRange);
  }

  // Attention: q, k and v are (batch, sequence, heads, size).
  struct Heads {
    Value q, k, v;
  };
  Value attention(const std::string &path, Value x, int64_t layer);
  Heads project(const std::string &path, Value x);
  Heads projectJoined(const std::string &path, Value x);
  Heads projectLatent(const std::string &path, Value x, int64_t layer);
  Value normHeads(const std::string &path, Value x);
  Value headScales(const std::string &path, int64_t heads);
  Value partPairs(const std::string &path, Value x);
  Value turn(const std::string &path, Value x, int64_t layer);
  Value attend(const std::string &path, const Heads &heads, int64_t layer);
  Value attendWrittenOut(const std::string &path, const Heads &heads, int64_t layer);
  Value repeatHeads(const std::string &path, Value x);
  Value visible(const std::string &path, int64_t layer);
  Value addSlopes(const std::string &path, Value scores, double scale);
  Value probabilities(const std::string &path, Value scores);
  double scoreScale(int64_t layer) const;
  bool isWindowed(int64_t layer) const { return config.isWindowed[layer] && config.window < sequence; }

  // MLP.
  Value activate(const std::string &path, Value x) { return activate(path, x, config.activation); }
  Value activate(const std::string &path, Value x, llvm::StringRef kind);
  Value mlp(const std::string &path, Value x, int64_t inner);
  Value experts(const std::string &path, Value x);
  struct Routes {
    Value numbers, shares;
  };
  Routes route(const std::string &path, Value x);
  Value withinGroups(const std::string &path, Value scores);
  Value largest(const std::string &path, Value rows, int64_t count);
  Value picked(const std::string &path, Value rows, Value numbers);
  Value gateExperts(const std::string &path, Value both, int64_t inner);
  mlir::RankedTensorType booleans(llvm::ArrayRef<int64_t> shape) {
    return mlir::RankedTensorType::get(shape, ops.getI1Type());
  }

  /// As wide as what leads into the stream starts.
  double residualStddev() const;

  const DecoderConfig &config;
  const DecoderFamily &family;
  const DecoderNames &names;
  int64_t batch, sequence;
  Value mask; ///< of kTakesMask: (batch, sequence), 0 for padding
  struct Tables {
    Value cos, sin;
  } tables, windowTables;
};

} // namespace hyc

#endif // HYC_LIB_IMPORT_HUGGINGFACE_DECODERBUILDER_H
