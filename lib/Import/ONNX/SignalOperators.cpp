// Windows and Fourier transforms: the former are known when compiling, the latter are products with known matrices.
#include "Expansion.h"

#include <cmath>

using namespace hyc;
using namespace hyc::onnx;
using namespace mlir;

namespace {
/// a0 - a1 cos(2πn/N) + a2 cos(4πn/N), N one less where the window is symmetric.
LogicalResult importCosineWindow(NodeImport &node) {
  Expansion e(node);
  std::optional<llvm::SmallVector<int64_t>> size = node.integers(0);
  if (!size || size->size() != 1 || size->front() < 0 || size->front() > HostTensor::kMaxStored)
    return size ? node.error() << "has a window of a size that is not one number" : failure();
  double a0 = 0.5, a1 = 0.5, a2 = 0;
  if (node.opType() == "HammingWindow")
    a0 = 25.0 / 46, a1 = 1 - a0;
  else if (node.opType() == "BlackmanWindow")
    a0 = 0.42, a1 = 0.5, a2 = 0.08;
  bool periodic = node.getInt("periodic", 1) != 0;
  double length = static_cast<double>(size->front() - (periodic ? 0 : 1));
  auto values = [&](int64_t n) {
    double angle = 2 * M_PI * static_cast<double>(n) / length;
    return a0 - a1 * std::cos(angle) + a2 * std::cos(2 * angle);
  };
  Type type =
      OnnxFile::getElementType(node.importer().getContext(), static_cast<int32_t>(node.getInt("output_datatype", 1)));
  if (!type || !isa<FloatType>(type))
    return node.error() << "gives an unsupported data type, expected floats";
  return e.finish(e.reals({size->front()}, values, type));
}

/// Matrices (from, to) of cosines and sines.
Binding wave(Expansion &e, int64_t from, int64_t to, int64_t length, bool sine, double factor, Type type) {
  auto values = [&](int64_t place) {
    int64_t n = place / to, k = place % to;
    double angle = 2 * M_PI * static_cast<double>(n * k % length) / static_cast<double>(length);
    return factor * (sine ? std::sin(angle) : std::cos(angle));
  };
  return e.reals({from, to}, values, type);
}

/// The transform of the last dimension but one; the last holds real and imaginary parts (or only the former).
Binding transformed(Expansion &e, const Binding &x, int64_t length, bool inverse, bool oneSided) {
  if (!e.ok())
    return {};
  int64_t tensorRank = x.type.getRank(), have = x.type.getDimSize(tensorRank - 2), parts = x.type.getShape().back();
  int64_t used = std::min(have, length), to = oneSided ? length / 2 + 1 : length;
  if (used > (1 << 22) / to || (parts != 1 && parts != 2)) {
    e.fail("transforms a signal that is too long, or not of real or complex numbers");
    return {};
  }
  Type type = x.type.getElementType();
  double factor = inverse ? 1.0 / static_cast<double>(length) : 1, sign = inverse ? 1 : -1;
  auto part = [&](int64_t index) {
    Binding one = e("Slice", {x, e.integers({0, index}), e.integers({used, index + 1}),
                              e.integers({tensorRank - 2, tensorRank - 1})});
    return e("Squeeze", {one, e.integers({tensorRank - 1})});
  };
  Binding cosine = wave(e, used, to, length, false, factor, type);
  Binding sine = wave(e, used, to, length, true, factor * sign, type);
  Binding real = e("MatMul", {part(0), cosine}), imaginary = e("MatMul", {part(0), sine});
  if (parts == 2) {
    real = e.sub(real, e("MatMul", {part(1), sine}));
    imaginary = e.add(imaginary, e("MatMul", {part(1), cosine}));
  }
  Binding last = e.integers({tensorRank - 1});
  return e("Concat", {e("Unsqueeze", {real, last}), e("Unsqueeze", {imaginary, last})}, {{"axis", tensorRank - 1}});
}

LogicalResult importDFT(NodeImport &node) {
  Expansion e(node);
  Binding x = node.input(0);
  bool axisIsInput = node.opset() >= 20;
  int64_t tensorRank = x.type.getRank(), axis = node.getInt("axis", axisIsInput ? -2 : 1);
  if (axisIsInput && node.has(2)) {
    std::optional<llvm::SmallVector<int64_t>> given = node.integers(2);
    if (!given || given->size() != 1)
      return failure();
    axis = given->front();
  }
  std::optional<int64_t> dim = node.normalizeAxis(axis, tensorRank);
  if (!dim || tensorRank < 2 || *dim == tensorRank - 1)
    return dim ? node.error() << "transforms dimension " << *dim << " of " << x.type : failure();
  int64_t length = x.type.getDimSize(*dim);
  if (node.has(1)) {
    std::optional<llvm::SmallVector<int64_t>> given = node.integers(1);
    if (!given || given->size() != 1 || given->front() < 1)
      return given ? node.error() << "has a length that is not one positive number" : failure();
    length = given->front();
  }
  llvm::SmallVector<int64_t> swap = llvm::to_vector(llvm::seq<int64_t>(0, tensorRank));
  std::swap(swap[*dim], swap[tensorRank - 2]);
  Binding turned = e.transpose(x, swap);
  return e.finish(e.transpose(
      transformed(e, turned, length, node.getInt("inverse", 0) != 0, node.getInt("onesided", 0) != 0), swap));
}

/// Frames of the signal, by the window, transformed.
LogicalResult importSTFT(NodeImport &node) {
  Expansion e(node);
  Binding signal = node.input(0);
  std::optional<llvm::SmallVector<int64_t>> step = node.integers(1), given;
  if (!step)
    return failure();
  int64_t length = node.has(2) ? node.input(2).type.getNumElements() : 0;
  if (node.has(3)) {
    if (!(given = node.integers(3)))
      return failure();
    length = given->size() == 1 ? given->front() : 0;
  }
  ArrayRef<int64_t> s = signal.type.getShape();
  if (step->size() != 1 || step->front() < 1 || s.size() != 3 || length < 1 || length > s[1])
    return node.error() << "cuts " << signal.type << " into frames of " << length;
  int64_t frames = (s[1] - length) / step->front() + 1;
  int64_t count = 0;
  if (llvm::MulOverflow(frames, length, count))
    return node.error() << "has too many frames";
  Binding numbers = e.integers(count, [&](int64_t i) { return i / length * step->front() + i % length; });
  Binding places = e.ok() ? e.reshape(numbers, {frames, length}) : Binding();
  Binding cut = e("Gather", {signal, places}, {{"axis", int64_t(1)}}); // (samples, frames, length, parts)
  if (node.has(2))
    cut = e.mul(cut, e.reshape(node.input(2), {length, 1}));
  return e.finish(transformed(e, cut, length, false, node.getInt("onesided", 1) != 0));
}

/// The one number that an input is when compiling.
std::optional<double> numberOf(NodeImport &node, int index) {
  const HostTensor *tensor = node.constant(index);
  if (!tensor)
    return std::nullopt;
  HostElement element = tensor->atFlat(0);
  return tensor->isReal() ? element.real : static_cast<double>(element.integer);
}

/// (frequencies, bins): triangles whose corners are equally far from one another on the mel scale.
LogicalResult importMelWeightMatrix(NodeImport &node) {
  Expansion e(node);
  double given[5];
  for (int index = 0; index < 5; ++index) {
    std::optional<double> number = numberOf(node, index);
    if (!number)
      return failure();
    given[index] = *number;
  }
  constexpr double kMost = 1 << 20;
  const double bins = given[0], length = given[1], rate = given[2], low = given[3], high = given[4];
  const bool isSound =
      bins >= 1 && bins <= kMost && length >= 1 && length <= kMost && rate >= 1 && low >= 0 && high >= low;
  if (!isSound || high > rate)
    return node.error() << "makes " << bins << " bins of a transform of " << length << " samples at " << rate
                        << " Hz between " << low << " and " << high
                        << " Hz, expected some of each and frequencies within the rate";
  auto melOf = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double first = melOf(low), step = (melOf(high) - first) / (bins + 2);
  const auto columns = static_cast<int64_t>(bins), rows = static_cast<int64_t>(length) / 2 + 1;
  auto cornerOf = [&](int64_t corner) {
    double hertz = 700 * (std::pow(10.0, (first + step * static_cast<double>(corner)) / 2595) - 1);
    return std::floor((length + 1) * hertz / rate);
  };
  std::vector<double> corners;
  for (int64_t corner = 0; corner < columns + 2; ++corner)
    corners.push_back(cornerOf(corner));
  auto values = [&](int64_t place) {
    auto row = static_cast<double>(place / columns);
    double begin = corners[place % columns], middle = corners[place % columns + 1], end = corners[place % columns + 2];
    if (row >= middle && row < end)
      return (end - row) / (end - middle);
    if (row == middle)
      return 1.0;
    return row >= begin && row < middle ? (row - begin) / (middle - begin) : 0.0;
  };
  Type type =
      OnnxFile::getElementType(node.importer().getContext(), static_cast<int32_t>(node.getInt("output_datatype", 1)));
  if (!type || !isa<FloatType>(type))
    return node.error() << "gives an unsupported data type, expected floats";
  return e.finish(e.reals({rows, columns}, values, type));
}
} // namespace

void hyc::onnx::addSignalOperators(OperatorTable &table) {
  for (llvm::StringRef name : {"HannWindow", "HammingWindow", "BlackmanWindow"})
    table[name] = {importCosineWindow, {one("size").integer()}};
  table["DFT"] = {
      importDFT,
      {tensor("input").real().ranks(2), one("dft_length").integer().optional(), one("axis").integer().optional()}};
  table["STFT"] = {importSTFT,
                   {tensor("signal").real().rank(3), one("frame_step").integer(),
                    tensor("window").real().rank(1).optional(), one("frame_length").integer().optional()}};
  table["MelWeightMatrix"] = {importMelWeightMatrix,
                              {one("num_mel_bins").integer(), one("dft_length").integer(), one("sample_rate").integer(),
                               one("lower_edge_hertz").real(), one("upper_edge_hertz").real()}};
}
