// aten's padding. torch names pairs from the last dimension on, ONNX all beginnings, then all ends.
#include "Translator.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"

#include <limits>

using namespace hyc::torchexport;

namespace {
/// What is less than nothing is cut off.
Name cutOff(NodeTranslation &node, Name value, std::vector<int64_t> &begins, std::vector<int64_t> &ends) {
  auto isNegative = [](int64_t size) { return size < 0; };
  if (llvm::none_of(begins, isNegative) && llvm::none_of(ends, isNegative))
    return value;
  std::vector<int64_t> from, to;
  for (size_t dim = 0; dim < begins.size(); ++dim) {
    from.push_back(std::max<int64_t>(-begins[dim], 0));
    to.push_back(ends[dim] < 0 ? ends[dim] : std::numeric_limits<int64_t>::max());
    begins[dim] = std::max<int64_t>(begins[dim], 0);
    ends[dim] = std::max<int64_t>(ends[dim], 0);
  }
  return node.emit("Slice", {value, node.constant(from), node.constant(to)});
}

void padBy(NodeTranslation &node, llvm::StringRef mode, const Name &value) {
  const int64_t rank = node.tensorRank("self");
  std::vector<int64_t> sizes = node.integers(node.has("pad") ? "pad" : "padding");
  std::vector<int64_t> begins(rank, 0), ends(rank, 0);
  if (sizes.size() % 2 != 0 || static_cast<int64_t>(sizes.size()) > 2 * rank) {
    node.error() << "pads by " << sizes.size() << " numbers, expected two a dimension, of at most " << rank;
    return;
  }
  constexpr int64_t kMost = int64_t{1} << 40;
  for (int64_t size : sizes)
    if (size < -kMost || size > kMost) {
      node.error() << "pads by " << size << " elements, expected at most " << kMost;
      return;
    }
  for (size_t i = 0; i + 1 < sizes.size(); i += 2) {
    begins[rank - 1 - static_cast<int64_t>(i / 2)] = sizes[i];
    ends[rank - 1 - static_cast<int64_t>(i / 2)] = sizes[i + 1];
  }
  Name cut = cutOff(node, node.tensor("self"), begins, ends);
  std::vector<int64_t> all = begins;
  all.insert(all.end(), ends.begin(), ends.end());
  std::vector<Name> inputs{cut, node.constant(all)};
  if (!value.empty())
    inputs.push_back(value);
  node.finish(node.emit("Pad", inputs, {{}, {}, {}, {{"mode", mode.str()}}}));
}

void padWithValue(NodeTranslation &node) {
  ScalarType type = node.resultMeta().type;
  padBy(node, "constant", node.has("value") ? node.operand("value", type) : node.constant(type, 0));
}

void pad(NodeTranslation &node) {
  std::string mode = node.text("mode", "constant");
  if (mode == "constant")
    return padWithValue(node);
  llvm::StringRef known = llvm::StringSwitch<llvm::StringRef>(mode)
                              .Case("reflect", "reflect")
                              .Case("replicate", "edge")
                              .Case("circular", "wrap")
                              .Default("");
  if (known.empty())
    node.error() << "pads in mode \"" << mode << "\", expected constant, reflect, replicate or circular";
  else
    padBy(node, known, "");
}

void reflect(NodeTranslation &node) { padBy(node, "reflect", ""); }
void replicate(NodeTranslation &node) { padBy(node, "edge", ""); }
} // namespace

void hyc::torchexport::addPadding(TranslationTable &table) {
  table["aten.pad.default"] = pad;
  table["aten.constant_pad_nd.default"] = padWithValue;
  for (const char *dims : {"1d", "2d", "3d"}) {
    table[std::string("aten.reflection_pad") + dims + ".default"] = reflect;
    table[std::string("aten.replication_pad") + dims + ".default"] = replicate;
  }
}
