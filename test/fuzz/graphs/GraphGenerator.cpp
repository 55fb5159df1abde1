// Graphs node by node: each is drawn from a recipe, imported with those before it, and kept where that succeeds.
#include "GraphGenerator.h"

#include "ModelParts.h"
#include "NodeDraft.h"

#include "dialects/Hyc/HycDialect.h"
#include "hyc/Import/ONNX/Import.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace hyc;
using namespace hyc::fuzzing;

static constexpr int kTries = 12;
/// What a context has uniqued stays.
static constexpr int kImportsOfAContext = 500;

static int32_t typeOf(mlir::Type type) {
  if (type.isF32())
    return kF32;
  if (type.isF64())
    return kF64;
  if (type.isF16())
    return kF16;
  if (type.isBF16())
    return kBF16;
  unsigned width = type.getIntOrFloatBitWidth();
  return width == 1 ? kBool : width == 32 ? kI32 : kI64;
}

/// A file in memory, by its path.
static std::string writeInMemory(const std::string &bytes) {
  static const int file = memfd_create("model.onnx", 0);
  if (ftruncate(file, 0) != 0 || pwrite(file, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    std::abort();
  return "/proc/self/fd/" + std::to_string(file);
}

std::optional<std::vector<TensorFacts>> hyc::fuzzing::importOutputs(const onnxfile::Model &model, int64_t batch) {
  static std::unique_ptr<mlir::MLIRContext> context;
  static int imports = 0;
  if (imports++ % kImportsOfAContext == 0) {
    context = std::make_unique<mlir::MLIRContext>(mlir::MLIRContext::Threading::DISABLED);
    context->getDiagEngine().registerHandler([](mlir::Diagnostic &diagnostic) {
      if (std::getenv("HYC_FUZZ_DIAGNOSTICS"))
        llvm::errs() << diagnostic.str() << "\n";
    });
  }
  ImportOptions options;
  options.batch = batch;
  auto module = importOnnx(*context, writeInMemory(model.SerializeAsString()), options);
  if (failed(module))
    return std::nullopt;
  std::vector<TensorFacts> facts;
  auto function = *(**module).getOps<FuncOp>().begin();
  for (mlir::Type type : function.getFunctionType().getResults()) {
    auto tensor = mlir::cast<mlir::RankedTensorType>(type);
    facts.push_back({typeOf(tensor.getElementType()), tensor.getShape().vec()});
  }
  return facts;
}

namespace {
class Generation {
public:
  Generation(uint64_t seed, const GraphOptions &options) : options(options), random(seed) {}

  std::optional<GeneratedGraph> run();

private:
  void begin();
  bool addOperator(const std::string &op);
  std::vector<const OperatorRecipe *> recipesOf(const std::string &op) const;
  void addLoss();
  void apply(const char *op, const std::vector<std::string> &inputs);
  /// The output of the graph as it stands, or nothing where it is refused.
  std::optional<TensorFacts> look();

  const GraphOptions &options;
  Random random;
  GeneratedGraph result;
  std::vector<DraftValue> values; ///< that nodes may take; the last one is where the graph goes on
  int64_t opset = 18;
};

/// The data and a product with a parameter, so that whatever comes after has a gradient to give.
void Generation::begin() {
  result.model.set_ir_version(8);
  result.model.mutable_graph()->set_name("graph");
  result.model.add_opset_import()->set_version(opset);
  std::vector<int64_t> shape{result.batch};
  for (int64_t rank = random.below(4); rank > 0; --rank)
    shape.push_back(random.pick(std::initializer_list<int64_t>{1, 2, 2, 3, 4, 4, 6}));
  if (shape.size() == 1 || std::all_of(shape.begin() + 1, shape.end(), [](int64_t size) { return size == 1; }))
    shape.push_back(2); // one number alone is a constant and no parameter
  std::vector<int64_t> width(shape.begin() + 1, shape.end());
  onnxfile::Graph &graph = *result.model.mutable_graph();
  addInput(graph, "x", kF32, shape, random.oneIn(2) ? "batch" : "");
  int64_t count = 1;
  for (int64_t size : width)
    count *= size;
  std::vector<double> weights;
  for (int64_t i = 0; i < count; ++i)
    weights.push_back(0.5 + 0.125 * static_cast<double>(random.below(8)));
  addTensor(graph, "w", kF32, width, weights);
  addNode(graph, "Mul", {"x", "w"}, {"h"});
  values.push_back({"h", kF32, shape});
}

std::vector<const OperatorRecipe *> Generation::recipesOf(const std::string &op) const {
  std::vector<const OperatorRecipe *> chosen;
  for (const OperatorRecipe &recipe : allRecipes())
    if ((op.empty() || recipe.op == (op == "SequenceAt" ? "SplitToSequence" : op)) && recipe.leastOpset <= opset &&
        opset <= recipe.mostOpset)
      chosen.push_back(&recipe);
  return chosen;
}

std::optional<TensorFacts> Generation::look() {
  onnxfile::Graph &graph = *result.model.mutable_graph();
  const onnxfile::Node &last = *graph.node().rbegin();
  graph.clear_output();
  graph.add_output()->set_name(last.output(0));
  auto facts = importOutputs(result.model, result.batch);
  return facts ? std::optional(facts->front()) : std::nullopt;
}

bool Generation::addOperator(const std::string &op) {
  std::vector<const OperatorRecipe *> recipes = recipesOf(op);
  for (int attempt = 0; attempt < kTries && !recipes.empty(); ++attempt) {
    const onnxfile::Model before = result.model;
    const OperatorRecipe &recipe = *random.pick(recipes);
    NodeDraft draft(recipe, values, result.batch, random);
    draft.addTo(*result.model.mutable_graph());
    if (std::optional<TensorFacts> facts = look()) {
      std::string name = result.model.graph().node().rbegin()->output(0);
      values.push_back({name, facts->type, facts->shape});
      result.ops.push_back(recipe.op);
      if (recipe.op == "SplitToSequence")
        result.ops.push_back("SequenceAt");
      return true;
    }
    result.model = before;
  }
  return false;
}

void Generation::apply(const char *op, const std::vector<std::string> &inputs) {
  onnxfile::Graph &graph = *result.model.mutable_graph();
  std::string name = "e" + std::to_string(graph.node_size());
  addNode(graph, op, inputs, {name});
  values.push_back({name, values.back().type, values.back().shape});
}

/// What is no real number becomes one, and meets the data, in case it has not come of it.
void Generation::addLoss() {
  onnxfile::Graph &graph = *result.model.mutable_graph();
  if (values.back().type != kF32) {
    apply("Cast", {values.back().name});
    setInt(*graph.mutable_node()->rbegin(), "to", kF32);
    values.back().type = kF32;
  }
  const DraftValue last = values.back();
  auto mean = [&](const std::string &name) {
    apply("ReduceMean", {name});
    setInt(*graph.mutable_node()->rbegin(), "keepdims", 0);
    values.back().shape.clear();
    return values.back().name;
  };
  std::string data = mean("h");
  bool hasSamples = !last.shape.empty() && last.shape.front() == result.batch;
  if (hasSamples && random.oneIn(2)) {
    apply("Mul", {last.name, data});
    result.loss = "mse";
    return;
  }
  apply("Add", {mean(last.name), data});
  result.loss = values.back().name;
}

std::optional<GeneratedGraph> Generation::run() {
  // Most files are of these operator sets; what only older ones have is asked for by name.
  opset = random.pick(std::initializer_list<int64_t>{13, 17, 18, 18, 18, 21});
  if (random.oneIn(3) || recipesOf(options.op).empty())
    opset = 0;
  for (int attempt = 0; opset == 0 || (attempt < 100 && recipesOf(options.op).empty()); ++attempt)
    opset = random.between(7, 23);
  begin();
  int nodes = 1 + static_cast<int>(random.below(options.mostNodes)), at = static_cast<int>(random.below(nodes));
  for (int i = 0; i < nodes; ++i)
    if (bool added = addOperator(i == at ? options.op : ""); !added && i == at && !options.op.empty())
      return std::nullopt;
  if (result.ops.empty())
    return std::nullopt;
  addLoss();
  onnxfile::Graph &graph = *result.model.mutable_graph();
  graph.clear_output();
  graph.add_output()->set_name(values.back().name);
  return std::move(result);
}
} // namespace

std::optional<GeneratedGraph> hyc::fuzzing::generateGraph(uint64_t seed, const GraphOptions &options) {
  return Generation(seed, options).run();
}
