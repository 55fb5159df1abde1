// Order of checks: encoding of the whole file (WireCheck), then decoding, then versions, names, tensors. Values are
// never decoded here, except when somebody asks for them.
#include "OnnxFile.h"
#include "ExternalData.h"
#include "Functions.h"
#include "hyc/Support/InputFile.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/ConvertUTF.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/Path.h"
#include <cstring>
#include <google/protobuf/io/coded_stream.h>
#include <unistd.h>

using namespace hyc;
using namespace hyc::onnx;
using namespace mlir;
using llvm::StringRef;
using llvm::Twine;

/// A name as a message may show it: NUL, control and broken bytes escaped.
static std::string printable(StringRef name) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream.write_escaped(name.take_front(200));
  return text;
}

static constexpr size_t kLongestName = 4096;

static bool isCleanText(StringRef text) {
  const auto *begin = reinterpret_cast<const llvm::UTF8 *>(text.begin());
  const auto *end = reinterpret_cast<const llvm::UTF8 *>(text.end());
  return !text.contains('\0') && llvm::isLegalUTF8String(&begin, end);
}

OnnxFile::OnnxFile(MLIRContext *context, StringRef path)
    : context(context), loc(FileLineColLoc::get(context, path, 0, 0)), folder(llvm::sys::path::parent_path(path).str()),
      fileName(llvm::sys::path::filename(path).str()) {
  if (folder.empty())
    folder = ".";
}

Location OnnxFile::getLoc(StringRef name) const {
  return name.empty() ? loc : NameLoc::get(StringAttr::get(context, name), loc);
}

std::unique_ptr<OnnxFile> OnnxFile::load(MLIRContext *context, StringRef path) {
  std::unique_ptr<OnnxFile> file(new OnnxFile(context, path));
  auto buffer = openInputFile(path, kMaxModelBytes);
  if (!buffer) {
    emitError(file->loc) << "cannot read the model: " << llvm::toString(buffer.takeError());
    return nullptr;
  }
  file->buffer = std::move(*buffer);
  std::string error;
  std::optional<ModelBytes> parts = locateModel(file->buffer->getBuffer(), error);
  if (!parts) {
    emitError(file->loc) << "not a valid ONNX model: " << error;
    return nullptr;
  }
  file->parts = std::move(*parts);
  if (!file->decode(file->parts) || !file->checkVersions() || !inlineFunctions(file->model, file->loc, file->opset) ||
      !file->checkNames() || !file->checkTensors())
    return nullptr;
  return file;
}

std::unique_ptr<OnnxFile> OnnxFile::assemble(MLIRContext *context, StringRef path, AssembledModel assembled) {
  std::unique_ptr<OnnxFile> file(new OnnxFile(context, path));
  file->buffer = std::move(assembled.file);
  file->model = std::move(assembled.model);
  file->assembled = true;
  file->parts.hasGraph = true;
  for (const ByteRange &values : assembled.values) {
    InitializerBytes &bytes = file->parts.initializers.emplace_back();
    bytes.values = values;
    bytes.valuesField = 9;
  }
  return file->checkVersions() && file->checkNames() && file->checkTensors() ? std::move(file) : nullptr;
}

/// Decodes by pieces: the encoding of a message is the sequence of its fields, so that fields can be merged one by one.
bool OnnxFile::decode(const ModelBytes &parts) {
  StringRef bytes = buffer->getBuffer();
  auto merge = [&](auto &message, const ByteRange &piece) {
    google::protobuf::io::CodedInputStream stream(reinterpret_cast<const uint8_t *>(bytes.data()) + piece.offset,
                                                  static_cast<int>(piece.length));
    if (piece.length < (1u << 31) && message.MergeFromCodedStream(&stream))
      return true;
    emitError(loc) << "not a valid ONNX model: at byte " << piece.offset << ": a message cannot be decoded";
    return false;
  };
  for (const ByteRange &piece : parts.modelPieces)
    if (!merge(model, piece))
      return false;
  for (const ByteRange &piece : parts.graphPieces)
    if (!merge(*model.mutable_graph(), piece))
      return false;
  for (const InitializerBytes &initializer : parts.initializers) {
    onnxfile::Tensor *tensor = model.mutable_graph()->add_initializer();
    for (const ByteRange &piece : initializer.pieces)
      if (!merge(*tensor, piece))
        return false;
  }
  return true;
}

bool OnnxFile::checkVersions() {
  if (!parts.hasGraph || model.opset_import_size() == 0) {
    emitError(loc) << "not a valid ONNX model: it ends at byte " << buffer->getBufferSize() << " without "
                   << (parts.hasGraph ? "the operator set it uses" : "a graph");
    return false;
  }
  bool usesStandard = false;
  for (const onnxfile::OperatorSet &set : model.opset_import())
    if (set.domain().empty() || set.domain() == "ai.onnx") {
      opset = set.version();
      usesStandard = true;
    }
  if (!usesStandard)
    opset = kNewestOpset;
  if (opset < kOldestOpset || opset > kNewestOpset) {
    emitError(loc) << "the model uses operator set " << opset << ", expected one from " << kOldestOpset << " to "
                   << kNewestOpset << "; export it again with opset_version=20";
    return false;
  }
  if (getGraph().sparse_initializer_size()) {
    emitError(loc) << "the model has sparse initializers, expected dense ones";
    return false;
  }
  return true;
}

/// The graph, and all within it.
static void forEachGraph(const onnxfile::Graph &graph, llvm::function_ref<void(const onnxfile::Graph &)> visit) {
  visit(graph);
  for (const onnxfile::Node &node : graph.node())
    for (const onnxfile::Attribute &attribute : node.attribute()) {
      if (attribute.has_g())
        forEachGraph(attribute.g(), visit);
      for (const onnxfile::Graph &inner : attribute.graphs())
        forEachGraph(inner, visit);
    }
}

bool OnnxFile::checkNames() const {
  auto check = [&](const std::string &name, StringRef what) {
    // Names are parts of others: of ops, of what a node stands for, of files.
    if (name.size() > kLongestName) {
      emitError(loc) << "the name of " << what << " \"" << printable(name) << "…\" has " << name.size()
                     << " bytes, expected at most " << kLongestName;
      return false;
    }
    if (isCleanText(name))
      return true;
    emitError(loc) << "the name of " << what << " \"" << printable(name) << "\" is not valid UTF-8 without NUL";
    return false;
  };
  auto checkValue = [&](const onnxfile::Value &value) {
    bool good = check(value.name(), "the value");
    for (const onnxfile::Dimension &dim : value.type().tensor().shape().dim())
      good = good && check(dim.symbol(), "a dimension of a value");
    return good;
  };
  bool good = true;
  auto checkNode = [&](const onnxfile::Node &node) {
    good &=
        check(node.name(), "the node") && check(node.op_type(), "the operator") && check(node.domain(), "the domain");
    for (const auto *list : {&node.input(), &node.output()})
      for (const std::string &name : *list)
        good &= check(name, "the value");
    for (const onnxfile::Attribute &attribute : node.attribute())
      good &= check(attribute.name(), "the attribute");
  };
  forEachGraph(getGraph(), [&](const onnxfile::Graph &graph) {
    for (const auto *list : {&graph.input(), &graph.output(), &graph.value_info()})
      for (const onnxfile::Value &value : *list)
        good &= checkValue(value);
    for (const onnxfile::Tensor &tensor : graph.initializer())
      good &= check(tensor.name(), "the tensor");
    llvm::for_each(graph.node(), checkNode);
  });
  return good;
}

std::string OnnxFile::describeDataType(int64_t dataType) {
  static const std::pair<int64_t, const char *> names[] = {
      {0, "UNDEFINED"},       {8, "STRING"},      {14, "COMPLEX64"},      {15, "COMPLEX128"}, {17, "FLOAT8E4M3FN"},
      {18, "FLOAT8E4M3FNUZ"}, {19, "FLOAT8E5M2"}, {20, "FLOAT8E5M2FNUZ"}, {21, "UINT4"},      {22, "INT4"}};
  std::string text = "data type " + std::to_string(dataType);
  for (auto [number, name] : names)
    if (number == dataType)
      text += std::string(" (") + name + ")";
  return text + ", expected FLOAT, DOUBLE, FLOAT16, BFLOAT16, BOOL, or integers of 8 to 64 bits";
}

Type OnnxFile::getElementType(MLIRContext *context, int32_t dataType) {
  Builder builder(context);
  switch (dataType) {
  case 1:
    return builder.getF32Type();
  case 2:
    return builder.getIntegerType(8, false);
  case 3:
    return builder.getIntegerType(8);
  case 4:
    return builder.getIntegerType(16, false);
  case 5:
    return builder.getIntegerType(16);
  case 6:
    return builder.getI32Type();
  case 7:
    return builder.getI64Type();
  case 9:
    return builder.getI1Type();
  case 10:
    return builder.getF16Type();
  case 11:
    return builder.getF64Type();
  case 12:
    return builder.getIntegerType(32, false);
  case 13:
    return builder.getIntegerType(64, false);
  case 16:
    return builder.getBF16Type();
  default:
    return Type();
  }
}

/// The number of values that a tensor lists in the fields of their types, outside raw_data.
static int64_t countListed(const onnxfile::Tensor &tensor) {
  return int64_t(tensor.float_data_size()) + tensor.int32_data_size() + tensor.int64_data_size() +
         tensor.double_data_size() + tensor.uint64_data_size();
}

static llvm::ArrayRef<int64_t> shapeOf(const onnxfile::Tensor &tensor) {
  return llvm::ArrayRef<int64_t>(tensor.dims().data(), tensor.dims_size());
}

/// The size of a tensor's values, or nothing where it cannot be counted.
static std::optional<uint64_t> bytesOf(const onnxfile::Tensor &tensor, Type type) {
  std::optional<int64_t> count = countElements(shapeOf(tensor));
  int64_t bytes;
  if (!count || llvm::MulOverflow<int64_t>(*count, llvm::divideCeil(type.getIntOrFloatBitWidth(), 8), bytes))
    return std::nullopt;
  return static_cast<uint64_t>(bytes);
}

bool OnnxFile::checkTensor(const onnxfile::Tensor &tensor, const InitializerBytes *bytes,
                           std::optional<StoredValues> &place) const {
  auto fail = [&] { return emitError(loc) << "tensor \"" << tensor.name() << "\" "; };
  Type type = getElementType(context, tensor.data_type());
  if (!type)
    return fail() << "is of " << describeDataType(tensor.data_type()), false;
  for (int64_t size : tensor.dims())
    if (size < 0)
      return fail() << "has a dimension of size " << size << ", expected none below 0", false;
  std::optional<uint64_t> needed = bytesOf(tensor, type);
  if (!needed)
    return fail() << "has more bytes than 63 bits can count", false;
  bool raw = bytes ? bytes->values.has_value() : tensor.has_raw_data();
  uint64_t rawSize = !raw ? 0 : bytes ? bytes->values->length : tensor.raw_data().size();
  int64_t listed = countListed(tensor);
  if (tensor.data_location() == 1) {
    if (raw || listed)
      return fail() << "has values both in the model and in an external file", false;
    return checkExternal(tensor, *needed, place.emplace());
  }
  if (raw && listed)
    return fail() << "has its values twice", false;
  if (raw && bytes && bytes->valuesField != 9 && !(bytes->valuesField == 4 ? type.isF32() : type.isF64()))
    return fail() << "of type " << type << " has its values in a field for another type", false;
  if (raw && rawSize != *needed)
    return fail() << "has " << rawSize << " bytes of data, expected " << *needed << " for its shape", false;
  if (!raw && listed != *countElements(shapeOf(tensor)))
    return fail() << "has " << listed << " values, expected " << *countElements(shapeOf(tensor)) << " for its shape",
           false;
  if (raw && bytes)
    place = StoredValues{fileName, static_cast<int64_t>(bytes->values->offset), false};
  return true;
}

/// Reads an external reference; where the values lie goes to `result`.
bool OnnxFile::checkExternal(const onnxfile::Tensor &tensor, uint64_t needed, StoredValues &result) const {
  auto fail = [&] { return emitError(loc) << "tensor \"" << tensor.name() << "\": "; };
  uint64_t offset = 0, length = needed;
  llvm::StringSet<> seen;
  for (const onnxfile::Entry &entry : tensor.external_data()) {
    if (!seen.insert(entry.key()).second)
      return fail() << "external data gives '" << printable(entry.key()) << "' twice", false;
    if (entry.key() == "location")
      result.file = entry.value();
    if (entry.key() != "offset" && entry.key() != "length")
      continue;
    std::optional<uint64_t> value = parseByteCount(entry.value());
    if (!value)
      return fail() << "external data has the " << entry.key() << " '" << printable(entry.value())
                    << "', expected a number of bytes",
             false;
    (entry.key() == "offset" ? offset : length) = *value;
  }
  if (!isCleanText(result.file))
    return fail() << "external file name \"" << printable(result.file) << "\" is not valid UTF-8 without NUL", false;
  if (length != needed)
    return fail() << "external data has " << length << " bytes, expected " << needed << " for the tensor's shape",
           false;
  std::string error;
  std::optional<ExternalFile> file = openExternalFile(folder, result.file, error);
  if (!file)
    return fail() << "external file '" << printable(result.file) << "' is refused: " << error, false;
  if (file->descriptor >= 0)
    close(file->descriptor);
  if (!file->absent && (offset > file->size || length > file->size - offset))
    return fail() << "external data reaches from byte " << offset << " over " << length << " bytes, but '"
                  << result.file << "' has " << file->size,
           false;
  result.offset = static_cast<int64_t>(offset);
  result.absent = file->absent;
  return true;
}

/// Of an attribute, or of a graph within the graph: its values are in the model, where they are read from.
bool OnnxFile::checkNestedTensor(const onnxfile::Tensor &tensor) const {
  std::optional<StoredValues> unused;
  if (tensor.data_location() != 1)
    return checkTensor(tensor, nullptr, unused);
  emitError(loc)
      << "tensor \"" << tensor.name()
      << "\" of a node, or of a graph within the graph, has its values in another file, expected them in the model";
  return false;
}

bool OnnxFile::checkTensors() {
  bool good = true;
  for (int i = 0; i < getGraph().initializer_size(); ++i)
    good &= checkTensor(getGraph().initializer(i), &parts.initializers[i], stored.emplace_back());
  forEachGraph(getGraph(), [&](const onnxfile::Graph &graph) {
    if (&graph != &getGraph())
      for (const onnxfile::Tensor &tensor : graph.initializer())
        good &= checkNestedTensor(tensor);
    for (const onnxfile::Node &node : graph.node())
      for (const onnxfile::Attribute &attribute : node.attribute())
        if (attribute.has_t())
          good &= checkNestedTensor(attribute.t());
  });
  return good;
}

std::optional<StoredValues> OnnxFile::locateInitializer(int index) const { return stored[index]; }

std::unique_ptr<llvm::MemoryBuffer> OnnxFile::mapValues(int index) const {
  const StoredValues &place = *stored[index];
  const onnxfile::Tensor &tensor = getGraph().initializer(index);
  if (tensor.data_location() != 1)
    return llvm::MemoryBuffer::getMemBuffer(
        buffer->getBuffer().substr(place.offset, parts.initializers[index].values->length), "", false);
  std::string error;
  std::optional<ExternalFile> file = openExternalFile(folder, place.file, error);
  if (!file || file->absent)
    return nullptr;
  llvm::scope_exit closeFile([&] { close(file->descriptor); });
  auto mapped =
      llvm::MemoryBuffer::getOpenFileSlice(llvm::sys::fs::convertFDToNativeFile(file->descriptor), place.file,
                                           *bytesOf(tensor, getElementType(context, tensor.data_type())), place.offset);
  return mapped ? std::move(*mapped) : nullptr;
}

std::optional<HostTensor> OnnxFile::readInitializer(int index) const {
  const onnxfile::Tensor &tensor = getGraph().initializer(index);
  if (!stored[index])
    return readTensor(tensor);
  std::unique_ptr<llvm::MemoryBuffer> bytes = mapValues(index);
  std::optional<HostTensor> values;
  if (bytes)
    values = HostTensor::fromBytes(getElementType(context, tensor.data_type()), shapeOf(tensor),
                                   llvm::ArrayRef<char>(bytes->getBufferStart(), bytes->getBufferSize()));
  if (!values)
    emitError(loc) << "tensor \"" << tensor.name()
                   << "\" is needed when compiling, but its values cannot be read from '" << stored[index]->file << "'";
  return values;
}

/// The bit pattern that int32_data holds for a 16-bit float type.
static HostElement decodeHalf(FloatType type, int32_t bits) {
  llvm::APFloat value(type.getFloatSemantics(), llvm::APInt(16, static_cast<uint16_t>(bits)));
  bool lost;
  value.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &lost);
  return HostElement::ofReal(value.convertToDouble());
}

std::optional<HostTensor> OnnxFile::readTensorFile(StringRef path) const {
  auto bytes = openInputFile(path, kMaxTextBytes);
  if (!bytes) {
    emitError(loc) << "cannot read the tensor in '" << path << "': " << llvm::toString(bytes.takeError());
    return std::nullopt;
  }
  onnxfile::Tensor tensor;
  std::optional<StoredValues> unused;
  if (!tensor.ParseFromArray((*bytes)->getBufferStart(), static_cast<int>((*bytes)->getBufferSize()))) {
    emitError(loc) << "'" << path << "' does not hold a tensor";
    return std::nullopt;
  }
  if (!checkTensor(tensor, nullptr, unused))
    return std::nullopt;
  return readTensor(tensor);
}

std::optional<GivenValue> OnnxFile::readValueFile(StringRef path, bool isOptional) const {
  auto bytes = openInputFile(path, kMaxTextBytes);
  if (!bytes) {
    emitError(loc) << "cannot read the value in '" << path << "': " << llvm::toString(bytes.takeError());
    return std::nullopt;
  }
  onnxfile::Maybe maybe;
  auto parse = [&](auto &message) {
    return message.ParseFromArray((*bytes)->getBufferStart(), static_cast<int>((*bytes)->getBufferSize()));
  };
  GivenValue given;
  given.isList = !isOptional;
  bool isRead = isOptional ? parse(maybe) : parse(*maybe.mutable_list());
  if (isRead && isOptional)
    given.isList = maybe.element_kind() == 3;
  bool isKnown =
      isRead && (!given.isList || maybe.list().element_kind() <= 1) && (given.isList || maybe.element_kind() <= 1);
  if (!isKnown) {
    emitError(loc) << "'" << path << "' does not hold a list of tensors, or an optional one";
    return std::nullopt;
  }
  auto add = [&](const onnxfile::Tensor &tensor) {
    std::optional<HostTensor> values = checkNestedTensor(tensor) ? readTensor(tensor) : std::nullopt;
    if (values)
      given.tensors.push_back(*values);
    return values.has_value();
  };
  bool isGood = given.isList || maybe.element_kind() == 0 || add(maybe.tensor());
  if (given.isList)
    for (const onnxfile::Tensor &tensor : maybe.list().tensor())
      isGood = isGood && add(tensor);
  return isGood ? std::optional(given) : std::nullopt;
}

std::optional<HostTensor> OnnxFile::readTensor(const onnxfile::Tensor &tensor) const {
  Type type = getElementType(context, tensor.data_type());
  auto floatType = dyn_cast<FloatType>(type);
  llvm::ArrayRef<int64_t> shape = shapeOf(tensor);
  if (tensor.has_raw_data())
    return HostTensor::fromBytes(type, shape, llvm::ArrayRef<char>(tensor.raw_data().data(), tensor.raw_data().size()));
  std::vector<HostElement> values;
  for (float value : tensor.float_data())
    values.push_back(floatType ? HostElement::ofReal(value) : HostElement::ofInteger(0));
  for (double value : tensor.double_data())
    values.push_back(floatType ? HostElement::ofReal(value) : HostElement::ofInteger(0));
  for (int32_t value : tensor.int32_data())
    values.push_back(floatType && floatType.getWidth() == 16 ? decodeHalf(floatType, value)
                                                             : HostElement::ofInteger(value));
  for (int64_t value : tensor.int64_data())
    values.push_back(HostElement::ofInteger(value));
  for (uint64_t value : tensor.uint64_data())
    values.push_back(HostElement::ofInteger(static_cast<int64_t>(value)));
  return HostTensor::fromElements(type, shape, std::move(values));
}

bool OnnxFile::initializerIsTransposeOf(int left, int right) const {
  const onnxfile::Tensor &a = getGraph().initializer(left), &b = getGraph().initializer(right);
  if (a.dims_size() != 2 || b.dims_size() != 2 || a.dims(0) != b.dims(1) || a.dims(1) != b.dims(0) ||
      a.data_type() != b.data_type() || !stored[left] || !stored[right])
    return false;
  std::unique_ptr<llvm::MemoryBuffer> bytesA = mapValues(left), bytesB = mapValues(right);
  if (!bytesA || !bytesB)
    return false;
  size_t width = bytesA->getBufferSize() / std::max<int64_t>(a.dims(0) * a.dims(1), 1);
  const char *rowsA = bytesA->getBufferStart(), *rowsB = bytesB->getBufferStart();
  for (int64_t row = 0; row < a.dims(0); ++row)
    for (int64_t column = 0; column < a.dims(1); ++column)
      if (std::memcmp(rowsA + (row * a.dims(1) + column) * width, rowsB + (column * b.dims(1) + row) * width, width) !=
          0)
        return false;
  return a.dims(0) > 0 && a.dims(1) > 0;
}

bool OnnxFile::initializersAreEqual(int left, int right) const {
  const onnxfile::Tensor &a = getGraph().initializer(left), &b = getGraph().initializer(right);
  if (a.data_type() != b.data_type() || shapeOf(a) != shapeOf(b) || !stored[left] || !stored[right])
    return false;
  std::unique_ptr<llvm::MemoryBuffer> bytesA = mapValues(left), bytesB = mapValues(right);
  return bytesA && bytesB && bytesA->getBuffer() == bytesB->getBuffer();
}

namespace {
/// The elements of two tensors of the same sizes but along one dimension, as bytes.
struct Laid {
  const char *whole, *part;
  int64_t wholeSize, partSize; // along the dimension
  size_t before, inner, width; // how many rows of these, bytes of one element of the dimension, and of an element

  /// Whether both have the same elements, and not all of one value, where the part begins at `offset` of the whole.
  bool agreeAt(int64_t offset) const {
    const int64_t first = std::max<int64_t>(0, offset), last = std::min(wholeSize, offset + partSize);
    const size_t bytes = static_cast<size_t>(last - first) * inner;
    const char *start = whole + static_cast<size_t>(first) * inner;
    bool isOneValue = true;
    for (size_t row = 0; row < before; ++row) {
      const char *mine = start + row * static_cast<size_t>(wholeSize) * inner;
      const char *other = part + (row * static_cast<size_t>(partSize) + static_cast<size_t>(first - offset)) * inner;
      if (std::memcmp(mine, other, bytes) != 0)
        return false;
      isOneValue =
          isOneValue && std::memcmp(mine, start, width) == 0 && std::memcmp(mine, mine + width, bytes - width) == 0;
    }
    return !isOneValue;
  }

  /// Whether the part tells nothing by itself, such as zeros, of which every place would have to be compared.
  bool isPartOfOneValue() const {
    return std::memcmp(part, part + width, before * static_cast<size_t>(partSize) * inner - width) == 0;
  }

  std::optional<Overlap> find(int64_t dim) const {
    std::optional<Overlap> found;
    if (isPartOfOneValue())
      return found;
    for (int64_t offset = 0; offset <= wholeSize - partSize; ++offset)
      if (agreeAt(offset)) {
        if (found)
          return std::nullopt;
        found = Overlap{dim, offset, true};
      }
    for (int64_t offset = 1 - partSize; !found && offset < wholeSize; ++offset)
      if ((offset < 0) == (offset + partSize < wholeSize) && agreeAt(offset)) // with one end, and not with both
        found = Overlap{dim, offset, false};
    return found;
  }
};
} // namespace

std::optional<Overlap> OnnxFile::findOverlap(int whole, int part) const {
  const onnxfile::Tensor &a = getGraph().initializer(whole), &b = getGraph().initializer(part);
  if (a.data_type() != b.data_type() || a.dims_size() != b.dims_size() || !stored[whole] || !stored[part])
    return std::nullopt;
  llvm::SmallVector<int> differing;
  for (int dim = 0; dim < a.dims_size(); ++dim)
    if (a.dims(dim) != b.dims(dim))
      differing.push_back(dim);
  std::unique_ptr<llvm::MemoryBuffer> bytesA = mapValues(whole), bytesB = mapValues(part);
  if (differing.size() > 1 || !bytesA || !bytesB || bytesA->getBufferSize() == 0 || bytesB->getBufferSize() == 0)
    return std::nullopt;
  for (int dim = 0; dim < a.dims_size(); ++dim) {
    if (!differing.empty() && dim != differing.front())
      continue;
    Laid laid{bytesA->getBufferStart(), bytesB->getBufferStart(), a.dims(dim), b.dims(dim), 1, 0, 0};
    laid.inner = laid.width = bytesA->getBufferSize() / static_cast<size_t>(*countElements(shapeOf(a)));
    for (int other = 0; other < a.dims_size(); ++other)
      (other < dim ? laid.before : laid.inner) *= other == dim ? 1 : static_cast<size_t>(a.dims(other));
    if (std::optional<Overlap> found = laid.find(dim))
      return found;
  }
  return std::nullopt;
}

bool OnnxFile::initializerRepeats(int index, int dim) const {
  const onnxfile::Tensor &tensor = getGraph().initializer(index);
  if (tensor.dims(dim) == 1)
    return true;
  std::unique_ptr<llvm::MemoryBuffer> bytes = stored[index] ? mapValues(index) : nullptr;
  if (!bytes || bytes->getBufferSize() == 0)
    return false;
  size_t step = bytes->getBufferSize();
  for (int before = 0; before <= dim; ++before)
    step /= static_cast<size_t>(tensor.dims(before));
  const char *first = bytes->getBufferStart();
  // What is one value everywhere is no table.
  const size_t width = bytes->getBufferSize() / static_cast<size_t>(*countElements(shapeOf(tensor)));
  if (std::memcmp(first, first + width, step - width) == 0)
    return false;
  for (int64_t at = 1; at < tensor.dims(dim); ++at)
    if (std::memcmp(first, first + at * step, step) != 0)
      return false;
  return true;
}
