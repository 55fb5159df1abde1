// What operators rely on is checked before their code runs: for each of them, every way of breaking a rule of the table
// gives one error, and no model of small inputs, whatever their ranks and sizes, gives anything but a module or one.
#include "OnnxTesting.h"
#include "lib/Import/ONNX/Importer.h"
#include <cstdlib>
#include <random>

using namespace hyc;
using namespace hyc::onnx;

namespace {
/// The operator's name and domain, from its name in the table.
onnxfile::Node &addNode(ModelBuilder &model, llvm::StringRef key, const std::vector<std::string> &inputs,
                        int outputs = 1) {
  auto [domain, name] = key.contains(':') ? key.rsplit(':') : std::pair(llvm::StringRef(), key);
  std::vector<std::string> results{"y"};
  for (int i = 1; i < outputs; ++i)
    results.push_back("y" + std::to_string(i));
  onnxfile::Node &node = model.node(name.str(), inputs, results);
  node.set_domain(domain.str());
  return node;
}

int32_t typeFor(const OperandRule &rule) {
  return rule.elements == OperandRule::Elements::Integer   ? kI64
         : rule.elements == OperandRule::Elements::Boolean ? kBool
                                                           : kF32;
}

struct Input {
  int32_t type = kF32;
  std::vector<int64_t> shape;
  bool isConstant = false;
  int64_t value = 1;
};

void addInput(ModelBuilder &model, const std::string &name, const Input &input) {
  if (!input.isConstant) {
    model.input(name, static_cast<DataType>(input.type), {});
    for (int64_t size : input.shape)
      model.graph().mutable_input()->rbegin()->mutable_type()->mutable_tensor()->mutable_shape()->add_dim()->set_size(
          size);
    return;
  }
  onnxfile::Tensor &tensor = *model.graph().add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(input.type);
  tensor.mutable_dims()->Add(input.shape.begin(), input.shape.end());
  for (int64_t i = 0; i < countElements(input.shape).value_or(0); ++i)
    if (input.type == kF32)
      tensor.add_float_data(static_cast<float>(input.value));
    else if (input.type == kI64)
      tensor.add_int64_data(input.value);
    else
      tensor.add_int32_data(static_cast<int32_t>(input.value));
}

std::vector<int64_t> shapeFor(const OperandRule &rule) {
  return rule.isOne ? std::vector<int64_t>{} : std::vector<int64_t>(std::max<int64_t>(rule.leastRank, 0), 2);
}

/// Whether inputs alone can be as the operator wants them; a list of tensors has to be made.
bool takesTensors(const OperandRules &rules) {
  return llvm::all_of(rules.rules, [](const OperandRule &rule) { return rule.form == OperandRule::Form::Tensor; });
}

/// Visits every input of every operator.
void forEachRule(llvm::function_ref<void(llvm::StringRef, const OperandRules &, size_t, const OperandRule &)> visit) {
  for (const auto &entry : allOperators())
    for (auto [index, rule] : llvm::enumerate(entry.second.operands.rules))
      if (takesTensors(entry.second.operands))
        visit(entry.first(), entry.second.operands, index, rule);
}

/// A model of one node, each input of which is as its rule wants but for one that `change` makes another of.
template <typename Change> Imported importChanged(llvm::StringRef key, const OperandRules &rules, Change change) {
  ModelBuilder model;
  std::vector<std::string> names;
  for (auto [i, rule] : llvm::enumerate(rules.rules)) {
    Input input{typeFor(rule), shapeFor(rule), rule.isOne};
    bool given = change(i, rule, input);
    names.push_back(given ? "x" + std::to_string(i) : "");
    if (given)
      addInput(model, names.back(), input);
  }
  addNode(model, key, names);
  model.output("y");
  return importModel(model);
}

std::string describe(size_t index, const OperandRule &rule) {
  return "input " + std::to_string(index) + " (\"" + rule.name.str() + "\")";
}

TEST(OperandRules, tell_what_is_left_out) {
  forEachRule([](llvm::StringRef key, const OperandRules &rules, size_t left, const OperandRule &rule) {
    if (rule.requiredFrom <= 18)
      expectError(importChanged(key, rules, [&](size_t i, const OperandRule &, Input &) { return i != left; }),
                  {"\"y\" (", "leaves out " + describe(left, rule)});
  });
}

template <typename Change>
void expectRefusal(llvm::StringRef key, const OperandRules &rules, size_t changed, const std::string &expected,
                   Change change) {
  Imported imported = importChanged(key, rules, [&](size_t i, const OperandRule &, Input &input) {
    if (i == changed)
      change(input);
    return true;
  });
  expectError(imported, {"has " + describe(changed, rules.rules[changed]), expected});
}

TEST(OperandRules, tell_what_has_too_few_dimensions) {
  forEachRule([](llvm::StringRef key, const OperandRules &rules, size_t changed, const OperandRule &rule) {
    if (rule.leastRank > 0)
      expectRefusal(key, rules, changed, "dimension", [&](Input &input) { input.shape.assign(rule.leastRank - 1, 2); });
  });
}

TEST(OperandRules, tell_what_is_empty) {
  forEachRule([](llvm::StringRef key, const OperandRules &rules, size_t changed, const OperandRule &rule) {
    if (rule.empty == OperandRule::Empty::Never)
      expectRefusal(key, rules, changed, rule.isOne ? "expected one number" : "expected at least one element",
                    [&](Input &input) {
                      input.isConstant = true;
                      input.shape.assign(std::max<int64_t>(rule.leastRank, 1), 0);
                    });
  });
}

TEST(OperandRules, tell_what_holds_other_elements) {
  forEachRule([](llvm::StringRef key, const OperandRules &rules, size_t changed, const OperandRule &rule) {
    if (rule.elements != OperandRule::Elements::Any)
      expectRefusal(key, rules, changed, "expected ",
                    [&](Input &input) { input.type = rule.elements == OperandRule::Elements::Real ? kI64 : kF32; });
  });
}

TEST(OperandRules, tell_what_is_one_too_many) {
  for (const auto &entry : allOperators()) {
    const OperandRules &rules = entry.second.operands;
    if (rules.repeatsLast)
      continue;
    ModelBuilder model;
    model.input("x", kF32, {2});
    addNode(model, entry.first(), std::vector<std::string>(rules.rules.size() + 1, "x"));
    model.output("y");
    expectError(importModel(model), {"has " + std::to_string(rules.rules.size() + 1) + " input", ", expected"});
  }
}

/// Attributes that some operator asks for by an integer, a list of them, or a text.
void addAttributes(std::mt19937 &random, onnxfile::Node &node) {
  auto pick = [&](auto &&...values) {
    auto list = {static_cast<int64_t>(values)...};
    return *(list.begin() + random() % list.size());
  };
  for (const char *name : {"axis", "group", "num_groups", "to", "batch_dims", "keepdims", "blocksize", "size",
                           "reverse", "ceil_mode", "count_include_pad", "batch_axis", "time_axis", "transA", "layout"})
    if (random() % 4 == 0)
      ModelBuilder::setInt(node, name, pick(-3, -1, 0, 1, 1, 2, 6, 7, int64_t(1) << 40));
  for (const char *name :
       {"kernel_shape", "strides", "pads", "dilations", "axes", "perm", "output_padding", "output_shape", "split"})
    if (random() % 3 == 0) {
      std::vector<int64_t> values(random() % 5);
      for (int64_t &value : values)
        value = pick(-1, 0, 1, 1, 2, 3, 1 << 20, int64_t(1) << 40);
      ModelBuilder::setInts(node, name, values);
    }
  for (auto [name, values] : {std::pair("auto_pad", std::vector<const char *>{"SAME_UPPER", "SAME_LOWER", "VALID"}),
                              {"mode", {"reflect", "edge", "wrap", "linear", "cubic", "CRD"}},
                              {"reduction", {"add", "mul", "none", "sum"}},
                              {"equation", {"ij,jk->ik", "ii->i", "...i->...", "i,i", "ij->ji"}}})
    if (random() % 3 == 0) {
      onnxfile::Attribute &attribute = *node.add_attribute();
      attribute.set_name(name);
      attribute.set_type(3);
      attribute.set_s(values[random() % values.size()]);
    }
}

/// Graphs for each operator; more where HYC_GRAPHS says so, as a run of its own.
int graphsEach() {
  const char *given = std::getenv("HYC_GRAPHS");
  return given ? std::atoi(given) : 24;
}

/// Whatever comes in: a module or an error, which the harness holds every import to.
TEST(OperandRules, keep_what_does_not_fit_from_every_operator) {
  std::mt19937 random(14 + static_cast<unsigned>(graphsEach()));
  const int64_t sizes[] = {0, 1, 1, 2, 2, 3, 4, 6, int64_t(1) << 21, int64_t(1) << 33, int64_t(1) << 40};
  for (const auto &entry : allOperators())
    for (int round = 0; round < graphsEach(); ++round) {
      ModelBuilder model(static_cast<int64_t>(random() % 2 ? 18 : 7 + random() % 17));
      std::vector<std::string> names;
      const OperandRules &rules = entry.second.operands;
      size_t count = rules.rules.size() + (rules.repeatsLast ? random() % 4 : 0);
      int64_t tensorRank = random() % 6;
      for (size_t i = 0; i < count; ++i) {
        const OperandRule &rule = rules.rules[std::min(i, rules.rules.size() - 1)];
        Input input{random() % 8 ? typeFor(rule) : kI64, shapeFor(rule), rule.isOne || random() % 3 == 0};
        if (rule.mostRank != rule.leastRank && !rule.isOne && random() % 4)
          input.shape.assign(std::min<int64_t>(tensorRank, rule.mostRank), 2);
        for (int64_t &size : input.shape)
          size = random() % 4 ? 2 : sizes[random() % (input.isConstant ? 8 : std::size(sizes))];
        input.value = static_cast<int64_t>(random() % 6) - 2;
        bool given = random() % 12 != 0;
        names.push_back(given ? "x" + std::to_string(i) : "");
        if (given)
          addInput(model, names.back(), input);
      }
      addAttributes(random, addNode(model, entry.first(), names, 1 + random() % 2));
      model.output("y");
      SCOPED_TRACE(entry.first().str() + " " + std::to_string(round));
      importModel(model);
    }
}
} // namespace
