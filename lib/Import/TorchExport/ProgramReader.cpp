// From JSON to Program. Unknown keys are skipped, as the schema asks of readers; what is needed must be there.
#include "Program.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/MathExtras.h"
#include <utility>

using namespace hyc;
using namespace hyc::torchexport;
using llvm::ArrayRef;
using llvm::Error;
using llvm::Expected;
using llvm::StringRef;
using llvm::Twine;

static constexpr StringRef kModel = "models/model.json";
static constexpr int64_t kSchema = 8;
static constexpr int kMaxGraphDepth = 8;
static constexpr StringRef kSymbolPrefix = "Symbol('";

namespace {
class ProgramReader {
public:
  explicit ProgramReader(const Archive &archive) : archive(archive) {}
  Expected<Program> read();

private:
  Error checkFormat() const;
  Expected<JsonValue> readJson(StringRef record) const;
  Error readStored(StringRef folder, StringRef kind);
  Error readStoredTensor(StringRef folder, const JsonValue::Member &member);
  Error readMeta(StringRef name, const JsonValue &json, TensorMeta &meta) const;
  Error readSizes(StringRef name, const JsonValue *json, std::vector<Size> &sizes) const;
  Error readInputs(const JsonValue &signature);
  Error readOutputs(const JsonValue &signature, const JsonValue &module);
  Error checkInputNames() const;
  std::shared_ptr<const NameMap> setNamesApart(const JsonValue &graph);
  Error readValues(const JsonValue &graph, const NameMap *names);
  Error readNodes(const JsonValue &graph, std::shared_ptr<const NameMap> names, int depth, const Twine &prefix = "");
  Error readNode(const JsonValue &json, Node &node) const;
  Error inlineGraph(const Node &call, int depth);
  Error readControlFlow(Node &call, int depth);
  Error readBody(const Node &call, const JsonValue &graph, ArrayRef<std::string> inputs, int depth, StringRef name,
                 const JsonValue *condition);
  Error readCondition(const Node &call, const JsonValue &graph, ArrayRef<std::string> inputs, int depth,
                      StringRef name);
  Error fail(const Twine &what) const { return archive.fail(what); }

  const Archive &archive;
  Program program;
  llvm::StringMap<size_t> storedByName; // names of the model, ties included
  bool keepsGradient = false;           // of the nodes that are read now
  llvm::StringMap<size_t> storedByForm; // by place, type and sizes
};
} // namespace

/// The member `key` as an array; an empty one where it is missing.
static const std::vector<JsonValue> &arrayOf(const JsonValue &json, StringRef key) {
  static const std::vector<JsonValue> none;
  const JsonValue *value = json.get(key);
  return value && value->getArray() ? *value->getArray() : none;
}

static StringRef textOf(const JsonValue &json, StringRef key) {
  const JsonValue *value = json.get(key);
  return value ? value->getString().value_or("") : StringRef();
}

Error ProgramReader::checkFormat() const {
  const auto &records = archive.getRecords();
  if (records.count("data.pkl"))
    return fail(
        "it is a pickle of torch.save; write it with torch.export.save(torch.export.export(model, args), path)");
  if (records.count("serialized_exported_program.json"))
    return fail("it was written by a torch before 2.9; export it again");
  Expected<StringRef> format = archive.read("archive_format");
  if (!format)
    return format.takeError();
  if (format->trim() != "pt2")
    return fail("archive_format is '" + format->take_front(20) + "', expected 'pt2'");
  if (records.count("byteorder")) {
    Expected<StringRef> order = archive.read("byteorder");
    if (!order)
      return order.takeError();
    if (order->trim() != "little")
      return fail("byteorder is '" + order->take_front(20) + "', expected 'little'");
  }
  return Error::success();
}

Expected<JsonValue> ProgramReader::readJson(StringRef record) const {
  Expected<StringRef> text = archive.read(record);
  if (!text)
    return text.takeError();
  return parseJson(*text, (archive.getPath() + ":" + record).str());
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

/// {"as_int": 3} or {"as_expr": {"expr_str": "Symbol('s72', positive=True)", …}}
Error ProgramReader::readSizes(StringRef name, const JsonValue *json, std::vector<Size> &sizes) const {
  if (!json || !json->getArray())
    return fail("tensor '" + name + "' has no list of sizes or strides");
  for (const JsonValue &element : *json->getArray()) {
    Size size;
    if (const JsonValue *number = element.get("as_int")) {
      size.value = number->getInteger();
      if (!size.value || *size.value < 0)
        return fail("tensor '" + name + "' has a size or stride of " + number->describe());
    } else if (const JsonValue *expression = element.get("as_expr")) {
      StringRef text = textOf(*expression, "expr_str"), symbol = text;
      bool isSymbol = symbol.consume_front(kSymbolPrefix);
      size.symbol = (isSymbol ? symbol.take_until([](char c) { return c == '\''; }) : text).str();
    } else {
      return fail("tensor '" + name + "' has a size that is neither a number nor an expression");
    }
    sizes.push_back(size);
  }
  return Error::success();
}

Error ProgramReader::readMeta(StringRef name, const JsonValue &json, TensorMeta &meta) const {
  const JsonValue *dtype = json.get("dtype"), *offset = json.get("storage_offset");
  std::optional<int64_t> number = dtype ? dtype->getInteger() : std::nullopt;
  std::optional<ScalarType> type = number ? toScalarType(*number) : std::nullopt;
  if (!type)
    return fail("tensor '" + name + "' has the unsupported type " + (dtype ? dtype->describe() : "(none)"));
  meta.type = *type;
  if (const JsonValue *value = offset ? offset->get("as_int") : nullptr)
    meta.offset = value->getInteger().value_or(-1);
  if (Error error = readSizes(name, json.get("sizes"), meta.sizes))
    return error;
  return readSizes(name, json.get("strides"), meta.strides);
}

/// Bytes of a tensor of `meta` if its elements lie in row-major order without gaps, as they are read.
static std::optional<int64_t> denseBytes(const TensorMeta &meta) {
  int64_t bytes = byteCount(meta.type), stride = 1;
  if (meta.sizes.size() != meta.strides.size())
    return std::nullopt;
  for (size_t dim = meta.sizes.size(); dim-- > 0;) {
    const Size &size = meta.sizes[dim], &step = meta.strides[dim];
    if (!size.value || !step.value || (*size.value > 1 && *step.value != stride) ||
        llvm::MulOverflow(stride, std::max<int64_t>(*size.value, 1), stride) ||
        llvm::MulOverflow(bytes, *size.value, bytes))
      return std::nullopt;
  }
  return bytes;
}

Error ProgramReader::readStoredTensor(StringRef folder, const JsonValue::Member &member) {
  StringRef name = member.key;
  const JsonValue *meta = member.value.get("tensor_meta"), *pickled = member.value.get("use_pickle"),
                  *isParameter = member.value.get("is_param");
  if (pickled && pickled->getBool().value_or(true))
    return fail("tensor '" + name + "' is stored as a pickle, which can run code when it is read; export it again");
  if (!meta)
    return fail("tensor '" + name + "' has no tensor_meta");
  StoredTensor tensor;
  tensor.name = name.str();
  tensor.isParameter = isParameter && isParameter->getBool().value_or(false);
  const JsonValue *hasGradient = meta->get("requires_grad");
  tensor.isTrained = tensor.isParameter && (!hasGradient || hasGradient->getBool().value_or(true));
  if (Error error = readMeta(name, *meta, tensor.meta))
    return error;
  StringRef path = textOf(member.value, "path_name");
  auto record = archive.getRecords().find((folder + path).str());
  if (record == archive.getRecords().end())
    return fail("the values of tensor '" + name + "' should be in record '" + folder + path + "', which is not there");
  std::optional<int64_t> bytes = denseBytes(tensor.meta);
  if (!bytes)
    return fail("tensor '" + name +
                "' does not lie in row-major order; call .contiguous() on it before exporting, or "
                "model.to(memory_format=torch.contiguous_format)");
  int64_t begin = 0, element = byteCount(tensor.meta.type);
  if (tensor.meta.offset < 0 || tensor.meta.offset > INT64_MAX / std::max<int64_t>(element, 1))
    return fail("tensor '" + name + "' begins at element " + Twine(tensor.meta.offset) + " of '" + path +
                "', which has " + Twine(record->second.bytes) + " bytes");
  if (llvm::MulOverflow(tensor.meta.offset, element, begin) || static_cast<uint64_t>(begin) > record->second.bytes ||
      static_cast<uint64_t>(*bytes) > record->second.bytes - static_cast<uint64_t>(begin))
    return fail("tensor '" + name + "' needs " + Twine(*bytes) + " bytes at offset " + Twine(begin) + " of '" + path +
                "', which has " + Twine(record->second.bytes));
  tensor.offset = record->second.offset + static_cast<uint64_t>(begin);
  tensor.bytes = static_cast<uint64_t>(*bytes);
  // Names of one place are tied: the first stands for all.
  std::string form = (Twine(tensor.offset) + ":" + Twine(tensor.bytes) + ":" +
                      Twine(static_cast<int>(tensor.meta.type)) + (tensor.isParameter ? ":p" : ":b"))
                         .str();
  for (const Size &size : tensor.meta.sizes)
    form += ":" + std::to_string(*size.value);
  auto [tied, isNew] = storedByForm.try_emplace(form, program.tensors.size());
  if (!isNew && tensor.bytes) {
    program.tensors[tied->second].isTrained |= tensor.isTrained;
    storedByName[name] = tied->second;
    return Error::success();
  }
  storedByName[name] = program.tensors.size();
  program.tensors.push_back(std::move(tensor));
  return Error::success();
}

Error ProgramReader::readStored(StringRef folder, StringRef kind) {
  std::string config = (folder + "model_" + kind + "_config.json").str();
  if (!archive.getRecords().count(config)) {
    if (kind == "constants")
      return Error::success();
    return fail("it has no record '" + config + "'; archives of a torch before 2.9 lack it: export the model again");
  }
  Expected<JsonValue> json = readJson(config);
  if (!json)
    return json.takeError();
  const JsonValue *tensors = json->get("config");
  if (!tensors || !tensors->getObject())
    return fail("record '" + config + "' has no \"config\"");
  for (const JsonValue::Member &member : *tensors->getObject())
    if (Error error = readStoredTensor(folder, member))
      return error;
  return Error::success();
}

//===----------------------------------------------------------------------===//
// Signature
//===----------------------------------------------------------------------===//

/// The name in {"arg": {"name": N}} or {"arg": {"as_tensor": {"name": N}}}; empty if it is no tensor.
static StringRef tensorName(const JsonValue &spec) {
  const JsonValue *arg = spec.get("arg");
  if (!arg)
    return "";
  const JsonValue *tensor = arg->get("as_tensor");
  return textOf(tensor ? *tensor : *arg, "name");
}

Error ProgramReader::readInputs(const JsonValue &signature) {
  for (const JsonValue &spec : arrayOf(signature, "input_specs")) {
    if (!spec.getObject() || spec.getObject()->size() != 1)
      return fail("the signature has an input that is not one of the kinds of the schema");
    const JsonValue::Member &member = spec.getObject()->front();
    StringRef name = tensorName(member.value);
    if (member.key == "user_input") {
      if (!name.empty())
        program.inputs.push_back(name.str());
      continue;
    }
    StringRef model = member.key == "parameter"         ? textOf(member.value, "parameter_name")
                      : member.key == "buffer"          ? textOf(member.value, "buffer_name")
                      : member.key == "tensor_constant" ? textOf(member.value, "tensor_constant_name")
                                                        : "";
    if (model.empty()) {
      // A token orders effects: assertions, which are not imported.
      if (member.key == "constant_input" || member.key == "token")
        continue;
      return fail("the signature has an input of kind '" + member.key + "', which hyc does not read");
    }
    auto stored = storedByName.find(model);
    if (stored == storedByName.end())
      return fail("no values are stored for '" + model + "'");
    program.tensorOf[name] = stored->second;
  }
  return Error::success();
}

/// The keys of one level of what forward returns, where that is a dict; nothing of a list.
static std::vector<std::string> keysOf(const JsonValue &spec, size_t children) {
  std::vector<std::string> keys;
  auto context = parseJson(textOf(spec, "context"), "context");
  if (!context)
    llvm::consumeError(context.takeError());
  else if (const std::vector<JsonValue> *list = context->getArray(); list && list->size() == children)
    for (const JsonValue &key : *list)
      keys.push_back(key.getString().value_or("").str());
  return keys;
}

/// The path to each leaf of what forward returns, as "logits" or "hidden.0".
static void nameLeaves(const JsonValue &spec, const std::string &path, std::vector<std::string> &names) {
  if (textOf(spec, "type").empty()) {
    names.push_back(path);
    return;
  }
  const std::vector<JsonValue> &children = arrayOf(spec, "children_spec");
  std::vector<std::string> keys = keysOf(spec, children.size());
  for (auto [index, child] : llvm::enumerate(children)) {
    std::string key = keys.empty() ? std::to_string(index) : keys[index];
    nameLeaves(child, path.empty() ? key : path + "." + key, names);
  }
}

/// What forward calls each of its results, such as ["logits"] of a dict; nothing where it returns a tensor, or several
/// in a tuple.
static std::vector<std::string> outputNames(const JsonValue &module) {
  const std::vector<JsonValue> &calls = arrayOf(module, "module_call_graph");
  const JsonValue *signature = calls.empty() ? nullptr : calls.front().get("signature");
  std::vector<std::string> names;
  auto json = parseJson(signature ? textOf(*signature, "out_spec") : "", "out_spec");
  if (!json) {
    llvm::consumeError(json.takeError());
    return names;
  }
  const std::vector<JsonValue> *root = json->getArray();
  if (root && root->size() == 2 && !keysOf((*root)[1], arrayOf((*root)[1], "children_spec").size()).empty())
    nameLeaves((*root)[1], "", names);
  return names;
}

Error ProgramReader::readOutputs(const JsonValue &signature, const JsonValue &module) {
  std::vector<std::string> found;
  for (const JsonValue &spec : arrayOf(signature, "output_specs")) {
    if (!spec.getObject() || spec.getObject()->size() != 1)
      return fail("the signature has an output that is not one of the kinds of the schema");
    const JsonValue::Member &member = spec.getObject()->front();
    if (member.key == "buffer_mutation") {
      StringRef buffer = textOf(member.value, "buffer_name");
      auto stored = storedByName.find(buffer);
      if (stored == storedByName.end())
        return fail("the model writes the buffer '" + buffer + "', of which no values are stored");
      program.mutations.push_back({stored->second, tensorName(member.value).str()});
      continue;
    }
    if (member.key == "token")
      continue;
    if (member.key != "user_output" && member.key != "loss_output")
      return fail("the model writes '" + tensorName(member.value) + "' (" + member.key +
                  ") when it runs; hyc reads models that write nothing but their buffers");
    found.push_back(tensorName(member.value).str()); // empty: a number, or nothing
  }
  std::vector<std::string> names = outputNames(module);
  llvm::StringSet<> distinct;
  bool named = names.size() == found.size() && llvm::all_of(names, [&](const std::string &name) {
                 return !name.empty() && distinct.insert(name).second;
               });
  llvm::StringMap<int> times; // that one value is given
  for (auto [index, name] : llvm::enumerate(found)) {
    if (name.empty())
      continue;
    int before = times[name]++;
    std::string own = before == 0 ? name : name + "." + std::to_string(before + 1);
    program.outputs.push_back({name, named ? names[index] : own});
  }
  return program.outputs.empty() ? fail("the model has no output that is a tensor") : Error::success();
}

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

/// Both names are what users say: the one in their data, the other in their checkpoints.
Error ProgramReader::checkInputNames() const {
  for (const StoredTensor &stored : program.tensors)
    if (llvm::is_contained(program.inputs, stored.name))
      return archive.refuse("the model has an input '" + stored.name + "' and a " +
                            (stored.isParameter ? "parameter" : "buffer") +
                            " of that name; rename one of them and export again");
  return Error::success();
}

/// `name`, or what follows from it and is not in `taken`.
static std::string freeName(const Twine &name, llvm::function_ref<bool(StringRef)> isTaken) {
  std::string result = name.str();
  for (int i = 2; isTaken(result); ++i)
    result = (name + Twine(i)).str();
  return result;
}

/// torch calls values of the graph by what makes them ("linear", "mean"), with no regard to the model's tensors, which
/// keep their names, as inputs do. An output that is called as one of them gets another name, and so does a value that
/// is called as a tensor or as an output that it is not: what such values are called from now on, or null.
std::shared_ptr<const NameMap> ProgramReader::setNamesApart(const JsonValue &graph) {
  llvm::StringMap<StringRef> taken; // what is given it, as the graph calls it; empty: a tensor of the model
  for (const StoredTensor &stored : program.tensors)
    taken[stored.name] = "";
  for (const std::string &input : program.inputs)
    taken[input] = input;
  auto isTaken = [&](StringRef name) { return taken.contains(name); };
  for (auto &[value, name] : program.outputs) {
    auto tensor = program.tensorOf.find(value);
    bool isItself =
        tensor == program.tensorOf.end() ? taken.lookup(name) == value : program.tensors[tensor->second].name == name;
    if (isTaken(name) && !isItself)
      name = freeName(name + ".output", isTaken);
    taken.try_emplace(name, value);
  }
  auto names = std::make_shared<NameMap>();
  for (const char *kind : {"tensor_values", "sym_int_values", "sym_bool_values"})
    if (const JsonValue *values = graph.get(kind); values && values->getObject())
      for (const JsonValue::Member &member : *values->getObject())
        if (auto other = taken.find(member.key);
            other != taken.end() && other->second != member.key && !program.tensorOf.contains(member.key))
          (*names)[member.key] = freeName(member.key + "/value", isTaken);
  auto rename = [&](std::string &value) {
    if (auto found = names->find(value); found != names->end())
      value = found->second;
  };
  for (auto &[value, name] : program.outputs)
    rename(value);
  for (auto &[tensor, value] : program.mutations)
    rename(value);
  return names->empty() ? nullptr : names;
}

//===----------------------------------------------------------------------===//
// Nodes
//===----------------------------------------------------------------------===//

/// "L__self__h.0,h.0,Block;L__self__h.0.attn,h.0.attn,Attention": the path of the innermost module.
static std::string scopeOf(StringRef stack) {
  StringRef path = stack.rsplit(';').second.empty() ? stack : stack.rsplit(';').second;
  path = path.split(',').second.split(',').first;
  bool isPath = llvm::all_of(path, [](char c) { return llvm::isAlnum(c) || c == '_' || c == '.'; });
  return isPath && !path.starts_with("_empty_nn_module_stack") ? path.str() : "";
}

Error ProgramReader::readNode(const JsonValue &json, Node &node) const {
  StringRef target = textOf(json, "target");
  target.consume_front("torch.ops.");
  node.target = target.str();
  for (const JsonValue &input : arrayOf(json, "inputs")) {
    const JsonValue *arg = input.get("arg");
    if (!arg || !arg->getObject() || arg->getObject()->size() != 1)
      return fail("node '" + textOf(json, "name") + "' (" + target +
                  ") has an argument that is not one of the schema's");
    const JsonValue::Member &member = arg->getObject()->front();
    node.arguments.push_back({textOf(input, "name").str(), member.key, &member.value});
  }
  auto add = [&](const JsonValue &value) {
    StringRef name = textOf(value, value.get("as_name") ? "as_name" : "name");
    if (!name.empty())
      node.results.push_back(node.nameOf(name));
  };
  for (const JsonValue &output : arrayOf(json, "outputs")) {
    if (!output.getObject() || output.getObject()->size() != 1)
      return fail("node '" + textOf(json, "name") + "' (" + target + ") has a result that is not one of the schema's");
    const JsonValue &value = output.getObject()->front().value;
    if (value.getArray())
      llvm::for_each(*value.getArray(), add);
    else
      add(value);
  }
  node.name = textOf(json, "name").str();
  if (node.name.empty() && !node.results.empty())
    node.name = node.results.front();
  if (const JsonValue *metadata = json.get("metadata")) {
    node.scope = scopeOf(textOf(*metadata, "nn_module_stack"));
    // torch's decompositions leave an alias of a detach, and write a region without gradients out as any other: what
    // was called still stands beside the nodes.
    StringRef called = textOf(*metadata, "torch_fn").rsplit('.').second;
    node.keepsGradient |= (node.target == "aten.alias.default" && called == "detach") ||
                          (StringRef(node.target).starts_with("aten.") && called == "wrap_with_set_grad_enabled");
  }
  return Error::success();
}

Error ProgramReader::readValues(const JsonValue &graph, const NameMap *names) {
  const JsonValue *values = graph.get("tensor_values");
  if (!values || !values->getObject())
    return fail("the graph has no tensor_values");
  for (const JsonValue::Member &member : *values->getObject()) {
    auto renamed = names ? names->find(member.key) : NameMap::const_iterator();
    StringRef name = names && renamed != names->end() ? StringRef(renamed->second) : StringRef(member.key);
    // What a graph within the graph is given has a name and a type already.
    TensorMeta meta;
    if (Error error = readMeta(member.key, member.value, meta))
      return error;
    program.values[name] = std::move(meta);
  }
  return Error::success();
}

/// Contexts that change nothing of what an exported model computes. After their graph come its operands.
static bool onlyCallsItsGraph(StringRef target) {
  return target == "higher_order.wrap_with_set_grad_enabled" || target == "higher_order.wrap_with_autocast";
}

/// Puts the nodes of the graph that `call` calls in its place, under names that nothing else has.
Error ProgramReader::inlineGraph(const Node &call, int depth) {
  auto refuse = [&](const Twine &what) { return fail("node '" + call.name + "' (" + call.target + ") " + what); };
  auto argument = llvm::find_if(call.arguments, [](const Argument &a) { return a.kind == "as_graph"; });
  const JsonValue *graph = argument == call.arguments.end() ? nullptr : argument->value->get("graph");
  if (!graph)
    return refuse("has no graph to call");
  if (depth >= kMaxGraphDepth)
    return refuse("is nested deeper than " + Twine(kMaxGraphDepth) + " graphs");
  if (call.target == "higher_order.wrap_with_autocast" && call.arguments.size() > 2 &&
      call.arguments[2].value->getBool().value_or(true))
    return refuse("computes in another type than it is written in; export the model outside of autocast");
  auto names = std::make_shared<NameMap>();
  for (const char *kind : {"tensor_values", "sym_int_values"})
    if (const JsonValue *values = graph->get(kind); values && values->getObject())
      for (const JsonValue::Member &member : *values->getObject())
        (*names)[member.key] = call.name + "/" + member.key;
  ArrayRef<Argument> operands = ArrayRef(call.arguments).drop_front(argument - call.arguments.begin() + 1);
  const std::vector<JsonValue> &inputs = arrayOf(*graph, "inputs"), &outputs = arrayOf(*graph, "outputs");
  if (operands.size() != inputs.size() || outputs.size() != call.results.size())
    return refuse("gives " + Twine(operands.size()) + " values to a graph of " + Twine(inputs.size()) +
                  " inputs and takes " + Twine(call.results.size()) + " of " + Twine(outputs.size()) + " outputs");
  auto nameIn = [](const JsonValue &union_) {
    const JsonValue *tensor = union_.get("as_tensor");
    return tensor ? textOf(*tensor, "name") : StringRef();
  };
  for (auto [operand, input] : llvm::zip_equal(operands, inputs)) {
    StringRef inner = nameIn(input), outer = operand.kind == "as_tensor" ? textOf(*operand.value, "name") : StringRef();
    if (const JsonValue *size = input.get("as_sym_int"); size && operand.kind == "as_sym_int") {
      inner = textOf(*size, "as_name");
      outer = textOf(*operand.value, "as_name");
    }
    if (inner.empty() || outer.empty())
      return refuse("gives its graph something other than tensors and computed sizes");
    (*names)[inner] = call.nameOf(outer);
  }
  bool before = keepsGradient;
  if (call.target == "higher_order.wrap_with_set_grad_enabled")
    keepsGradient = !call.arguments.front().value->getBool().value_or(true);
  if (Error error = readNodes(*graph, names, depth + 1))
    return error;
  keepsGradient = before;
  for (auto [index, output] : llvm::enumerate(outputs)) {
    Node alias;
    alias.name = call.name + "/" + std::to_string(index);
    alias.target = "aten.alias.default";
    alias.scope = call.scope;
    alias.inGraph = names;
    alias.results = {call.results[index]};
    if (nameIn(output).empty())
      return refuse("takes something other than tensors from its graph");
    alias.arguments.push_back({"self", "as_tensor", output.get("as_tensor")});
    program.nodes.push_back(std::move(alias));
  }
  return Error::success();
}

//===----------------------------------------------------------------------===//
// Branches and loops
//===----------------------------------------------------------------------===//

/// How many of its first arguments are graphs, and of the lists after them how many are given to a graph step by step.
struct ControlFlow {
  StringRef target;
  size_t firstGraph, graphs, carriedLists;
  bool hasCondition; // the first of two graphs says whether to go on
};

constexpr ControlFlow kControlFlows[] = {{"higher_order.cond", 1, 2, 0, false},
                                         {"higher_order.scan", 0, 1, 2, false},
                                         {"higher_order.map_impl", 0, 1, 1, false},
                                         {"higher_order.while_loop", 0, 2, 1, true}};

static const ControlFlow *findControlFlow(StringRef target) {
  for (const ControlFlow &each : kControlFlows)
    if (each.target == target)
      return &each;
  return nullptr;
}

/// What a graph calls its values, under names that nothing else has; `inputs` are what it is given.
static std::shared_ptr<NameMap> namesWithin(const JsonValue &graph, ArrayRef<std::string> inputs, const Twine &prefix) {
  auto names = std::make_shared<NameMap>();
  for (const char *kind : {"tensor_values", "sym_int_values", "sym_bool_values"})
    if (const JsonValue *values = graph.get(kind); values && values->getObject())
      for (const JsonValue::Member &member : *values->getObject())
        (*names)[member.key] = (prefix + member.key).str();
  for (auto [input, name] : llvm::zip_equal(arrayOf(graph, "inputs"), inputs)) {
    const JsonValue *tensor = input.get("as_tensor"), *size = input.get("as_sym_int");
    StringRef own = tensor ? textOf(*tensor, "name") : size ? textOf(*size, "as_name") : StringRef();
    (*names)[own] = name;
  }
  return names;
}

/// The values that a list of outputs names; fewer where some are no tensors.
static std::vector<std::string> tensorsOf(const JsonValue &graph, const NameMap &names) {
  std::vector<std::string> found;
  for (const JsonValue &output : arrayOf(graph, "outputs"))
    if (const JsonValue *tensor = output.get("as_tensor"))
      if (auto own = names.find(textOf(*tensor, "name")); own != names.end())
        found.push_back(own->second);
  return found;
}

/// Whether a loop goes on: the nodes of its condition, over `inputs`, and what marks their result.
Error ProgramReader::readCondition(const Node &call, const JsonValue &graph, ArrayRef<std::string> inputs, int depth,
                                   StringRef name) {
  const std::string prefix = (call.name + "/" + name + "/").str();
  const std::vector<JsonValue> &outputs = arrayOf(graph, "outputs");
  if (inputs.size() != arrayOf(graph, "inputs").size() || outputs.size() != 1)
    return fail("node '" + call.name + "' (" + call.target +
                ") gives a graph other values than it takes, or takes more");
  auto names = namesWithin(graph, inputs, prefix);
  if (Error error = readNodes(graph, names, depth + 1, prefix))
    return error;
  Node marker;
  marker.name = prefix + "goes_on";
  marker.target = kGoesOn.str();
  marker.scope = call.scope;
  marker.inGraph = names;
  marker.arguments.push_back({"self", outputs.front().getObject() ? outputs.front().getObject()->front().key : "",
                              outputs.front().getObject() ? &outputs.front().getObject()->front().value : &graph});
  program.nodes.push_back(std::move(marker));
  return Error::success();
}

/// A graph that the call makes one of its own: `inputs` are values around it, or empty where the graph is given one.
Error ProgramReader::readBody(const Node &call, const JsonValue &graph, ArrayRef<std::string> inputs, int depth,
                              StringRef name, const JsonValue *condition) {
  const std::string prefix = (call.name + "/" + name + "/").str();
  if (inputs.size() != arrayOf(graph, "inputs").size())
    return fail("node '" + call.name + "' (" + call.target + ") gives " + Twine(inputs.size()) +
                " values to a graph of " + Twine(arrayOf(graph, "inputs").size()) + " inputs");
  Node begin, end;
  std::vector<std::string> given(inputs);
  for (auto [index, input] : llvm::enumerate(given))
    if (input.empty()) {
      input = prefix + "in" + std::to_string(index);
      begin.results.push_back(input);
    }
  auto names = namesWithin(graph, given, prefix);
  begin.name = prefix + "begins";
  begin.target = kBodyBegins.str();
  begin.inGraph = call.inGraph;
  begin.arguments = call.arguments; // what depends on a parameter outside does so inside
  begin.keepsGradient = end.keepsGradient = keepsGradient;
  program.nodes.push_back(std::move(begin));
  if (Error error = readNodes(graph, names, depth + 1, prefix))
    return error;
  std::vector<std::string> outputs = tensorsOf(graph, *names);
  if (outputs.size() != arrayOf(graph, "outputs").size())
    return fail("node '" + call.name + "' (" + call.target + ") takes something other than tensors from its graph");
  if (condition) { // over what the next step is given
    std::vector<std::string> next = outputs;
    next.insert(next.end(), given.begin() + static_cast<ptrdiff_t>(outputs.size()), given.end());
    if (Error error = readCondition(call, *condition, next, depth, (name + "/condition").str()))
      return error;
  }
  end.name = prefix + "ends";
  end.target = kBodyEnds.str();
  end.inGraph = names;
  end.arguments.push_back({"outputs", "as_tensors", graph.get("outputs")});
  program.nodes.push_back(std::move(end));
  return Error::success();
}

/// The graphs of a branch or a loop, then the node itself, whose arguments are named by their places.
Error ProgramReader::readControlFlow(Node &call, int depth) {
  const ControlFlow &flow = *findControlFlow(call.target);
  auto refuse = [&](const Twine &what) { return fail("node '" + call.name + "' (" + call.target + ") " + what); };
  if (depth >= kMaxGraphDepth)
    return refuse("is nested deeper than " + Twine(kMaxGraphDepth) + " graphs");
  std::vector<const JsonValue *> graphs;
  std::vector<std::string> operands;
  std::vector<std::string> inside; // the same, empty where each step has its own
  size_t lists = 0;
  for (auto [index, argument] : llvm::enumerate(call.arguments)) {
    argument.name = std::to_string(index);
    if (argument.kind == "as_graph" && argument.value->get("graph"))
      graphs.push_back(argument.value->get("graph"));
    if (index < flow.firstGraph + flow.graphs)
      continue;
    const std::vector<JsonValue> *values = argument.value->getArray();
    if (argument.kind != "as_tensors" && !(values && values->empty()))
      return refuse("is given a list of kind " + argument.kind + ", expected tensors");
    for (const JsonValue &value : values ? ArrayRef<JsonValue>(*values) : ArrayRef<JsonValue>()) {
      operands.push_back(call.nameOf(textOf(value, "name")));
      inside.push_back(lists < flow.carriedLists ? "" : operands.back());
    }
    ++lists;
  }
  if (graphs.size() != flow.graphs)
    return refuse("has " + Twine(graphs.size()) + " graphs to call, expected " + Twine(flow.graphs));
  llvm::erase_if(call.arguments, [](const Argument &argument) { return argument.kind == "as_graph"; });
  if (flow.hasCondition)
    if (Error error = readCondition(call, *graphs[0], operands, depth, "condition"))
      return error;
  for (size_t i = flow.hasCondition ? 1 : 0; i < graphs.size(); ++i)
    if (Error error = readBody(call, *graphs[i], inside, depth, "body" + std::to_string(i),
                               flow.hasCondition ? graphs[0] : nullptr))
      return error;
  program.nodes.push_back(std::move(call));
  return Error::success();
}

Error ProgramReader::readNodes(const JsonValue &graph, std::shared_ptr<const NameMap> names, int depth,
                               const Twine &prefix) {
  if (Error error = readValues(graph, names.get()))
    return error;
  const JsonValue *nodes = graph.get("nodes");
  if (!nodes || !nodes->getArray())
    return fail("the graph has no list of nodes");
  for (const JsonValue &json : *nodes->getArray()) {
    Node node;
    node.inGraph = names;
    node.keepsGradient = keepsGradient;
    if (Error error = readNode(json, node))
      return error;
    node.name = (prefix + node.name).str();
    if (findControlFlow(node.target)) {
      if (Error error = readControlFlow(node, depth))
        return error;
    } else if (!onlyCallsItsGraph(node.target)) {
      program.nodes.push_back(std::move(node));
    } else if (Error error = inlineGraph(node, depth)) {
      return error;
    }
  }
  return Error::success();
}

Expected<Program> ProgramReader::read() {
  if (Error error = checkFormat())
    return error;
  Expected<JsonValue> json = readJson(kModel);
  if (!json)
    return json.takeError();
  program.json = std::move(*json);
  const JsonValue *version = program.json.get("schema_version"), *module = program.json.get("graph_module");
  const JsonValue *major = version ? version->get("major") : nullptr;
  if (!major || major->getInteger() != kSchema)
    return fail("it has schema version " + (major ? major->describe() : "(none)") + ", expected " + Twine(kSchema) +
                "; torch 2.9 and later write that");
  const JsonValue *graph = module ? module->get("graph") : nullptr,
                  *signature = module ? module->get("signature") : nullptr;
  if (!graph || !signature)
    return fail("record '" + kModel + "' has no graph_module with a graph and a signature");
  if (Error error = readStored("data/weights/", "weights"))
    return error;
  if (Error error = readStored("data/constants/", "constants"))
    return error;
  if (Error error = readInputs(*signature))
    return error;
  if (Error error = readOutputs(*signature, *module))
    return error;
  if (Error error = checkInputNames())
    return error;
  if (Error error = readNodes(*graph, setNamesApart(*graph), 0))
    return error;
  return std::move(program);
}

Expected<Program> hyc::torchexport::readProgram(const Archive &archive) { return ProgramReader(archive).read(); }
