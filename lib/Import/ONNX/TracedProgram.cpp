// The signature is text, a line a placeholder: "p_fc_weight: PARAMETER target='fc.weight'". A call is text, too:
// "%y : [num_users=1] = call_function[target=torch.ops.aten.linear.default](args = (%x, %p_fc_weight), kwargs = {})".
#include "TracedProgram.h"

using namespace hyc;
using namespace hyc::onnx;
using llvm::StringRef;

static constexpr StringRef kSignature = "pkg.torch.export.ExportedProgram.graph_signature";
static constexpr StringRef kCall = "pkg.torch.onnx.fx_node";

template <typename Message> static StringRef textOf(const Message &message, StringRef key) {
  for (const onnxfile::Entry &entry : message.metadata())
    if (entry.key() == key)
      return entry.value();
  return "";
}

/// What stands between `open` and `close`; the text goes on behind it.
static StringRef takeBetween(StringRef &text, StringRef open, StringRef close) {
  auto [before, rest] = text.split(open);
  auto [found, after] = rest.split(close);
  text = after;
  return found;
}

/// Up to the parenthesis that closes the list, split at its commas.
static llvm::SmallVector<StringRef> parseArguments(StringRef text) {
  llvm::SmallVector<StringRef> arguments;
  int depth = 0;
  size_t begin = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    const bool ends = depth == 0 && (c == ',' || c == ')');
    if (ends) {
      if (StringRef argument = text.slice(begin, at).trim(); !argument.empty())
        arguments.push_back(argument);
      begin = at + 1;
    }
    if (ends && c == ')')
      break;
    depth += c == '(' || c == '[' ? 1 : c == ')' || c == ']' ? -1 : 0;
  }
  return arguments;
}

std::optional<TracedCall> hyc::onnx::tracedCallOf(const onnxfile::Node &node) {
  StringRef text = textOf(node, kCall);
  TracedCall call;
  call.target = takeBetween(text, "[target=torch.ops.", "]");
  if (call.target.empty() || !text.consume_front("(args = ("))
    return std::nullopt;
  call.arguments = parseArguments(text);
  return call;
}

StringRef hyc::onnx::biasOf(const TracedCall &call) {
  static constexpr struct {
    StringRef target;
    size_t position;
  } kBiases[] = {
      {"aten.linear.default", 2},           {"aten.addmm.default", 0},          {"aten.convolution.default", 2},
      {"aten.conv1d.default", 2},           {"aten.conv2d.default", 2},         {"aten.conv3d.default", 2},
      {"aten.conv1d.padding", 2},           {"aten.conv2d.padding", 2},         {"aten.conv3d.padding", 2},
      {"aten.conv_transpose1d.default", 2}, {"aten.conv_transpose2d.input", 2}, {"aten.conv_transpose3d.input", 2}};
  for (const auto &each : kBiases)
    if (call.target == each.target && each.position < call.arguments.size())
      return call.arguments[each.position];
  return "";
}

std::optional<int64_t> hyc::onnx::paddingRowOf(const TracedCall &call) {
  int64_t row;
  if (call.target != "aten.embedding.default" || call.arguments.size() < 3 || call.arguments[2].getAsInteger(10, row) ||
      row < 0)
    return std::nullopt;
  return row;
}

TracedProgram::TracedProgram(const onnxfile::Graph &graph) {
  llvm::SmallVector<StringRef> lines;
  textOf(graph, kSignature).split(lines, '\n');
  for (StringRef line : lines) {
    auto [placeholder, rest] = line.split(": PARAMETER ");
    StringRef target = takeBetween(rest, "target='", "'");
    if (!target.empty()) {
      parameters[placeholder] = target;
      names[target] = 0;
    }
  }
}

StringRef TracedProgram::parameterOf(StringRef argument) const {
  return argument.consume_front("%") ? parameters.lookup(argument) : StringRef();
}

llvm::SmallVector<StringRef> TracedProgram::parametersOf(const TracedCall &call) const {
  llvm::SmallVector<StringRef> found;
  for (StringRef argument : call.arguments)
    if (StringRef name = parameterOf(argument); !name.empty())
      found.push_back(name);
  return found;
}
