// Cuts the partitioned @microbatch into @forward.C and @backward.C, one of each a chunk.
//
// Every op has a place: a chunk and a direction. A value is made at one place and may be wanted at others; it travels
// only along the routes that the runtime has: forward to the next chunk, backward to the previous one, and from a
// chunk's forward to its own backward through the record of saved values. Which stage has a chunk does not matter here.
#include "dialects/Dist/DistDialect.h"
#include "dialects/Hyc/HycDialect.h"
#include "dialects/Hyc/PhaseNames.h"
#include "hyc/Analysis/Repetition.h"
#include "hyc/Transforms/Local/Passes.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"

namespace hyc {
#define GEN_PASS_DEF_CUTSTAGES
#include "hyc/Transforms/Local/Passes.h.inc"
} // namespace hyc

using namespace mlir;
using namespace hyc;

namespace {

struct Place {
  int64_t chunk;
  bool backward;
  bool operator==(const Place &other) const { return chunk == other.chunk && backward == other.backward; }
};

/// One function that is being filled: its arguments and results appear as values need them.
struct ChunkFunction {
  struct Port {
    StringAttr kind; // hyc.input, hyc.saved or dist.channel
    std::string id;
    Value original;
    Value local;
  };
  Place place;
  Block *block = nullptr;
  IRMapping mapping;
  SmallVector<Port> arguments, results;
};

class ModelCutter {
public:
  ModelCutter(FuncOp microbatch, int64_t chunks)
      : microbatch(microbatch), context(microbatch.getContext()), repetition(microbatch) {
    for (bool backward : {false, true})
      for (int64_t chunk = 0; chunk < chunks; ++chunk) {
        ChunkFunction &function = functions.emplace_back();
        function.place = {chunk, backward};
        function.block = new Block();
      }
    nameValues();
  }

  LogicalResult run() {
    for (Operation &op : microbatch.getBody().front().without_terminator()) {
      if (isRepeated(&op))
        continue;
      if (!op.hasAttr(dist::kStage))
        return op.emitOpError("has no dist.stage");
      ChunkFunction &function = at(placeOf(&op));
      if (failed(place(&op, function)))
        return failure();
    }
    return success();
  }

  void emit(OpBuilder &builder) {
    for (ChunkFunction &function : functions)
      emitFunction(builder, function);
  }

private:
  /// Whether an op stands wherever its result is used. A buffer that forward writes is read once, before: later it
  /// holds something else.
  bool isRepeated(Operation *op) const { return isFree(op) && (repetition.isExact(op) || !isa<ReadOp>(op)); }

  Place placeOf(Operation *op) { return {op->getAttrOfType<IntegerAttr>(dist::kStage).getInt(), isBackward(op)}; }

  ChunkFunction &at(Place place) { return functions[(place.backward ? functions.size() / 2 : 0) + place.chunk]; }

  /// Ids under which values cross: their op's id, told apart where several values share it.
  void nameValues() {
    llvm::StringMap<int> used;
    for (Operation &op : microbatch.getBody().front())
      for (OpResult result : op.getResults()) {
        std::string id = idOf(&op);
        if (op.getNumResults() > 1)
          id += "#" + std::to_string(result.getResultNumber());
        int count = used[id]++;
        ids[result] = count == 0 ? id : id + "~" + std::to_string(count);
      }
  }

  /// An awaited or sliced value is known by the id of what it converts.
  static std::string idOf(Operation *op) {
    if (!getId(op).empty())
      return getId(op).str();
    for (Value operand : op->getOperands())
      if (Operation *def = operand.getDefiningOp())
        if (std::string id = idOf(def); !id.empty())
          return id;
    return op->getName().stripDialect().str();
  }

  /// Clones `op` into `function`, having brought its operands there.
  LogicalResult place(Operation *op, ChunkFunction &function) {
    for (Value operand : op->getOperands())
      if (failed(bring(operand, function.place)))
        return failure();
    OpBuilder builder(context);
    builder.setInsertionPointToEnd(function.block);
    Operation *clone = builder.clone(*op, function.mapping);
    clone->removeAttr(dist::kStage);
    return success();
  }

  /// Makes `value` known at `place`.
  LogicalResult bring(Value value, Place place) {
    ChunkFunction &function = at(place);
    if (function.mapping.contains(value))
      return success();
    Operation *def = value.getDefiningOp();
    if (!def) {
      addInput(cast<BlockArgument>(value), function);
      return success();
    }
    if (isRepeated(def))
      return this->place(def, function);
    Place origin = placeOf(def);
    if (!place.backward)
      return route(value, origin, {place.chunk - 1, false}, function, "dist.channel",
                   !origin.backward && origin.chunk < place.chunk);
    // A forward value arrives in a backward function by being saved there, or, from a later chunk, with the cotangents.
    bool saved = !origin.backward && origin.chunk <= place.chunk;
    if (saved)
      return route(value, origin, {place.chunk, false}, function, kSaved, true);
    return route(value, origin, {place.chunk + 1, true}, function, "dist.channel", origin.chunk > place.chunk);
  }

  /// Has `from` return the value and `function` take it as an argument.
  LogicalResult route(Value value, Place origin, Place from, ChunkFunction &function, StringRef kind, bool possible) {
    if (!possible) {
      Operation *def = value.getDefiningOp();
      return def->emitOpError("makes a value on chunk ")
             << origin.chunk << (origin.backward ? " in backward" : " in forward") << " that chunk "
             << function.place.chunk << (function.place.backward ? " needs in backward" : " needs in forward")
             << ": no route leads there";
    }
    if (failed(bring(value, from)))
      return failure();
    StringAttr kindAttr = StringAttr::get(context, kind);
    ChunkFunction &source = at(from);
    source.results.push_back({kindAttr, ids[value], value, source.mapping.lookup(value)});
    addArgument(function, kindAttr, ids[value], value);
    return success();
  }

  void addArgument(ChunkFunction &function, StringAttr kind, const std::string &id, Value value) {
    Value argument = function.block->addArgument(value.getType(), value.getLoc());
    function.arguments.push_back({kind, id, value, argument});
    function.mapping.map(value, argument);
  }

  void addInput(BlockArgument argument, ChunkFunction &function) {
    auto name = microbatch.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kInput);
    addArgument(function, StringAttr::get(context, kInput), name ? name.str() : "", argument);
  }

  void emitFunction(OpBuilder &builder, ChunkFunction &function) {
    std::string name =
        dist::functionName(function.place.backward ? dist::InstructionKind::backward : dist::InstructionKind::forward,
                           function.place.chunk);
    SmallVector<Type> resultTypes;
    SmallVector<Value> results;
    for (const ChunkFunction::Port &port : function.results) {
      results.push_back(port.local);
      resultTypes.push_back(port.local.getType());
    }
    auto type = builder.getFunctionType(function.block->getArgumentTypes(), resultTypes);
    auto func = FuncOp::create(builder, microbatch.getLoc(), name, type);
    func->setAttr(dist::kStage, builder.getI64IntegerAttr(function.place.chunk));
    func.getBody().front().erase();
    func.getBody().push_back(function.block);
    OpBuilder end = OpBuilder::atBlockEnd(function.block);
    ReturnOp::create(end, microbatch.getLoc(), results);
    // All at once: each setting of one of them copies those of the others.
    func.setAllArgAttrs(llvm::map_to_vector(function.arguments, [&](auto &port) { return attributesOf(port); }));
    func.setAllResultAttrs(llvm::map_to_vector(function.results, [&](auto &port) { return attributesOf(port); }));
  }

  /// What crosses, under which id; of an input where it comes from, too.
  DictionaryAttr attributesOf(const ChunkFunction::Port &port) {
    NamedAttrList attributes;
    attributes.set(port.kind, StringAttr::get(context, port.id));
    if (auto input = dyn_cast<BlockArgument>(port.original))
      for (StringRef name : {StringRef(kSource), StringRef(kStreams)})
        if (Attribute source = microbatch.getArgAttr(input.getArgNumber(), name))
          attributes.set(name, source);
    return attributes.getDictionary(context);
  }

  FuncOp microbatch;
  MLIRContext *context;
  Repetition repetition;
  SmallVector<ChunkFunction> functions;
  llvm::DenseMap<Value, std::string> ids;
};

struct CutStages : hyc::impl::CutStagesBase<CutStages> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto func = module.lookupSymbol<FuncOp>(kMicrobatch);
    dist::MeshOp mesh = dist::MeshOp::find(module);
    if (!func || !mesh) {
      module.emitError("has no ") << (func ? "dist.mesh" : "@microbatch") << " to cut";
      return signalPassFailure();
    }
    ModelCutter cutter(func, mesh.getChunks());
    if (failed(cutter.run()))
      return signalPassFailure();
    OpBuilder builder(func);
    cutter.emit(builder);
    func.erase();
  }
};
} // namespace
