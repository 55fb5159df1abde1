// Rows of hycrt::Program.
#include "TableEmitter.h"

#include "dialects/Hyc/HycDialect.h"
#include "dialects/Rank/Arenas.h"
#include "dialects/Rank/Moves.h"
#include "hyc/Analysis/Entry.h"
#include "hyc/Analysis/StoredTypes.h"
#include "hyc/Analysis/Workspaces.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Format.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::cpp;

/// Whether forward or backward exchange over the axes that split samples: ranks there make the same micro-batches.
static bool meetsInMicroBatches(rank::ProgramOp program, dist::MeshOp mesh) {
  llvm::SetVector<rank::FuncOp> reached;
  for (const std::string &name : program.getFunctionNames())
    if (StringRef(name).starts_with("forward") || StringRef(name).starts_with("backward"))
      reached.insert(program.lookupSymbol<rank::FuncOp>(name));
  for (size_t index = 0; index < reached.size(); ++index)
    for (auto invoke : rank::FuncOp(reached[index]).getBlock().getOps<rank::InvokeOp>())
      if (auto callee = program.lookupSymbol<rank::FuncOp>(invoke.getCallee()))
        reached.insert(callee);
  auto isOverSamples = [&](rank::RowOp row) {
    auto collective = program.lookupSymbol<rank::CollectiveOp>(row.getEntry());
    return collective && llvm::any_of(mesh.expand(collective.getGroup().getAxes()).getAxes(),
                                      [&](StringAttr axis) { return mesh.getBatchAxes().contains(axis); });
  };
  return llvm::any_of(
      reached, [&](rank::FuncOp func) { return llvm::any_of(func.getBlock().getOps<rank::RowOp>(), isOverSamples); });
}

/// Where checks stand: messages speak of these ops.
static void emitSites(rank::ProgramOp program, raw_ostream &os) {
  if (program.getOps<rank::SiteOp>().empty())
    return;
  std::string rows;
  os << "// Where checks for finite values stand, by position in kSites.\nenum SiteName : int {\n";
  for (auto site : program.getOps<rank::SiteOp>()) {
    os << "  " << constantName(("row." + site.getSymName()).str()) << ",\n";
    rows += "    {" + quoted(site.getFunction()) + ", " + quoted(site.getCause()) + "},\n";
  }
  os << "};\ninline constexpr hycrt::Site kSites[] = {\n" << rows << "};\n\n";
}

/// The mesh's axes, by place.
static void emitAxes(dist::MeshOp mesh, raw_ostream &os) {
  if (mesh.getAxes().empty())
    return;
  os << "// Axes of the mesh, major to minor.\n";
  for (auto [place, axis] : llvm::enumerate(mesh.getAxes().getAsRange<StringAttr>()))
    os << "[[maybe_unused]] constexpr hycrt::Axis " << axisName(axis) << "{" << place << "};  // of "
       << mesh.getSize(axis) << " ranks\n";
  os << "\n";
}

void cpp::emitNames(rank::ProgramOp program, raw_ostream &os) {
  emitAxes(dist::MeshOp::find(program->getParentOfType<ModuleOp>()), os);
  os << "// Arenas of the stage, by position in its table.\nenum Arena : int {\n";
  for (auto arena : program.getOps<rank::ArenaOp>())
    os << "  " << constantName(arena.getSymName()) << ",  // " << arena.getBytes() << " bytes; at one moment "
       << arena.getLowerBound() << " of them are alive\n";
  os << "};\n";
  for (auto arena : program.getOps<rank::ArenaOp>())
    os << "[[maybe_unused]] constexpr int64_t " << constantName(arena.getSymName())
       << "RecordBytes = " << arena.getRecordBytes() << ";\n";
  os << "\n";
  emitSites(program, os);
  if (program.getOps<rank::CollectiveOp>().empty())
    return;
  os << "// Collectives of the stage, by position in its table.\nenum Collective : int {\n";
  for (auto row : program.getOps<rank::CollectiveOp>())
    os << "  " << constantName(("row." + row.getSymName()).str()) << ",  // " << oneLine(row.getKind()) << " "
       << oneLine(row.getCause()) << "\n";
  os << "};\n\n";
}

namespace {

class TableEmitter {
public:
  TableEmitter(rank::ProgramOp program, const CppOptions &options, ArrayRef<std::string> modelFiles, raw_ostream &os)
      : program(program), module(program->getParentOfType<ModuleOp>()), mesh(dist::MeshOp::find(module)),
        options(options), modelFiles(modelFiles), os(os) {}

  LogicalResult emit();

private:
  bool isOnHost(rank::ArenaOp arena);
  void emitArenas();
  LogicalResult emitStates();
  void emitInputs();
  std::string streams(rank::InputOp input);
  void emitExchanges();
  // Of `entry`, or of what the stage's schedule runs where that is null or empty.
  void emitSchedule(ArrayAttr instructions, rank::EntryOp entry);
  void emitDispatcher(dist::InstructionKind kind, StringRef entry);
  std::string dispatcher(dist::InstructionKind kind, StringRef entry);
  SmallVector<std::string> inputsOf(rank::EntryOp entry);
  static std::string tableName(StringRef table, rank::EntryOp entry) {
    return entry ? (table + StringRef(camelCase("of." + entry.getSymName().str())).drop_front(2)).str() : table.str();
  }
  void emitSamples(rank::EntryOp entry);
  std::string emitEntry(StringRef name, ArrayAttr instructions, rank::EntryOp entry);
  LogicalResult emitEntries();
  std::string describeMesh();
  FailureOr<std::string> scalarsText();
  LogicalResult emitProgram();
  std::string initializer(rank::StateOp state);
  std::string initializer(Attribute init, StringRef parameter, Type fileType);
  int64_t indexOf(FileAttr file) { return llvm::find(modelFiles, file.getPath()) - modelFiles.begin(); }
  /// Prints the table of parts that a state starts from, where another has not; its name.
  StringRef partsTable(PartsAttr parts, Type fileType);
  std::string splits(rank::StateOp state);
  /// What one rank has of the state by its splits alone.
  SmallVector<int64_t> localShapeOf(rank::StateOp state);
  std::string flatStorage(rank::StateOp state);
  std::string bufferRef(FlatSymbolRefAttr arena, int64_t offset) {
    return "{" + constantName(arena.getValue()) + ", " + std::to_string(offset) + "}";
  }
  /// A table, or nothing: a constexpr array cannot be empty.
  void table(StringRef type, StringRef name, ArrayRef<std::string> rows);
  std::string tableUse(StringRef type, StringRef name) {
    return emptyTables.contains(name) ? ("hycrt::Table<hycrt::" + type + ">()").str() : name.str();
  }
  dist::ScheduleOp schedule();

  rank::ProgramOp program;
  ModuleOp module;
  dist::MeshOp mesh;
  const CppOptions &options;
  ArrayRef<std::string> modelFiles;
  raw_ostream &os;
  llvm::StringSet<> emptyTables;
  llvm::DenseMap<std::pair<Attribute, Type>, std::string> partsTables;
  SmallVector<rank::TransferOp> transfers; // in the order of rows
  int64_t microBatches = 0;
};

void TableEmitter::table(StringRef type, StringRef name, ArrayRef<std::string> rows) {
  if (rows.empty()) {
    emptyTables.insert(name);
    return;
  }
  os << "constexpr hycrt::" << type << " " << name << "[] = {\n";
  for (const std::string &row : rows)
    os << "    " << row << ",\n";
  os << "};\n\n";
}

dist::ScheduleOp TableEmitter::schedule() {
  for (auto candidate : module.getOps<dist::ScheduleOp>())
    if (candidate.getStage() == program.getStage())
      return candidate;
  return {};
}

/// On GPUs: what is offloaded lies in the host's memory, where kernels may reach it. Nothing that the host writes while
/// kernels run does.
bool TableEmitter::isOnHost(rank::ArenaOp arena) {
  return !options.architectures.empty() && arena.getSymName() == rank::kHost;
}

void TableEmitter::emitArenas() {
  SmallVector<std::string> rows;
  for (auto arena : program.getOps<rank::ArenaOp>())
    rows.push_back("{" + quoted(arena.getSymName()) + ", " + std::to_string(arena.getBytes()) + ", hycrt::Sharing::" +
                   (arena->hasAttr(rank::kFile) ? "kFile"
                    : arena.getShared()         ? "kShared"
                                                : "kPrivate") +
                   (isOnHost(arena) ? ", /*onHost=*/true}" : "}"));
  table("ArenaDesc", "kArenas", rows);
}

static StateRole roleOf(rank::StateOp state) { return factsOfRole(state.getRole()).role; }

/// "kInt8Codes"
static std::string enumeratorOf(WeightPart part) {
  std::string name = "k";
  for (StringRef word : llvm::split(stringifyWeightPart(part), '_'))
    name += llvm::toUpper(word.front()) + word.drop_front().str();
  return name;
}

std::string TableEmitter::initializer(rank::StateOp state) {
  auto ofWeight = dyn_cast<OfWeightAttr>(state.getInit());
  StringRef values = ofWeight ? ofWeight.getParameter() : state.getLogicalName();
  // A copy in the compute type starts as its parameter does.
  Type type = ofWeight || roleOf(state) == StateRole::compute ? Float32Type::get(state.getContext())
                                                              : state.getBufferType().getElementType();
  std::string text = initializer(valuesOf(state.getInit()), values, type);
  if (ofWeight && !text.empty())
    text += ".into(hycrt::WeightPart::" + enumeratorOf(ofWeight.getPart()) + ", " +
            std::to_string(ofWeight.getOutputs()) + ", " + std::to_string(ofWeight.getInputs()) + ", " +
            (ofWeight.getInputsFirst() ? "true" : "false") + ")";
  return text;
}

/// `fileType` is that of values in a file of which nothing else is said.
std::string TableEmitter::initializer(Attribute init, StringRef parameter, Type fileType) {
  std::string key = "hycrt::stableKey(" + quoted(parameter) + ")";
  if (auto fill = dyn_cast<FillAttr>(init)) {
    double value = fill.getValue().getValueAsDouble();
    return value == 0 ? "hycrt::Initializer::zeros()" : "hycrt::Initializer::constant(" + number(value) + ")";
  }
  if (auto normal = dyn_cast<NormalAttr>(init))
    return "hycrt::Initializer::normal(" + number(normal.getMean().getValueAsDouble()) + ", " +
           number(normal.getStddev().getValueAsDouble()) + ", " + key + ")";
  if (auto uniform = dyn_cast<UniformAttr>(init))
    return "hycrt::Initializer::uniform(" + number(uniform.getLow().getValueAsDouble()) + ", " +
           number(uniform.getHigh().getValueAsDouble()) + ", " + key + ")";
  if (auto sinusoids = dyn_cast<SinusoidsAttr>(init))
    return "hycrt::Initializer::sinusoids(" + number(sinusoids.getRatio().getValueAsDouble()) + ", " +
           std::to_string(sinusoids.getWidth()) + ")";
  if (auto file = dyn_cast<FileAttr>(init))
    return "hycrt::Initializer::fromFile(" + std::to_string(indexOf(file)) + ", " + std::to_string(file.getOffset()) +
           ", " + dtype(getStoredType(program, file, fileType)) + ")";
  if (auto parts = dyn_cast<PartsAttr>(init))
    return "hycrt::Initializer::fromParts(" + partsTable(parts, fileType).str() + ")";
  return "";
}

StringRef TableEmitter::partsTable(PartsAttr parts, Type fileType) {
  auto [known, isNew] = partsTables.try_emplace({parts, fileType}, "kParts" + std::to_string(partsTables.size()));
  if (isNew) {
    SmallVector<std::string> rows;
    for (PartAttr part : parts.getParts())
      rows.push_back("{" + quoted(part.getName()) + ", " + braced(part.getShape()) + ", " +
                     std::to_string(indexOf(part.getFile())) + ", " + std::to_string(part.getFile().getOffset()) +
                     ", " + dtype(getStoredType(program, part.getFile(), fileType)) + "}");
    table("FilePart", known->second, rows);
  }
  return known->second;
}

std::string TableEmitter::splits(rank::StateOp state) {
  std::string result = "{";
  for (auto [dim, axes] : llvm::enumerate(state.getSplits().getAsRange<dist::AxisListAttr>()))
    for (StringAttr axis : axes.getAxes())
      result += (result.size() > 1 ? ", {" : "{") + std::to_string(dim) + ", " + axisName(axis) + "}";
  return result + "}";
}

SmallVector<int64_t> TableEmitter::localShapeOf(rank::StateOp state) {
  SmallVector<int64_t> shape;
  for (auto [size, axes] : llvm::zip_equal(state.getGlobal(), state.getSplits().getAsRange<dist::AxisListAttr>()))
    shape.push_back(dist::shardSize(size, mesh.getSize(axes)));
  return shape;
}

std::string TableEmitter::flatStorage(rank::StateOp state) {
  if (std::optional<dist::AxisListAttr> flat = state.getFlat())
    return ", hycrt::FlatStorage::kShard, " + axisList(*flat) + ", " +
           std::to_string(state.getBufferType().getNumElements());
  if (std::optional<dist::AxisListAttr> slice = state.getSlice())
    return ", hycrt::FlatStorage::kSlice, " + axisList(*slice);
  return "";
}

LogicalResult TableEmitter::emitStates() {
  SmallVector<std::string> rows;
  for (auto state : program.getOps<rank::StateOp>()) {
    if (!factsOfRole(state.getRole()).isSaved)
      continue; // the program's scalars, and what every step begins anew
    std::string init = initializer(state);
    if (init.empty())
      return state.emitOpError("is initialised by ") << state.getInit() << ", expected " << kInitialValues;
    auto parts = dyn_cast<PartsAttr>(valuesOf(state.getInit()));
    if (parts && llvm::any_of(parts.getParts(), [](PartAttr part) { return part.getShape().size() > 8; }))
      return state.emitOpError("starts from parts of more than 8 dimensions, which the runtime's tables cannot hold");
    if (state.getLogical().size() > 8 || state.getGlobal().size() > 8)
      return state.emitOpError("has more than 8 dimensions, which the runtime's tables cannot hold");
    rows.push_back("{" + quoted(state.getLogicalName()) + ", " + quoted(state.getRole()) + ", " +
                   dtype(state.getBufferType().getElementType()) + ", " +
                   bufferRef(state.getArenaAttr(), *state.getOffset()) + ",\n     " + braced(state.getLogical()) +
                   ", " + braced(state.getGlobal()) + ", " + braced(localShapeOf(state)) + ", " + splits(state) + ", " +
                   init + flatStorage(state) + "}");
  }
  table("StateDesc", "kStates", rows);
  return success();
}

/// Of hycrt::InputSource.
static StringRef enumeratorOf(InputSource source) {
  switch (source) {
  case InputSource::token:
    return "kTokens";
  case InputSource::nextToken:
    return "kNextTokens";
  case InputSource::ownToken:
    return "kOwnTokens";
  case InputSource::nextOwnToken:
    return "kNextOwnTokens";
  case InputSource::position:
    return "kPositions";
  case InputSource::presence:
    return "kPresence";
  case InputSource::sample:
    return "kSamples";
  case InputSource::random:
    return "kRandomKeys";
  }
  llvm_unreachable("not a source");
}

/// Declares the streams of a random input; gives what its row says of them.
std::string TableEmitter::streams(rank::InputOp input) {
  if (!input.getStreamsAttr())
    return "";
  os << "constexpr uint64_t kStreams[] = {\n";
  for (StringRef id : input.getStreamsAttr().getAsValueRange<StringAttr>())
    os << "    hycrt::stableKey(" << quoted(id) << "),\n";
  os << "};\n";
  return ", kStreams, " + std::to_string(input.getStreamsAttr().size());
}

/// What an input's row says of a label that no loss counts, and of how long samples are.
static std::string labelsAndLength(rank::InputOp input) {
  IntegerAttr label = input.getUncountedAttr();
  auto program = input->getParentOfType<rank::ProgramOp>();
  bool isOneDim = program.getDim() && input.getBufferType().getShape().size() == 2 &&
                  llvm::any_of(program.getOps<rank::EntryOp>(), [&](rank::EntryOp entry) {
                    auto at = llvm::find(entry.getInputs(), input.getSymNameAttr());
                    return entry.trains() && at != entry.getInputs().end() &&
                           cast<TypeAttr>((*entry.getTypes())[at - entry.getInputs().begin()]) != input.getTypeAttr();
                  });
  StringRef teller = !isOneDim                                        ? ""
                     : input.getSymName().ends_with("attention_mask") ? "kPresence"
                     : label                                          ? "kLabels"
                                                                      : "";
  std::string text = label ? ", nullptr, 0, " + std::to_string(label.getInt()) : "";
  if (teller.empty())
    return text;
  return (text.empty() ? ", nullptr, 0, INT64_MIN" : text) + ", hycrt::LengthTeller::" + teller.str();
}

/// Without the samples, which come first; of a program that trains nothing an input may be a scalar.
static ArrayRef<int64_t> sampleShapeOf(rank::InputOp input) {
  ArrayRef<int64_t> shape = input.getBufferType().getShape();
  return shape.empty() ? shape : shape.drop_front();
}

void TableEmitter::emitInputs() {
  SmallVector<std::string> rows;
  for (auto input : program.getOps<rank::InputOp>())
    rows.push_back("{" + quoted(input.getSymName()) + ", " + dtype(input.getBufferType().getElementType()) +
                   ", hycrt::InputSource::" + enumeratorOf(input.getSourceFacts().source).str() + ", " +
                   bufferRef(input.getArenaAttr(), *input.getOffset()) + ", " + std::to_string(input.getBound()) +
                   ", " + braced(sampleShapeOf(input)) + streams(input) + labelsAndLength(input) + "}");
  table("InputDesc", "kInputs", rows);
}

void TableEmitter::emitExchanges() {
  llvm::SetVector<dist::GroupAttr> groups;
  SmallVector<std::string> rows;
  for (auto row : program.getOps<rank::CollectiveOp>()) {
    groups.insert(row.getGroup());
    size_t group = llvm::find(groups, row.getGroup()) - groups.begin();
    std::string why = row.getWhy().empty() ? "" : " (" + row.getWhy().str() + ")";
    rows.push_back("{" + std::to_string(row.getNumber()) + ", " + quoted(row.getCause().str() + why) + ", " +
                   exchangeKind(row.getExchange()) + ", " + std::to_string(group) +
                   (row.getFlat() ? ", " + axisList(*row.getFlat()) : "") + "}");
  }
  SmallVector<std::string> groupRows;
  for (dist::GroupAttr group : groups) {
    std::string name, stages = "{";
    for (StringAttr axis : group.getAxes().getAxes())
      name += (name.empty() ? "" : " × ") + axis.getValue().str();
    for (int64_t stage : group.getStages()) {
      name += (stages.size() > 1 ? ", " : name.empty() ? "stages " : " of stages ") + std::to_string(stage);
      stages += (stages.size() > 1 ? ", " : "") + std::to_string(stage);
    }
    groupRows.push_back("{" + quoted(name) + ", " + axisSet(group.getAxes()) + ", " + stages + "}}");
  }
  table("GroupDesc", "kGroups", groupRows);
  table("CollectiveDesc", "kCollectives", rows);

  // Both sides list what crosses a cut in the order of tags.
  transfers = llvm::to_vector(program.getOps<rank::TransferOp>());
  llvm::stable_sort(transfers, [](rank::TransferOp a, rank::TransferOp b) { return a.getTag() < b.getTag(); });
  SmallVector<std::string> transferRows;
  for (rank::TransferOp transfer : transfers) {
    auto record = program.lookupSymbol<rank::RecordOp>(transfer.getRecord());
    auto arena = program.lookupSymbol<rank::ArenaOp>(record.getArena());
    transferRows.push_back(
        "{" + std::to_string(transfer.getTag()) + ", " + quoted(record.getSymName()) +
        ", hycrt::Direction::" + (transfer.getSend() ? "kSend" : "kReceive") + ", " +
        std::to_string(transfer.getPeer()) + ", " + bufferRef(record.getArenaAttr(), *record.getOffset()) + ", " +
        std::to_string(record.getSingle() ? 0 : arena.getRecordBytes()) + ", " +
        std::to_string(record.getBufferType().getBytes()) + (transfer.getBackward() ? ", /*backward=*/true}" : "}"));
  }
  table("TransferDesc", "kTransfers", transferRows);
}

void TableEmitter::emitSchedule(ArrayAttr instructions, rank::EntryOp entry) {
  SmallVector<std::string> uses, rows;
  StringAttr entryName = entry ? entry.getSymNameAttr() : StringAttr();
  for (auto instruction : instructions.getAsRange<dist::InstructionAttr>()) {
    std::string which = std::to_string(instruction.getVirtualStage()) + ", " +
                        std::to_string(instruction.getMicroBatch()) + ", " + std::to_string(instruction.getSlot());
    switch (instruction.getKind()) {
    case dist::InstructionKind::begin_step:
      rows.push_back("{hycrt::InstructionKind::kBeginStep}");
      break;
    case dist::InstructionKind::forward:
      microBatches += !entry && instruction.getVirtualStage() == 0;
      rows.push_back("{hycrt::InstructionKind::kForward, " + which + "}");
      break;
    case dist::InstructionKind::backward:
      rows.push_back("{hycrt::InstructionKind::kBackward, " + which + "}");
      break;
    case dist::InstructionKind::reduce:
      rows.push_back("{hycrt::InstructionKind::kReduce}");
      break;
    case dist::InstructionKind::apply:
      rows.push_back("{hycrt::InstructionKind::kApply}");
      break;
    case dist::InstructionKind::exchange: {
      size_t first = uses.size();
      for (dist::TransferAttr transfer : instruction.getTransfers())
        for (auto [i, row] : llvm::enumerate(transfers))
          if (row.isMovedBy(transfer, entryName))
            uses.push_back("{" + std::to_string(i) + ", " + std::to_string(transfer.getMicroBatch()) + ", " +
                           std::to_string(transfer.getSlot()) + "}");
      rows.push_back("{hycrt::InstructionKind::kExchange, 0, 0, 0, " + std::to_string(first) + ", " +
                     std::to_string(uses.size() - first) + "}");
      break;
    }
    }
  }
  table("TransferUse", tableName("kTransferUses", entry), uses);
  table("Instruction", tableName("kSchedule", entry), rows);
}

/// Calls the function of the chunk that a call is for.
void TableEmitter::emitDispatcher(dist::InstructionKind kind, StringRef entry) {
  if (program.getVirtualStages() == 1)
    return;
  os << "void " << dispatcher(kind, entry)
     << "(hycrt::Context& ctx, const hycrt::Call& call) {\n  switch (call.virtualStage) {\n";
  for (int64_t k = 0, count = program.getVirtualStages(); k < count; ++k)
    os << "    case " << k << ":\n      return " << runnerName(rank::functionName(kind, k, entry)) << "(ctx, call);\n";
  os << "    default:\n      return;\n  }\n}\n\n";
}

/// Of one chunk alone its own function.
std::string TableEmitter::dispatcher(dist::InstructionKind kind, StringRef entry) {
  std::string one = runnerName(rank::functionName(kind, 0, entry));
  return program.getVirtualStages() == 1 ? one : one + "OfChunk";
}

/// Indices of the inputs that are filled for an entry.
SmallVector<std::string> TableEmitter::inputsOf(rank::EntryOp entry) {
  SmallVector<std::string> indices;
  for (auto [index, input] : llvm::enumerate(program.getOps<rank::InputOp>()))
    if (entry ? llvm::is_contained(entry.getInputs(), input.getSymNameAttr()) : !input.getOfEntry())
      indices.push_back(std::to_string(index));
  return indices;
}

/// An entry's own tables; gives its row.
std::string TableEmitter::emitEntry(StringRef name, ArrayAttr instructions, rank::EntryOp entry) {
  StringRef prefix = entry ? name : StringRef();
  const bool trains = !entry || entry.trains(), updatesApart = entry && !trains;
  emitSchedule(instructions, entry);
  emitDispatcher(dist::InstructionKind::forward, prefix);
  if (trains)
    emitDispatcher(dist::InstructionKind::backward, prefix);
  SmallVector<std::string> inputs = inputsOf(entry);
  if (!inputs.empty())
    os << "constexpr int " << tableName("kInputsOf", entry) << "[] = {" << llvm::join(inputs, ", ")
       << "};  // rows of kInputs\n\n";
  if (entry && trains)
    emitSamples(entry);
  std::string row = "{.name = " + quoted(name);
  auto field = [&](StringRef field, const std::string &value) { row += (",\n     ." + field + " = " + value).str(); };
  field("inputs", inputs.empty() ? "{}" : tableName("kInputsOf", entry));
  field("transferUses", tableUse("TransferUse", tableName("kTransferUses", entry)));
  field("schedule", tableName("kSchedule", entry));
  field("forward", dispatcher(dist::InstructionKind::forward, prefix));
  field("backward", trains ? dispatcher(dist::InstructionKind::backward, prefix) : "nullptr");
  field("reduce", runnerName(rank::functionName(dist::InstructionKind::reduce, 0, updatesApart ? prefix : "")));
  field("apply", updatesApart ? "nullptr" : "runApply");
  if (program.getDim() && trains) {
    field("dim", quoted(*program.getDim()));
    field("size", std::to_string(entry ? entry.getSize() : *program.getSize()));
  }
  if (entry && trains && !inputs.empty())
    field("samples", tableName("kSamplesOf", entry));
  return row + "}";
}

/// What an entry of a smaller size reads of its inputs, in the order of their rows.
void TableEmitter::emitSamples(rank::EntryOp entry) {
  SmallVector<std::string> samples;
  for (auto input : program.getOps<rank::InputOp>()) {
    auto at = llvm::find(entry.getInputs(), input.getSymNameAttr());
    if (at == entry.getInputs().end())
      continue;
    Attribute type = (*entry.getTypes())[at - entry.getInputs().begin()];
    ArrayRef<int64_t> shape = cast<rank::BufferType>(cast<TypeAttr>(type).getValue()).getShape();
    samples.push_back(braced(shape.empty() ? shape : shape.drop_front()));
  }
  if (!samples.empty())
    os << "constexpr hycrt::Shape " << tableName("kSamplesOf", entry) << "[] = {" << llvm::join(samples, ", ")
       << "};\n\n";
}

LogicalResult TableEmitter::emitEntries() {
  dist::ScheduleOp ofStage = schedule();
  if (!ofStage)
    return program.emitError("stage ") << program.getStage() << " has no dist.schedule";
  SmallVector<std::string> rows{emitEntry(isEvaluation(module) ? "evaluate" : "train", ofStage.getInstructions(), {})};
  for (auto entry : program.getOps<rank::EntryOp>())
    rows.push_back(emitEntry(entry.getSymName(), entry.getInstructions(), entry));
  table("Entry", "kEntries", rows);
  return success();
}

/// "{.stages = 2, .axes = {{"dp", 2}, {"tp", 2}}, .batch = {kAxisDp}}"
std::string TableEmitter::describeMesh() {
  std::string text = "{.stages = " + std::to_string(mesh.getStages()) + ", .axes = {";
  for (auto [i, axis] : llvm::enumerate(mesh.getAxes().getAsRange<StringAttr>()))
    text += (i ? ", {" : "{") + quoted(axis.getValue()) + ", " + std::to_string(mesh.getSize(axis)) + "}";
  return text + "}, .batch = " + axisList(mesh.getBatchAxes()) + "}";
}

/// The states and numbers that the runtime reads or writes by itself, in the order of its struct.
FailureOr<std::string> TableEmitter::scalarsText() {
  std::string scalars;
  // A program that only computes a model's outputs has neither loss nor gradients.
  bool trains =
      llvm::none_of(program.getOps<rank::StateOp>(), [](rank::StateOp s) { return roleOf(s) == StateRole::output; });
  auto stateOf = [&](StateRole role) {
    rank::StateOp found;
    for (auto state : program.getOps<rank::StateOp>())
      if (roleOf(state) == role)
        found = state;
    return found;
  };
  for (const RoleFacts &facts : getRoles()) {
    if (facts.scalar == RuntimeScalar::none)
      continue;
    rank::StateOp found = stateOf(facts.role);
    bool isOptional = facts.scalar == RuntimeScalar::optional || !trains;
    if (!found && isOptional) {
      scalars += scalars.empty() ? "{-1, 0}" : ", {-1, 0}";
      continue;
    }
    if (!found)
      return program.emitError("stage ") << program.getStage() << " has no state of role \"" << facts.name
                                         << "\", which the runtime reads";
    scalars += (scalars.empty() ? "" : ", ") + bufferRef(found.getArenaAttr(), *found.getOffset());
  }
  // Those that many programs lack come last, and are left out behind the last one that is there.
  auto scalar = [&](StringRef name) {
    auto found = program.lookupSymbol<rank::ScalarOp>(name);
    return found ? bufferRef(found.getArenaAttr(), *found.getOffset()) : std::string();
  };
  std::string momentum = scalar("momentum"), rate = options.architectures.empty() ? "" : scalar("lr"), correct;
  if (rank::StateOp counted = stateOf(StateRole::correctCount))
    correct = bufferRef(counted.getArenaAttr(), *counted.getOffset());
  std::string skipped;
  for (const std::string &optional : {momentum, rate, correct}) {
    skipped += optional.empty() ? ", {-1, 0}" : "";
    if (!optional.empty())
      scalars += std::exchange(skipped, "") + ", " + optional;
  }
  return scalars;
}

LogicalResult TableEmitter::emitProgram() {
  FailureOr<std::string> scalars = scalarsText();
  if (failed(scalars))
    return failure();
  // A stage in the middle reads no input: the batch is the same everywhere. Where nothing is a token, a sample is one.
  int64_t samples = 1, sequence = std::max<int64_t>(1, tokensOfSample(module));
  for (auto any : module.getOps<rank::ProgramOp>())
    for (auto input : any.getOps<rank::InputOp>()) {
      ArrayRef<int64_t> shape = input.getBufferType().getShape();
      if (shape.empty() || input.getSourceFacts().source == InputSource::random)
        continue;
      samples = shape[0];
    }
  std::string name = options.name + ".stage" + std::to_string(program.getStage());
  os << "constexpr hycrt::Program kProgram = {\n";
  os << "    .name = " << quoted(name) << ",\n    .planHash = " << llvm::format_hex(options.planHash, 18) << ",\n";
  os << "    .mesh = " << describeMesh() << ",\n";
  os << "    .stage = " << program.getStage() << ",\n";
  // Kernels of GPUs have no threads of the host's, so that their workspaces say nothing of how many there may be.
  std::optional<int64_t> threads = program.getThreads();
  if (threads && !program->getParentOfType<ModuleOp>()->hasAttr(kTargetAttribute))
    os << "    .threads = " << *threads << ",\n";
  if (std::optional<int64_t> fixed = program.getFixedBytes())
    os << "    .fixedBytes = " << *fixed << ",\n";
  if (program.getWritesBuffers())
    os << "    .writesBuffers = true,\n";
  if (program.getPoison())
    os << "    .poisons = true,\n";
  if (!options.architectures.empty())
    os << "    .architectures = kArchitectures,\n";
  os << "    .batch = {.samples = " << samples << ", .microBatches = " << microBatches << ", .sequence = " << sequence
     << "},\n";
  os << "    .scalars = {" << *scalars
     << "},  // loss sum, token count, gradient norm; loss scale, hysteresis, applied steps; momentum, learning rate\n";
  os << "    .arenas = kArenas,\n    .states = " << tableUse("StateDesc", "kStates")
     << ",\n    .inputs = " << tableUse("InputDesc", "kInputs")
     << ",\n    .groups = " << tableUse("GroupDesc", "kGroups")
     << ",\n    .collectives = " << tableUse("CollectiveDesc", "kCollectives")
     << ",\n    .transfers = " << tableUse("TransferDesc", "kTransfers") << ",\n    .entries = kEntries,\n"
     << (program.getOps<rank::SiteOp>().empty() ? "" : "    .checksFinite = true,\n");
  if (std::optional<int64_t> snapshot = program.getSnapshotBytes())
    os << "    .snapshotBytes = " << *snapshot << ",\n";
  if (std::optional<int64_t> writer = program.getCheckpointWriterBytes())
    os << "    .checkpointWriterBytes = " << *writer << ",\n";
  if (meetsInMicroBatches(program, mesh))
    os << "    .meetsInMicroBatches = true,\n";
  if (program.getPrepare())
    os << "    .prepare = runPrepare,\n";
  os << "};\n\n";
  return success();
}

LogicalResult TableEmitter::emit() {
  os << "namespace {\n\n";
  emitArenas();
  if (failed(emitStates()))
    return failure();
  emitInputs();
  emitExchanges();
  if (failed(emitEntries()))
    return failure();
  if (!options.architectures.empty())
    os << "constexpr int kArchitectures[] = " << braced(options.architectures) << ";  // of GPUs\n\n";
  if (failed(emitProgram()))
    return failure();
  os << "}  // namespace\n\n";
  os << "#ifdef HYC_EMBEDDED  // what a program of one's own runs: hycrt/run.h\n"
     << "const hycrt::Program& " << "stage" << program.getStage() << "Program() { return kProgram; }\n#else\n"
     << "int main(int argc, char** argv) { return hycrt::runProgram(argc, argv, kProgram"
     << (options.architectures.empty() ? "" : ", hycrt::makeCudaDevice") << "); }\n#endif\n";
  return success();
}

} // namespace

LogicalResult cpp::emitTables(rank::ProgramOp program, const CppOptions &options, ArrayRef<std::string> modelFiles,
                              raw_ostream &os) {
  return TableEmitter(program, options, modelFiles, os).emit();
}
