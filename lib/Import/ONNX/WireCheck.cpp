// The protobuf encoding is a sequence of (tag, payload); which payloads are messages again is in the table below.
#include "WireCheck.h"
#include "llvm/ADT/Twine.h"

using namespace hyc::onnx;
using llvm::StringRef;
using llvm::Twine;

namespace {
enum class Kind { Model, Graph, Node, Attribute, Tensor, Value, Type, TensorType, Shape, Plain, Function, Holder };

struct Nesting {
  Kind parent;
  unsigned field;
  Kind child;
  const char *name;
};

constexpr Nesting kNestings[] = {
    {Kind::Model, 8, Kind::Plain, "opset_import"}, {Kind::Model, 14, Kind::Plain, "metadata"},
    {Kind::Model, 25, Kind::Function, "function"}, {Kind::Graph, 1, Kind::Node, "node"},
    {Kind::Graph, 5, Kind::Tensor, "initializer"}, {Kind::Graph, 11, Kind::Value, "input"},
    {Kind::Graph, 12, Kind::Value, "output"},      {Kind::Graph, 13, Kind::Value, "value_info"},
    {Kind::Graph, 16, Kind::Plain, "metadata"},    {Kind::Node, 5, Kind::Attribute, "attribute"},
    {Kind::Node, 9, Kind::Plain, "metadata"},      {Kind::Attribute, 5, Kind::Tensor, "tensor"},
    {Kind::Attribute, 6, Kind::Graph, "graph"},    {Kind::Attribute, 10, Kind::Tensor, "tensor"},
    {Kind::Attribute, 11, Kind::Graph, "graph"},   {Kind::Attribute, 14, Kind::Type, "type"},
    {Kind::Attribute, 15, Kind::Type, "type"},     {Kind::Tensor, 13, Kind::Plain, "external_data"},
    {Kind::Value, 2, Kind::Type, "type"},          {Kind::Value, 4, Kind::Plain, "metadata"},
    {Kind::Type, 1, Kind::TensorType, "tensor"},   {Kind::Type, 4, Kind::Holder, "sequence"},
    {Kind::Type, 9, Kind::Holder, "optional"},     {Kind::Holder, 1, Kind::Type, "type"},
    {Kind::TensorType, 2, Kind::Shape, "shape"},   {Kind::Shape, 1, Kind::Plain, "dim"},
    {Kind::Function, 7, Kind::Node, "node"},       {Kind::Function, 11, Kind::Attribute, "attribute"},
};

const Nesting *findNesting(Kind parent, unsigned field) {
  for (const Nesting &nesting : kNestings)
    if (nesting.parent == parent && nesting.field == field)
      return &nesting;
  return nullptr;
}

struct Field {
  unsigned number = 0;
  unsigned wireType = 0;
  uint64_t begin = 0;   // of the tag
  uint64_t payload = 0; // of what follows tag and length
  uint64_t end = 0;
};

class Walker {
public:
  Walker(StringRef bytes, std::string &error) : bytes(bytes), error(error) {}

  bool walkModel(ModelBytes &result) {
    return forEachField(0, bytes.size(), "the model", [&](const Field &field) {
      if (field.number != 7) {
        result.modelPieces.push_back({field.begin, field.end - field.begin});
        return walkChild(Kind::Model, field, 1);
      }
      if (field.wireType != 2)
        return fail(field.begin, "the graph is not a message");
      if (result.hasGraph)
        return fail(field.begin, "a second graph begins");
      result.hasGraph = true;
      return walkGraph(field.payload, field.end, result);
    });
  }

private:
  bool fail(uint64_t position, const Twine &what) {
    error = ("at byte " + Twine(position) + ": " + what).str();
    return false;
  }

  bool readVarint(uint64_t &position, uint64_t end, uint64_t &value, StringRef where) {
    value = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
      if (position >= end)
        return end == bytes.size() ? fail(end, "the file ends inside " + where)
                                   : fail(position, where + " ends inside a number");
      uint8_t byte = bytes[position++];
      if (shift < 64)
        value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (!(byte & 0x80))
        return true;
    }
    return fail(position, "a number of more than ten bytes in " + where);
  }

  bool readField(uint64_t &position, uint64_t end, StringRef where, Field &field) {
    field.begin = position;
    uint64_t tag, length;
    if (!readVarint(position, end, tag, where))
      return false;
    field.number = static_cast<unsigned>(tag >> 3), field.wireType = tag & 7;
    if (tag >> 32 || field.number == 0)
      return fail(field.begin, where + " has a field with the impossible tag " + Twine(tag));
    field.payload = position;
    switch (field.wireType) {
    case 0:
      field.end = position;
      return readVarint(field.end, end, length, where) && (position = field.end, true);
    case 1:
      length = 8;
      break;
    case 5:
      length = 4;
      break;
    case 2:
      if (!readVarint(position, end, length, where))
        return false;
      break;
    default:
      return fail(field.begin, "field " + Twine(field.number) + " of " + where + " has the unknown encoding " +
                                   Twine(field.wireType));
    }
    field.payload = position;
    if (length > bytes.size() - position)
      return fail(bytes.size(), "the file ends inside " + where + ", whose field " + Twine(field.number) + " needs " +
                                    Twine(length) + " bytes from byte " + Twine(position) + " on");
    if (length > end - position)
      return fail(position, "field " + Twine(field.number) + " needs " + Twine(length) + " bytes, but " + where +
                                " ends after " + Twine(end - position));
    field.end = position += length;
    return true;
  }

  template <typename Visit> bool forEachField(uint64_t position, uint64_t end, StringRef where, Visit visit) {
    while (position < end) {
      Field field;
      if (!readField(position, end, where, field) || !visit(field))
        return false;
    }
    return true;
  }

  bool walkChild(Kind parent, const Field &field, unsigned depth) {
    const Nesting *nesting = findNesting(parent, field.number);
    if (!nesting)
      return true;
    if (field.wireType != 2)
      return fail(field.begin, Twine(nesting->name) + " is not a message");
    if (depth > kMaxDepth)
      return fail(field.begin, "messages are nested more than " + Twine(kMaxDepth) + " levels deep");
    return forEachField(field.payload, field.end, nesting->name,
                        [&](const Field &inner) { return walkChild(nesting->child, inner, depth + 1); });
  }

  bool walkGraph(uint64_t begin, uint64_t end, ModelBytes &result) {
    return forEachField(begin, end, "the graph", [&](const Field &field) {
      if (field.number != 5) {
        result.graphPieces.push_back({field.begin, field.end - field.begin});
        return walkChild(Kind::Graph, field, 2);
      }
      if (field.wireType != 2)
        return fail(field.begin, "initializer is not a message");
      return walkInitializer(field.payload, field.end, result.initializers.emplace_back());
    });
  }

  bool walkInitializer(uint64_t begin, uint64_t end, InitializerBytes &result) {
    return forEachField(begin, end, "initializer", [&](const Field &field) {
      bool holdsValues = field.wireType == 2 && (field.number == 4 || field.number == 9 || field.number == 10);
      if (holdsValues && result.values)
        return fail(field.begin, "the values of an initializer are given twice");
      if (holdsValues)
        result.values = ByteRange{field.payload, field.end - field.payload}, result.valuesField = field.number;
      else
        result.pieces.push_back({field.begin, field.end - field.begin});
      return walkChild(Kind::Tensor, field, 3);
    });
  }

  StringRef bytes;
  std::string &error;
};
} // namespace

std::optional<ModelBytes> hyc::onnx::locateModel(StringRef bytes, std::string &error) {
  ModelBytes result;
  if (!Walker(bytes, error).walkModel(result))
    return std::nullopt;
  return result;
}
