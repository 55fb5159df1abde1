// Tables of a program: arenas, states, records, transfers, collectives, kernels.
#include "ProgramTables.h"
#include "dialects/Dist/AttributeText.h"
#include "dialects/Dist/Placement.h"
#include "dialects/Hyc/PhaseNames.h"
#include "dialects/Rank/Moves.h"
#include "hyc/Analysis/Entry.h"
#include "hyc/Analysis/StoredTypes.h"

using namespace mlir;
using namespace hyc;

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

/// Of what two kernels have in common that compute the same, whatever they are called: values by where they are made.
static llvm::hash_code hashOf(rank::KernelOp kernel) {
  llvm::hash_code hash =
      llvm::hash_combine(kernel.getSpaceAttr(), kernel.getReducedAttr(), kernel.getStrides(), kernel.getResultTypes());
  llvm::DenseMap<Value, size_t> numbers;
  auto number = [&](ValueRange values) {
    for (Value value : values) {
      numbers.try_emplace(value, numbers.size());
      hash = llvm::hash_combine(hash, value.getType());
    }
  };
  number(kernel.getBody().getArguments());
  for (Operation &op : kernel.getBody().front()) {
    hash = llvm::hash_combine(hash, op.getName(), op.hashProperties(), op.getDiscardableAttrDictionary());
    for (Value operand : op.getOperands())
      hash = llvm::hash_combine(hash, numbers.lookup(operand));
    number(op.getResults());
  }
  return hash;
}

static bool computeTheSame(rank::KernelOp a, rank::KernelOp b) {
  return a.getSpaceAttr() == b.getSpaceAttr() && a.getReducedAttr() == b.getReducedAttr() &&
         a.getStrides() == b.getStrides() && a.getResultTypes() == b.getResultTypes() &&
         OperationEquivalence::isRegionEquivalentTo(&a.getBody(), &b.getBody(), OperationEquivalence::IgnoreLocations);
}

rank::KernelOp KernelTable::getOrCreate(StringRef name, ArrayRef<int64_t> space, ArrayRef<int64_t> reduced,
                                        ArrayRef<SmallVector<int64_t>> strides, TypeRange results, Region &body,
                                        Location loc) {
  OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
  SmallVector<Attribute> strideLists;
  for (ArrayRef<int64_t> list : strides)
    strideLists.push_back(builder.getDenseI64ArrayAttr(list));
  auto kernel = rank::KernelOp::create(builder, loc, "", space, reduced, builder.getArrayAttr(strideLists),
                                       builder.getTypeArrayAttr(llvm::to_vector(results)));
  kernel.getBody().takeBody(body);

  SmallVector<rank::KernelOp, 1> &alike = byHash[hashOf(kernel)];
  for (rank::KernelOp known : alike)
    if (computeTheSame(known, kernel)) {
      kernel.erase();
      return known;
    }
  alike.push_back(kernel);
  std::string base = name.str();
  for (auto [i, size] : llvm::enumerate(space))
    base += (i == 0 ? "_" : "x") + std::to_string(size);
  // "mul" for the third time, and the first one over two elements, would both be mul_2.
  std::string unique = base;
  for (unsigned &count = uses[base]; !names.insert(unique).second;)
    unique = base + "_" + std::to_string(++count);
  kernel.setSymName(unique);
  return kernel;
}

//===----------------------------------------------------------------------===//
// Arenas and what lies in them
//===----------------------------------------------------------------------===//

ProgramTables::ProgramTables(rank::ProgramOp program, dist::MeshOp mesh, const ModuleSymbols &declared,
                             KernelTable &kernels, ExchangeNumbers &collectives, ExchangeNumbers &tags)
    : program(program), mesh(mesh), stage(program.getStage()), kernels(kernels), declared(declared),
      collectives(collectives), tags(tags), builder(program.getBody()) {
  // What comes later has its name for certain; values, which are called as the model's nodes, make way.
  SmallVector<StringRef> entries = declared.entries();
  for (StringRef entry : entries)
    names.insert(entry);
  entries.push_back("");
  for (StringRef arena : rank::kArenas)
    names.insert(arena);
  names.insert(rank::kPrepare);
  for (StringRef entry : entries)
    for (auto kind : {dist::InstructionKind::forward, dist::InstructionKind::backward, dist::InstructionKind::reduce,
                      dist::InstructionKind::apply})
      for (int64_t k = 0, count = mesh.getVirtualStages(); k < count; ++k)
        names.insert(rank::functionName(kind, k, entry));
}

LogicalResult ProgramTables::reserveArguments(FuncOp function) {
  for (unsigned index = 0, e = function.getNumArguments(); index < e; ++index) {
    auto scalar = function.getArgAttrOfType<StringAttr>(index, kScalar);
    auto input = function.getArgAttrOfType<StringAttr>(index, kInput);
    StringAttr name = scalar ? scalar : input;
    if (!name)
      continue;
    auto [known, isNew] = arguments.try_emplace(name, static_cast<bool>(scalar));
    if (isNew ? names.insert(name).second : known->second == static_cast<bool>(scalar))
      continue;
    return function.emitError("input \"") << name.getValue()
                                          << "\" has a name that programs need for themselves, expected any other; "
                                             "rename it in the model";
  }
  return success();
}

std::string ProgramTables::uniqueName(StringRef name) {
  std::string candidate = name.empty() ? "value" : name.str();
  for (unsigned i = 1; names.contains(candidate); ++i)
    candidate = (name + "." + Twine(i)).str();
  return candidate;
}

rank::ArenaOp ProgramTables::getArena(StringRef name) {
  rank::ArenaOp &arena = arenas[name];
  if (!arena) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(&program.getBody().front());
    arena = added(rank::ArenaOp::create(builder, program.getLoc(), name, /*shared=*/false));
    if (name == rank::kNvme)
      arena->setAttr(rank::kFile, builder.getUnitAttr());
  }
  return arena;
}

FlatSymbolRefAttr ProgramTables::arenaRef(StringRef arena) {
  return FlatSymbolRefAttr::get(getArena(arena).getSymNameAttr());
}

void ProgramTables::share(StringRef arena) { getArena(arena).setShared(true); }

static StringRef arenaOf(RoleArena arena) {
  switch (arena) {
  case RoleArena::parameters:
    return rank::kParameters;
  case RoleArena::gradients:
    return rank::kGradients;
  case RoleArena::optimizer:
    return rank::kOptimizer;
  case RoleArena::communication:
    return rank::kCommunication;
  case RoleArena::feeds:
    return rank::kFeeds;
  }
  llvm_unreachable("not an arena of a role");
}

ModuleSymbols::ModuleSymbols(ModuleOp module) : symbols(module) {
  inside.push_back({kEvaluate, {}});
  if (ModuleOp evaluation = evaluationOf(module))
    inside.front().second.emplace(evaluation);
  for (ModuleOp size : sizesInside(module))
    inside.push_back({*size.getSymName(), SymbolTable(size)});
  for (auto state : module.getOps<StateOp>())
    if (state.is(StateRole::compute) && state.getParamAttr())
      masters.insert(state.getParamAttr().getAttr());
}

Operation *ModuleSymbols::lookup(StringRef name) const {
  Operation *symbol = symbols.lookup(name);
  const std::optional<SymbolTable> &evaluation = inside.front().second;
  return symbol || !evaluation ? symbol : evaluation->lookup(name);
}

FuncOp ModuleSymbols::lookupFunction(StringRef name, StringRef entry) const {
  if (entry.empty())
    return dyn_cast_or_null<FuncOp>(symbols.lookup(name));
  for (const auto &[of, table] : inside)
    if (of == entry && table)
      return dyn_cast_or_null<FuncOp>(table->lookup(name));
  return {};
}

SmallVector<StringRef> ModuleSymbols::entries() const {
  SmallVector<StringRef> names;
  for (const auto &[name, table] : inside)
    names.push_back(name);
  return names;
}

void ProgramTables::beginEntry(StringRef name, ArrayAttr instructions, std::optional<ModelSize> size) {
  entry = added(rank::EntryOp::create(builder, program.getLoc(), name, builder.getStrArrayAttr({}), instructions,
                                      size ? builder.getStringAttr(size->dim) : StringAttr(), size ? size->size : 0,
                                      size ? builder.getArrayAttr({}) : ArrayAttr()));
  // What functions of another entry have made.
  saved.clear();
  accumulated.clear();
}

/// A copy starts from f32 values unless something else is said of them; what is a parameter from values of its own
/// type.
void ProgramTables::noteStoredType(Attribute init) {
  auto module = program->getParentOfType<ModuleOp>();
  SmallVector<std::pair<FileAttr, Type>> types;
  for (FileAttr file : filesOf(init))
    types.push_back({file, getStoredType(program, file, builder.getF32Type())});
  setStoredTypes(module, types);
}

rank::StateOp ProgramTables::getState(Operation *user, StringRef name) {
  if (rank::StateOp known = states.lookup(name))
    return known;
  Operation *symbol = declared.lookup(name);
  MLIRContext *context = program.getContext();
  std::string role = nameOf(StateRole::parameter).str(), logicalName = name.str();
  StringRef arena = rank::kParameters;
  RankedTensorType local, whole;
  SmallVector<int64_t> logical;
  Attribute init;
  if (auto param = dyn_cast_or_null<ParamOp>(symbol)) {
    local = param.getTensorType();
    whole = param.getWholeType();
    logical = param.getLogicalShape();
    init = param.getInit();
    // A master belongs to the update, as moments do.
    arena = declared.isMaster(param) ? rank::kOptimizer : rank::kParameters;
  } else if (auto state = dyn_cast_or_null<StateOp>(symbol)) {
    local = state.getTensorType();
    whole = state.getWholeType();
    logical = llvm::to_vector(whole.getShape());
    init = state.getInit();
    role = state.getRole().str();
    arena = arenaOf(state.getFacts().arena);
    if (state.getParam()) {
      logicalName = state.getParam()->str();
      if (auto param = dyn_cast_or_null<ParamOp>(declared.lookup(*state.getParam())))
        logical = param.getLogicalShape();
      if (state.is(StateRole::compute) && replaced.contains(*state.getParam())) {
        role = nameOf(StateRole::parameter).str();
        noteStoredType(init);
      }
    }
  } else {
    user->emitError("names @") << name << ", which is no hyc.param or hyc.state of the module";
    return {};
  }
  if (StringRef place = dist::placementOf(symbol); place != dist::kOnDevice)
    arena = place == dist::kOnHost ? rank::kHost : rank::kNvme;
  SmallVector<Attribute> splits(local.getRank(), dist::AxisListAttr::get(context, {}));
  dist::AxisListAttr flat;
  if (auto sharding = symbol->getAttrOfType<dist::ShardingAttr>(dist::kSharding)) {
    splits.assign(sharding.getDims().begin(), sharding.getDims().end());
    if (!sharding.getFlat().empty())
      flat = sharding.getFlat();
  }
  auto state = rank::StateOp::create(builder, symbol->getLoc(), uniqueName(name), arenaRef(arena).getValue(),
                                     IntegerAttr(), rank::BufferType::get(local), role, logicalName, logical,
                                     whole.getShape(), builder.getArrayAttr(splits), init, flat,
                                     symbol->getAttrOfType<dist::AxisListAttr>(dist::kOwned));
  stateSymbols[state.getSymName()] = state;
  return states[name] = added(state);
}

rank::InputOp ProgramTables::addInput(StringRef name, StringRef source, ArrayAttr streams, int64_t bound,
                                      rank::BufferType type, Location loc) {
  rank::InputOp &input = inputs[name];
  if (!input) {
    input = added(rank::InputOp::create(builder, loc, name, arenaRef(rank::kFeeds).getValue(), IntegerAttr(), type,
                                        source, bound, streams, /*uncounted=*/IntegerAttr(),
                                        /*of_entry=*/entry != nullptr));
  }
  if (entry && !llvm::is_contained(entry.getInputs(), input.getSymNameAttr())) {
    SmallVector<Attribute> names(entry.getInputs().getAsRange<Attribute>());
    names.push_back(input.getSymNameAttr());
    entry.setInputsAttr(builder.getArrayAttr(names));
    if (ArrayAttr known = entry.getTypesAttr()) {
      SmallVector<Attribute> types(known.getAsRange<Attribute>());
      types.push_back(TypeAttr::get(type));
      entry.setTypesAttr(builder.getArrayAttr(types));
    }
  }
  return input;
}

rank::ScalarOp ProgramTables::addScalar(StringRef name, rank::BufferType type, Location loc) {
  rank::ScalarOp &scalar = scalars[name];
  if (!scalar)
    scalar = added(rank::ScalarOp::create(builder, loc, name, arenaRef(rank::kFeeds).getValue(), IntegerAttr(), type));
  return scalar;
}

rank::RecordOp ProgramTables::addRecord(StringRef name, StringRef arena, rank::BufferType type, Location loc) {
  auto record = added(rank::RecordOp::create(builder, loc, uniqueName(name), arenaRef(arena).getValue(), IntegerAttr(),
                                             type, /*single=*/false));
  return records[record.getSymName()] = record;
}

//===----------------------------------------------------------------------===//
// Exchanges
//===----------------------------------------------------------------------===//

void ProgramTables::addTransfer(rank::RecordOp record, StringRef channel, bool send, dist::Direction direction,
                                int64_t virtualStage, Location loc) {
  // Forward goes to the next chunk, backward to the previous one. A tag belongs to a cut and a direction.
  bool backward = direction == dist::Direction::backward;
  int64_t chunk = mesh.getChunk(stage, virtualStage), peer = send != backward ? chunk + 1 : chunk - 1;
  std::string key = (Twine(std::min(chunk, peer)) + (backward ? " backward " : " forward ") + channel).str();
  std::string of = entry ? entry.getSymName().str() + "." : "";
  std::string name =
      uniqueName((Twine(send ? "send." : "receive.") + of + (backward ? "backward." : "forward.") + channel).str());
  added(rank::TransferOp::create(builder, loc, name, send, backward, record.getSymName(), mesh.getStageOf(peer),
                                 tags.number(of + key), virtualStage, getEntryName()));
}

rank::CollectiveOp ProgramTables::addCollective(StringRef function, StringRef kind, dist::GroupAttr group,
                                                StringRef cause, StringRef why, dist::AxisListAttr flat, Location loc) {
  // Programs of different stages name different causes for the exchange that they share; what they share is the order
  // in which their functions start exchanges over one group.
  std::string key;
  llvm::raw_string_ostream stream(key);
  stream << function << ' ' << kind << ' ' << textOf(group);
  if (group.getStages().empty())
    stream << " stage " << stage;
  unsigned ordinal = collectiveCounts[key]++;
  stream << " #" << ordinal;
  std::string name = uniqueName((Twine(cause.empty() ? function : cause) + "." + kind).str());
  return added(rank::CollectiveOp::create(builder, loc, name, collectives.number(key), kind, group, cause, why, flat));
}
