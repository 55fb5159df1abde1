// Pieces of ONNX models: tensors, inputs, attributes.
#ifndef HYC_TEST_FUZZ_GRAPHS_MODELPARTS_H
#define HYC_TEST_FUZZ_GRAPHS_MODELPARTS_H

#include "lib/Import/ONNX/onnx_subset.pb.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <string>
#include <vector>

namespace hyc::fuzzing {

// Data types, by the format's numbers.
enum DataType : int32_t { kF32 = 1, kU8 = 2, kI8 = 3, kI32 = 6, kI64 = 7, kBool = 9, kF16 = 10, kF64 = 11, kBF16 = 16 };

/// The type that a recipe's letter means.
int32_t typeOfLetter(char letter);
bool isReal(int32_t type);

/// Adds a graph input; the first size becomes a symbol where one is given.
void addInput(onnxfile::Graph &graph, const std::string &name, int32_t type, const std::vector<int64_t> &shape,
              const std::string &firstSymbol = "");
/// Adds an initializer with one value an element.
void addTensor(onnxfile::Graph &graph, const std::string &name, int32_t type, const std::vector<int64_t> &shape,
               const std::vector<double> &values);
void fillTensor(onnxfile::Tensor &tensor, int32_t type, const std::vector<int64_t> &shape,
                const std::vector<double> &values);
onnxfile::Node &addNode(onnxfile::Graph &graph, llvm::StringRef op, const std::vector<std::string> &inputs,
                        const std::vector<std::string> &outputs);
onnxfile::Attribute &addAttribute(onnxfile::Node &node, const std::string &name, int32_t type);
void setInt(onnxfile::Node &node, const std::string &name, int64_t value);

} // namespace hyc::fuzzing

#endif // HYC_TEST_FUZZ_GRAPHS_MODELPARTS_H
