// The JSON of schema 8 of torch/_export/serde, as little of it as an archive has to have.
#include "ArchiveDraft.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <array>
#include <cstring>

using namespace hyc::fuzzing;
using llvm::StringRef;
namespace json = llvm::json;

static int64_t dtypeOf(char type) { return type == 'i' || type == 's' ? 5 : type == 'b' ? 12 : type == 'z' ? 10 : 7; }

static json::Object metaOf(char type, const std::vector<int64_t> &shape, bool needsGradient) {
  json::Array list, strides;
  int64_t stride = 1;
  for (size_t dim = shape.size(); dim-- > 0; stride *= shape[dim])
    strides.insert(strides.begin(), json::Object{{"as_int", stride}});
  for (int64_t size : shape)
    list.push_back(json::Object{{"as_int", size}});
  return json::Object{{"dtype", dtypeOf(type)},
                      {"sizes", std::move(list)},
                      {"requires_grad", needsGradient},
                      {"device", json::Object{{"type", "cpu"}, {"index", nullptr}}},
                      {"strides", std::move(strides)},
                      {"storage_offset", json::Object{{"as_int", 0}}},
                      {"layout", 7}};
}

static json::Object tensorArgument(const std::string &name) { return json::Object{{"name", name}}; }

static json::Object tensor(const std::string &name) { return json::Object{{"as_tensor", tensorArgument(name)}}; }

static json::Object argument(const std::string &name, json::Value value) {
  return json::Object{{"name", name}, {"arg", std::move(value)}, {"kind", 1}};
}

ArchiveDraft::ArchiveDraft(const ArchiveRecipe &recipe, Random &random) : random(random) {
  addOperator(recipe);
  addLoss(recipe);
}

std::vector<int64_t> ArchiveDraft::shapeOf(StringRef list) {
  std::vector<int64_t> shape;
  llvm::SmallVector<StringRef> parts;
  list.split(parts, ',', -1, false);
  for (StringRef part : parts) {
    int64_t size = 0;
    if (part.getAsInteger(10, size))
      size = sizes.try_emplace(part.front(), random.between(1, 4)).first->second;
    shape.push_back(size);
  }
  return shape;
}

std::string ArchiveDraft::addStored(const std::string &name, char type, const std::vector<int64_t> &shape,
                                    bool isParameter, int64_t least, int64_t most) {
  std::string bytes, path = "weight_" + std::to_string(stored.size());
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  for (int64_t i = 0; i < count; ++i) {
    float real = 0.5f + 0.125f * static_cast<float>(random.below(8));
    int64_t integer = random.between(least, most);
    if (type == 'b')
      bytes.push_back(static_cast<char>(random.below(2)));
    else if (type == 'i')
      bytes.append(reinterpret_cast<const char *>(&integer), sizeof integer);
    else
      bytes.append(reinterpret_cast<const char *>(&real), sizeof real);
  }
  stored.emplace_back("data/weights/" + path, bytes);
  std::string kind = isParameter ? "parameter" : "buffer";
  inputs.push_back(tensor(name));
  json::Object spec{{"arg", tensorArgument(name)}, {kind + "_name", "m." + name}};
  if (!isParameter)
    spec["persistent"] = true;
  inputSpecs.push_back(json::Object{{kind, std::move(spec)}});
  values[name] = metaOf(type, shape, isParameter);
  weights["m." + name] = json::Object{{"path_name", path},
                                      {"is_param", isParameter},
                                      {"use_pickle", false},
                                      {"tensor_meta", metaOf(type, shape, isParameter)}};
  return name;
}

std::string ArchiveDraft::addInput(const std::string &name, char type, const std::vector<int64_t> &shape) {
  inputs.push_back(tensor(name));
  inputSpecs.push_back(json::Object{{"user_input", json::Object{{"arg", tensor(name)}}}});
  values[name] = metaOf(type, shape, false);
  return name;
}

/// The first tensor of samples is the data times a parameter, so that there is a gradient to give.
std::string ArchiveDraft::addTensor(char type, const std::vector<int64_t> &shape, int64_t least, int64_t most) {
  if (type == 'd')
    return addInput(newName(), 'f', first = shape);
  if (type == 'z') { // made of pairs
    std::vector<int64_t> pairs = shape;
    pairs.push_back(2);
    std::string from = addTensor('f', pairs, least, most), name = newName();
    values[name] = metaOf(type, shape, false);
    addNode("aten.view_as_complex.default", json::Array{argument("self", tensor(from))}, json::Array{tensor(name)});
    return name;
  }
  if (type != 'f' || shape.empty() || shape.front() != sizes['n'])
    return addStored(newName(), type, shape, type == 'f' && !shape.empty(), least, most);
  if (!hidden.empty())
    return random.oneIn(2) ? hidden == "h" && shape == first ? hidden : addInput(newName(), type, shape)
                           : addInput(newName(), type, shape);
  first = shape;
  addInput("x", type, shape);
  std::vector<int64_t> width(shape.begin() + 1, shape.end());
  if (width.empty())
    width.push_back(1);
  addStored("w", type, width, true, 0, 0);
  values["h"] = metaOf(type, shape, false);
  hidden = "h";
  addNode("aten.mul.Tensor", json::Array{argument("self", tensor("x")), argument("other", tensor("w"))},
          json::Array{tensor("h")});
  return hidden;
}

void ArchiveDraft::addNode(const std::string &target, json::Array arguments, json::Array outputs) {
  std::string prefix = StringRef(target).starts_with("_operator") ? "" : "torch.ops.";
  nodes.push_back(json::Object{{"target", prefix + target},
                               {"inputs", std::move(arguments)},
                               {"outputs", std::move(outputs)},
                               {"metadata", json::Object{}},
                               {"name", "node" + std::to_string(nodes.size())}});
}

json::Value ArchiveDraft::argumentOf(StringRef kind) {
  bool hasHoles = kind.consume_front("o");
  char letter = kind.front();
  auto range = [&](StringRef text, auto least, auto most) {
    auto [low, high] = text.split("..");
    low.getAsInteger(10, least);
    high.getAsInteger(10, most);
    return random.between(least, most);
  };
  if (letter == '#')
    return json::Object{{"as_int", range(kind.drop_front(), int64_t(0), int64_t(0))}};
  if (letter == '@') {
    json::Array list;
    for (int64_t size : shapeOf(kind.drop_front()))
      list.push_back(size);
    return json::Object{{"as_ints", std::move(list)}};
  }
  if (letter == '%')
    return json::Object{{"as_float", kind.size() > 1 ? 0.0 : 0.25 * static_cast<double>(random.between(1, 6))}};
  if (letter == '?' || letter == '!' || letter == '+')
    return json::Object{{"as_bool", letter == '+' || (letter == '?' && random.oneIn(2))}};
  if (letter == '^')
    return json::Object{{"as_scalar_type", 7}};
  if (letter == '\'') {
    llvm::SmallVector<StringRef> words;
    kind.drop_front().split(words, '|');
    return json::Object{{"as_string", random.pick(words).str()}};
  }
  if (kind == "s") {
    std::string from = addTensor('f', {4, 3}, 0, 0), name = newName();
    symbols[name] = json::Object{{"as_int", 3}};
    addNode("aten.sym_size.int",
            json::Array{argument("self", tensor(from)), argument("dim", json::Object{{"as_int", 1}})},
            json::Array{json::Object{{"as_sym_int", json::Object{{"as_name", name}}}}});
    return json::Object{{"as_sym_int", json::Object{{"as_name", name}}}};
  }
  auto [sizesText, rest] = kind.drop_front(2).split(']');
  std::vector<int64_t> shape = shapeOf(sizesText);
  int64_t least = 0, most = 1;
  if (rest.consume_front("{")) {
    auto [bounds, after] = rest.split('}');
    auto [low, high] = bounds.split("..");
    low.getAsInteger(10, least);
    high.getAsInteger(10, most);
    rest = after;
  }
  std::string name = addTensor(letter, shape, least, most);
  if (hasHoles)
    return json::Object{{"as_optional_tensors", json::Array{json::Object{{"as_none", true}}, tensor(name)}}};
  if (rest == "*2")
    return json::Object{
        {"as_tensors", json::Array{tensorArgument(name), tensorArgument(addTensor(letter, shape, least, most))}}};
  return tensor(name);
}

void ArchiveDraft::addOperator(const ArchiveRecipe &recipe) {
  json::Array arguments;
  for (const ArchiveArgument &argument : recipe.arguments)
    if (!argument.isOptional || random.oneIn(2))
      arguments.push_back(::argument(argument.name, argumentOf(argument.kind)));
  json::Array outputs, list;
  for (int i = 0; i < recipe.results; ++i) {
    std::string name = newName();
    results.push_back(name);
    if (recipe.result == 's' || recipe.result == 't') {
      bool isTruth = recipe.result == 't';
      (isTruth ? truths : symbols)[name] = isTruth ? json::Object{{"as_bool", true}} : json::Object{{"as_int", 3}};
      outputs.push_back(json::Object{{isTruth ? "as_sym_bool" : "as_sym_int", json::Object{{"as_name", name}}}});
      continue;
    }
    bool isIndices = i == 1 && llvm::any_of(std::array{"indices", "topk", "sort", "max.dim", "min.dim"},
                                            [&](StringRef part) { return StringRef(recipe.target).contains(part); });
    values[name] = metaOf(isIndices ? 'i' : recipe.result, first, false);
    if (recipe.isList)
      list.push_back(tensorArgument(name));
    else
      outputs.push_back(tensor(name));
  }
  if (recipe.isList)
    outputs.push_back(json::Object{{"as_tensors", std::move(list)}});
  operatorAt = nodes.size();
  addNode(recipe.target, std::move(arguments), std::move(outputs));
}

void ArchiveDraft::setResultSizes(const std::vector<int64_t> &shape) {
  for (const std::string &name : results)
    if (const json::Object *known = values.getObject(name)) {
      int64_t type = known->getInteger("dtype").value_or(7);
      values[name] = metaOf(type == 5 ? 'i' : type == 12 ? 'b' : type == 10 ? 'z' : 'f', shape, false);
    }
}

/// The mean of the result, as a real number, and of the data.
void ArchiveDraft::addLoss(const ArchiveRecipe &recipe) {
  size_t at = operatorAt;
  auto apply = [&](const std::string &target, std::vector<std::pair<const char *, std::string>> operands,
                   const std::vector<int64_t> &shape) {
    json::Array arguments;
    for (const auto &[name, operand] : operands)
      arguments.push_back(argument(name, tensor(operand)));
    std::string name = newName();
    values[name] = metaOf('f', shape, false);
    addNode(target, std::move(arguments), json::Array{tensor(name)});
    return name;
  };
  if (hidden.empty())
    addTensor('f', first.empty() ? std::vector<int64_t>{4, 3} : first, 0, 0);
  std::string loss = apply("aten.mean.default", {{"self", hidden}}, {});
  if (!results.empty() && recipe.result != 's' && recipe.result != 't') {
    std::string real = results.front();
    if (recipe.result == 'z')
      real = apply("aten.view_as_real.default", {{"self", real}}, first);
    else if (recipe.result != 'f')
      real = apply("aten.to.other", {{"self", real}, {"other", hidden}}, first);
    loss = apply("aten.add.Tensor", {{"self", apply("aten.mean.default", {{"self", real}}, {})}, {"other", loss}}, {});
  }
  values["loss"] = metaOf('f', {}, false);
  addNode("aten.alias.default", json::Array{argument("self", tensor(loss))}, json::Array{tensor("loss")});
  operatorAt = at;
}

json::Value ArchiveDraft::model() const {
  json::Array outputs{tensor("loss")};
  json::Array specs{json::Object{{"user_output", json::Object{{"arg", tensor("loss")}}}}};
  json::Object graph{{"inputs", json::Array(inputs)},
                     {"outputs", std::move(outputs)},
                     {"nodes", json::Array(nodes)},
                     {"tensor_values", json::Object(values)},
                     {"sym_int_values", json::Object(symbols)},
                     {"sym_bool_values", json::Object(truths)},
                     {"sym_bool_values", json::Object{}},
                     {"is_single_tensor_return", false},
                     {"sym_float_values", json::Object{}}};
  return json::Object{{"graph_module", json::Object{{"graph", std::move(graph)},
                                                    {"signature", json::Object{{"input_specs", json::Array(inputSpecs)},
                                                                               {"output_specs", std::move(specs)}}},
                                                    {"module_call_graph", json::Array{}},
                                                    {"metadata", json::Object{}}}},
                      {"opset_version", json::Object{{"aten", 10}}},
                      {"range_constraints", json::Object{}},
                      {"schema_version", json::Object{{"major", 8}, {"minor", 20}}},
                      {"torch_version", "2.15.0"}};
}

ZipRecords ArchiveDraft::records(const std::string &text) const {
  std::string config = llvm::formatv("{0}", json::Value(json::Object{{"config", json::Object(weights)}}));
  ZipRecords all{{"m/archive_format", "pt2"},
                 {"m/archive_version", "0"},
                 {"m/byteorder", "little"},
                 {"m/data/constants/model_constants_config.json", "{\"config\": {}}"},
                 {"m/data/weights/model_weights_config.json", config},
                 {"m/models/model.json", text}};
  for (const auto &[name, bytes] : stored)
    all.emplace_back("m/" + name, bytes);
  return all;
}
