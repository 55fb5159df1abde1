// Spelling of hyc ops.
#include "GraphText.h"

#include <algorithm>
#include <cstdio>

using namespace hyc::equivalence;

std::string GraphValue::type() const {
  std::string text = "tensor<";
  for (int64_t size : shape)
    text += std::to_string(size) + "x";
  return text + element + ">";
}

static std::string number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.9e", value);
  return text;
}

static std::string join(const std::vector<GraphValue> &values, std::string (*print)(const GraphValue &)) {
  std::string text;
  for (const GraphValue &value : values)
    text += (text.empty() ? "" : ", ") + print(value);
  return text;
}

static std::string identifier(const GraphValue &value) { return value.name; }
static std::string typeOf(const GraphValue &value) { return value.type(); }

std::string GraphText::nextId(const std::string &op) {
  return " {id = \"" + scope + "." + op.substr(op.find('.') + 1) + "_" + std::to_string(numIds++) + "\"} ";
}

std::string GraphText::parameter(const std::string &name, const Shape &shape, double mean, double stddev, bool frozen) {
  std::string symbol = scope + "." + name;
  symbols += "hyc.param @" + symbol + " : " + GraphValue{"", shape}.type() +
             " from #hyc.normal<mean = " + number(mean) + ", stddev = " + number(stddev) + ">" +
             (frozen ? " frozen" : "") + "\n";
  return symbol;
}

GraphValue GraphText::read(const std::string &symbol, const Shape &shape) {
  GraphValue result{nextName(), shape};
  body += "  " + result.name + " = hyc.read @" + symbol + nextId("hyc.read") + ": " + result.type() + "\n";
  return result;
}

GraphValue GraphText::argument(const std::string &name, const Shape &shape, const std::string &element) {
  GraphValue result{"%" + name, shape, element};
  arguments += (arguments.empty() ? "" : ", ") + result.name + ": " + result.type() + " {hyc.input = \"" + name +
               "\", hyc.source = \"token\"}";
  return result;
}

GraphValue GraphText::same(const std::string &op, const std::vector<GraphValue> &operands) {
  GraphValue result{nextName(), operands[0].shape, operands[0].element};
  body += "  " + result.name + " = " + op + " " + join(operands, identifier) + nextId(op) + ": " + result.type() + "\n";
  return result;
}

GraphValue GraphText::applySame(const std::string &op, const std::string &text, const GraphValue &operand) {
  GraphValue result{nextName(), operand.shape, operand.element};
  std::string spelled = text;
  spelled.replace(spelled.find("$0"), 2, operand.name);
  body += "  " + result.name + " = " + op + " " + spelled + nextId(op) + ": " + result.type() + "\n";
  return result;
}

GraphValue GraphText::apply(const std::string &op, const std::string &text, const std::vector<GraphValue> &operands,
                            const Shape &shape, const std::string &element) {
  return applyMany(op, text, operands, {{"", shape, element}})[0];
}

std::vector<GraphValue> GraphText::applyMany(const std::string &op, const std::string &text,
                                             const std::vector<GraphValue> &operands,
                                             const std::vector<GraphValue> &results) {
  std::vector<GraphValue> named = results;
  for (GraphValue &result : named)
    result.name = nextName();
  std::string spelled;
  for (size_t i = 0; i < text.size(); ++i)
    spelled += text[i] == '$' ? operands[text[++i] - '0'].name : std::string(1, text[i]);
  body += "  " + join(named, identifier) + " = " + op + " " + spelled + nextId(op) + ": (" + join(operands, typeOf) +
          ") -> (" + join(named, typeOf) + ")\n";
  return named;
}

GraphValue GraphText::constant(double value, const Shape &shape, const std::string &element) {
  GraphValue result{nextName(), shape, element};
  std::string spelled = element == "f32" ? number(value) : std::to_string(static_cast<int64_t>(value));
  body += "  " + result.name + " = hyc.constant" + nextId("hyc.constant") + "dense<" + spelled +
          "> : " + result.type() + "\n";
  return result;
}

GraphValue GraphText::iota(int64_t dim, const Shape &shape) {
  GraphValue result{nextName(), shape};
  body +=
      "  " + result.name + " = hyc.iota dim " + std::to_string(dim) + nextId("hyc.iota") + ": " + result.type() + "\n";
  return result;
}

GraphValue GraphText::einsum(const std::string &spec, const GraphValue &lhs, const GraphValue &rhs) {
  std::string left = spec.substr(0, spec.find(',')), right = spec.substr(left.size() + 1);
  std::string result = right.substr(right.find('>') + 1);
  right = right.substr(0, right.find('-'));
  Shape shape;
  for (char letter : result) {
    size_t at = left.find(letter);
    shape.push_back(at != std::string::npos ? lhs.shape[at] : rhs.shape[right.find(letter)]);
  }
  return apply("hyc.einsum", "\"" + spec + "\" $0, $1", {lhs, rhs}, shape);
}

GraphValue GraphText::scaled(const GraphValue &x, double factor) {
  return same("hyc.mul", {x, constant(factor, x.shape)});
}

GraphValue GraphText::broadcast(const GraphValue &x, const std::string &dims, const Shape &shape) {
  return apply("hyc.broadcast", "$0 " + dims, {x}, shape);
}

GraphValue GraphText::reduce(const std::string &kind, const GraphValue &x, const std::vector<int64_t> &dims) {
  Shape shape;
  std::string list;
  for (size_t dim = 0; dim < x.shape.size(); ++dim)
    if (std::find(dims.begin(), dims.end(), static_cast<int64_t>(dim)) == dims.end())
      shape.push_back(x.shape[dim]);
  for (int64_t dim : dims)
    list += (list.empty() ? "" : ", ") + std::to_string(dim);
  return apply("hyc.reduce", kind + " $0 [" + list + "]", {x}, shape);
}

std::vector<GraphValue> GraphText::beginScan(const std::vector<GraphValue> &init,
                                             const std::vector<GraphValue> &sequences,
                                             const std::vector<GraphValue> &invariants) {
  scan = {body, init, sequences, invariants, ""};
  body.clear();
  std::vector<GraphValue> step;
  for (const std::vector<GraphValue> *values : {&init, &sequences, &invariants})
    for (const GraphValue &value : *values) {
      step.push_back({nextName(), value.shape, value.element});
      if (values == &sequences)
        step.back().shape.erase(step.back().shape.begin());
    }
  scan.step = join(step, [](const GraphValue &value) { return value.name + ": " + value.type(); });
  return step;
}

std::vector<GraphValue> GraphText::endScan(bool isReverse, const std::vector<GraphValue> &yielded) {
  const int64_t steps = scan.sequences.front().shape.front();
  std::vector<GraphValue> results, operands = scan.init;
  for (size_t index = 0; index < yielded.size(); ++index) {
    results.push_back({nextName(), yielded[index].shape, yielded[index].element});
    if (index >= scan.init.size())
      results.back().shape.insert(results.back().shape.begin(), steps);
  }
  operands.insert(operands.end(), scan.sequences.begin(), scan.sequences.end());
  operands.insert(operands.end(), scan.invariants.begin(), scan.invariants.end());
  body = scan.before + "  " + join(results, identifier) + " = hyc.scan " + std::to_string(steps) +
         (isReverse ? " reverse" : "") + " init(" + join(scan.init, identifier) + ") over(" +
         join(scan.sequences, identifier) + ") with(" + join(scan.invariants, identifier) + ") attributes" +
         nextId("hyc.scan") + ": (" + join(operands, typeOf) + ") -> (" + join(results, typeOf) + ") {\n  ^bb0(" +
         scan.step + "):\n" + body + "  hyc.yield " + join(yielded, identifier) + " : " + join(yielded, typeOf) +
         "\n  }\n";
  return results;
}

std::string GraphText::finish(const std::vector<GraphValue> &results) const {
  return symbols + "hyc.func @train(" + arguments + ") -> (" + join(results, typeOf) + ") {\n" + body +
         "  hyc.return " + join(results, identifier) + " : " + join(results, typeOf) + "\n}\n";
}
