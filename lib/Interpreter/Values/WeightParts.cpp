// Codes and scales of a weight, by the formulas of kernels/dequantize over the whole matrix at once.
#include "Values/Initializers.h"

#include "kernels/dequantize/reference.h"
#include "kernels/exact_squares.h"

#include <cmath>

using namespace mlir;
using namespace hyc;
using namespace hyc::interpreter;

namespace {
/// A weight as a matrix of outputs × inputs, whatever order it is stored in.
struct Matrix {
  OfWeightAttr facts;
  std::vector<float> values; ///< row-major

  int64_t inputs() const { return facts.getInputs(); }
  /// The element of the matrix that is number `stored` of the weight.
  int64_t placeOf(int64_t stored) const {
    int64_t outputs = facts.getOutputs();
    return facts.getInputsFirst() ? stored % outputs * inputs() + stored / outputs : stored;
  }
  std::vector<float> absmaxOf(int64_t block) const {
    std::vector<float> result((values.size() + block - 1) / block, 0.0f);
    for (size_t i = 0; i < values.size(); ++i) {
      float &most = result[i / block], size = std::fabs(values[i]);
      most = size > most || std::isnan(size) ? size : most;
    }
    return result;
  }
};

/// Scales of nf4.
struct Nf4Scales {
  std::vector<float> absmax, scales;
  std::vector<uint8_t> codes;
  float mean = 0;
};
} // namespace

static Nf4Scales nf4ScalesOf(const Matrix &matrix) {
  Nf4Scales result;
  result.absmax = matrix.absmaxOf(kernels::kNf4Block);
  auto blocks = static_cast<int64_t>(result.absmax.size());
  result.codes.resize(blocks);
  result.scales.resize(kernels::nf4Groups(blocks));
  kernels::quantizeAbsmax(result.absmax.data(), blocks, result.codes.data(), result.scales.data(), &result.mean);
  return result;
}

static void setInt8Codes(const Matrix &matrix, Tensor &result) {
  std::vector<float> absmax = matrix.absmaxOf(matrix.inputs());
  for (int64_t i = 0; i < result.getNumElements(); ++i) {
    int64_t place = matrix.placeOf(i);
    result.mutableData<int64_t>()[i] =
        static_cast<uint8_t>(kernels::int8Code(matrix.values[place], absmax[place / matrix.inputs()]));
  }
}

static void setNf4Codes(const Matrix &matrix, Tensor &result) {
  std::vector<float> absmax = matrix.absmaxOf(kernels::kNf4Block);
  auto codeOf = [&](int64_t stored) {
    int64_t place = matrix.placeOf(stored);
    return kernels::nf4Code(matrix.values[place], absmax[place / kernels::kNf4Block]);
  };
  for (int64_t i = 0; i < result.getNumElements(); ++i)
    result.mutableData<int64_t>()[i] = codeOf(2 * i) << 4 | codeOf(2 * i + 1);
}

static std::vector<float> normsOf(const Matrix &matrix) {
  std::vector<kernels::ExactSquares> sums(matrix.facts.getOutputs());
  for (size_t i = 0; i < matrix.values.size(); ++i)
    sums[i / matrix.inputs()].add(matrix.values[i]);
  std::vector<float> norms;
  for (const kernels::ExactSquares &sum : sums)
    norms.push_back(sum.root());
  return norms;
}

/// What codes of the matrix mean, in its place.
static Matrix codedInt8(Matrix matrix) {
  std::vector<float> absmax = matrix.absmaxOf(matrix.inputs());
  for (size_t i = 0; i < matrix.values.size(); ++i) {
    const float most = absmax[i / matrix.inputs()];
    matrix.values[i] = kernels::int8Value(kernels::int8Code(matrix.values[i], most), most);
  }
  return matrix;
}

static Matrix codedNf4(Matrix matrix) {
  const Nf4Scales scales = nf4ScalesOf(matrix);
  for (size_t i = 0; i < matrix.values.size(); ++i) {
    const size_t block = i / kernels::kNf4Block;
    const float most = kernels::nf4Absmax(scales.codes[block], scales.scales[block / kernels::kNf4Group], scales.mean);
    matrix.values[i] = kernels::nf4Value(kernels::nf4Code(matrix.values[i], scales.absmax[block]), most);
  }
  return matrix;
}

template <typename T> static void setAll(const std::vector<T> &values, Tensor &result) {
  for (size_t i = 0; i < values.size(); ++i)
    result.set(static_cast<int64_t>(i), static_cast<double>(values[i]));
}

static void setPart(const Matrix &matrix, WeightPart part, Tensor &result) {
  switch (part) {
  case WeightPart::int8_codes:
    return setInt8Codes(matrix, result);
  case WeightPart::int8_absmax:
    return setAll(matrix.absmaxOf(matrix.inputs()), result);
  case WeightPart::nf4_codes:
    return setNf4Codes(matrix, result);
  case WeightPart::nf4_absmax:
    return setAll(nf4ScalesOf(matrix).codes, result);
  case WeightPart::nf4_scale:
    return setAll(nf4ScalesOf(matrix).scales, result);
  case WeightPart::nf4_mean:
    return setAll(std::vector<float>{nf4ScalesOf(matrix).mean}, result);
  case WeightPart::row_norms:
    return setAll(normsOf(matrix), result);
  case WeightPart::int8_row_norms:
    return setAll(normsOf(codedInt8(matrix)), result);
  case WeightPart::nf4_row_norms:
    return setAll(normsOf(codedNf4(matrix)), result);
  }
}

FailureOr<Tensor> hyc::interpreter::partOfWeight(Operation *op, OfWeightAttr init, RankedTensorType type,
                                                 const Options &options) {
  auto wholeType = RankedTensorType::get({init.getOutputs() * init.getInputs()}, Float32Type::get(init.getContext()));
  FailureOr<Tensor> whole = initialValue(op, init.getParameter(), wholeType, init.getValues(), options);
  if (failed(whole))
    return failure();
  Matrix matrix{init, std::vector<float>(whole->getNumElements())};
  for (int64_t i = 0; i < whole->getNumElements(); ++i)
    matrix.values[matrix.placeOf(i)] = static_cast<float>(whole->getDouble(i));
  const bool isNorms = llvm::is_contained(
      {WeightPart::row_norms, WeightPart::int8_row_norms, WeightPart::nf4_row_norms}, init.getPart());
  if (isNorms && !llvm::all_of(matrix.values, kernels::ExactSquares::takes))
    return op->emitError("starts from lengths of weights that are not all below 8192 in magnitude"), failure();
  Tensor result(*elementKind(type.getElementType(), options.arithmetic), type.getShape());
  setPart(matrix, init.getPart(), result);
  return result;
}
