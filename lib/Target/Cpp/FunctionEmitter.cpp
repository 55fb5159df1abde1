// Functions: pieces, declarations, addresses, shared layers.
#include "FunctionEmitter.h"

#include "dialects/Hyc/HycDialect.h"
#include "hyc/Analysis/TimedCalls.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::cpp;

namespace {
constexpr size_t kCallsPerPiece = 32;
}

FunctionEmitter::FunctionEmitter(rank::FuncOp func, dist::MeshOp mesh, MakeCallPrinter makePrinter,
                                 std::set<std::string> &headers)
    : func(func), mesh(mesh), makePrinter(makePrinter), printer(makePrinter(*this)), headers(headers) {
  if (func.isShared()) {
    structName = camelCase(func.getSymName());
    structName[0] = llvm::toUpper(structName[0]);
  }
  numberMoves();
}

/// Unlike collectives, moves may be under way from one piece to the next: their tickets are kept in one array.
void FunctionEmitter::numberMoves() {
  for (auto move : func.getBlock().getOps<rank::MoveOp>())
    moves.try_emplace(move.getTicket(), "moves[" + std::to_string(moves.size()) + "]");
}

std::string FunctionEmitter::parameters() const {
  return std::string("[[maybe_unused]] hycrt::Context& ctx, [[maybe_unused]] const hycrt::Call& call") +
         (structName.empty() ? "" : ", const " + structName + "& at");
}

std::string FunctionEmitter::arguments() const { return structName.empty() ? "ctx, call" : "ctx, call, at"; }

std::string FunctionEmitter::movesDeclaration() const {
  return "  hycrt::MoveTicket moves[" + std::to_string(moves.size()) + "];\n";
}

//===----------------------------------------------------------------------===//
// Pieces
//===----------------------------------------------------------------------===//

/// Cuts where no collective is under way: tickets stay inside one piece.
SmallVector<FunctionEmitter::Piece> FunctionEmitter::cut() const {
  SmallVector<Piece> pieces(1);
  int64_t open = 0;
  for (Operation &op : const_cast<rank::FuncOp &>(func).getBlock()) {
    if (isa<rank::AtOp, rank::RowOp>(op))
      continue;
    bool continuesRun =
        isa<rank::InvokeOp>(op) && !pieces.back().calls.empty() && isa<rank::InvokeOp>(pieces.back().calls.back());
    if (pieces.back().calls.size() >= kCallsPerPiece && open == 0 && !continuesRun)
      pieces.emplace_back();
    pieces.back().calls.push_back(&op);
    if (auto wait = dyn_cast<rank::WaitOp>(op); wait && moves.contains(wait.getTicket()))
      continue;
    open += isa<rank::StartOp>(op) - isa<rank::WaitOp>(op);
  }
  return pieces;
}

void FunctionEmitter::emitStruct(raw_ostream &os) {
  ArrayAttr names = func.getArgumentNamesAttr(), arenas = func.getArgumentArenasAttr();
  os << "// What differs between the layers that run " << camelCase(func.getSymName())
     << ": offsets in bytes, collectives.\n";
  os << "struct " << structName << " {\n";
  for (auto [name, arena] :
       llvm::zip_equal(names.getAsValueRange<StringAttr>(), arenas.getAsValueRange<StringAttr>())) {
    if (arena.empty())
      os << "  int " << identifier(name) << ";\n";
    else
      os << "  int64_t " << identifier(name) << ";  // " << arena.split(' ').first << "\n";
  }
  os << "};\n\n";
}

LogicalResult FunctionEmitter::emitPiece(raw_ostream &os, ArrayRef<Operation *> calls, StringRef name, StringRef more) {
  before.clear();
  text.clear();
  usedArenas.clear();
  usedShards.clear();
  usesMode = usesBeta = false;
  if (failed(emitCalls(calls)))
    return failure();
  os << before << "static void " << name << "(" << parameters() << more
     << (passesMoves ? ", [[maybe_unused]] hycrt::MoveTicket* moves" : "") << ") {\n";
  if (!moves.empty() && !passesMoves)
    os << movesDeclaration();
  for (const auto &[arena, perSlot] : usedArenas) {
    os << "  std::byte* const " << identifier(arena) << (perSlot ? "Slot" : "") << " = " << printer->arenaFunction()
       << "(" << constantName(arena) << ")";
    if (perSlot)
      os << " + call.slot * " << constantName(arena) << "RecordBytes";
    os << ";\n";
  }
  os << printer->declarations();
  for (const auto &[variable, declaration] : usedShards)
    os << "  " << declaration << "\n";
  if (usesMode)
    os << "  const WriteMode mode = call.first ? WriteMode::kOverwrite : WriteMode::kAccumulate;\n";
  if (usesBeta)
    os << "  const double beta = call.first ? 0 : 1;\n";
  os << text << "}\n\n";
  return success();
}

LogicalResult FunctionEmitter::emitCalls(ArrayRef<Operation *> calls) {
  for (size_t i = 0; i < calls.size(); ++i) {
    if (auto invoke = dyn_cast<rank::InvokeOp>(calls[i])) {
      size_t end = i + 1;
      while (end < calls.size() && isa<rank::InvokeOp>(calls[end]) &&
             cast<rank::InvokeOp>(calls[end]).getCallee() == invoke.getCallee())
        ++end;
      emitInvokes(calls.slice(i, end - i));
      i = end - 1;
    } else if (size_t printed = printer->printRun(calls.drop_front(i))) {
      emitMark(calls.slice(i, printed));
      i += printed - 1;
    } else if (failed(emitOp(calls[i]))) {
      return failure();
    } else {
      emitMark(calls.slice(i, 1));
    }
  }
  return success();
}

LogicalResult FunctionEmitter::emit(raw_ostream &os, bool hasCall) {
  std::string name = camelCase(func.getSymName());
  if (!structName.empty())
    emitStruct(os);
  SmallVector<Piece> pieces = cut();
  if (pieces.size() == 1)
    return emitPiece(os, pieces.front().calls, name);
  std::string calls;
  passesMoves = !moves.empty();
  for (auto [i, piece] : llvm::enumerate(pieces)) {
    std::string pieceName = name + "Part" + std::to_string(i + 1);
    if (failed(emitPiece(os, piece.calls, pieceName)))
      return failure();
    calls += "  " + pieceName + "(" + arguments() + (passesMoves ? ", moves" : "") + ");\n";
  }
  os << "static void " << name << "(" << parameters() << ") {\n"
     << (passesMoves ? movesDeclaration() : "") << calls << "}\n\n";
  return success();
}

//===----------------------------------------------------------------------===//
// Expressions
//===----------------------------------------------------------------------===//

std::string FunctionEmitter::arenaBase(StringRef arena, bool perSlot) {
  usedArenas.insert({arena.str(), perSlot});
  return identifier(arena) + (perSlot ? "Slot" : "");
}

/// "turn * 512", "turn % 2 * -64"
static std::string turned(rank::AtOp place) {
  auto step = static_cast<int64_t>(place.getStep()), period = static_cast<int64_t>(place.getPeriod());
  return (period ? "turn % " + std::to_string(period) : std::string("turn")) + " * " + std::to_string(step);
}

FunctionEmitter::Offset FunctionEmitter::offsetOf(Value buffer) const {
  if (auto place = buffer.getDefiningOp<rank::AtOp>())
    return {place.getArena().str(),
            std::to_string(place.getOffset()) + (place.getStep() == 0 ? "" : " + " + turned(place)),
            place.getPerSlot()};
  unsigned index = cast<BlockArgument>(buffer).getArgNumber();
  rank::FuncOp shared = func;
  StringRef arena = cast<StringAttr>(shared.getArgumentArenasAttr()[index]).getValue();
  StringRef name = cast<StringAttr>(shared.getArgumentNamesAttr()[index]).getValue();
  return {arena.split(' ').first.str(), "at." + identifier(name), arena.ends_with(" per_slot")};
}

std::string FunctionEmitter::bytes(Value buffer) {
  Offset offset = offsetOf(buffer);
  return arenaBase(offset.arena, offset.perSlot) + " + " + offset.text;
}

std::string FunctionEmitter::pointer(Value buffer) {
  auto type = cast<rank::BufferType>(buffer.getType());
  std::string address = (addressFunction(type.getElementType()) + "(" + bytes(buffer) + ")").str();
  return type.isShard() ? address + " + " + shard(type) + ".begin" : address;
}

std::string FunctionEmitter::shard(rank::BufferType type) {
  std::string name;
  for (StringAttr axis : type.getShardAxes().getAxes())
    name += axis.getValue();
  std::string size = std::to_string(type.getNumElements()), whole = std::to_string(type.getWholeElements());
  name = identifier(name + size + "Of" + whole);
  usedShards[name] = "const hycrt::FlatShard " + name + " = hycrt::flatShard(" + coordinate(type.getShardAxes()) +
                     ", " + size + ", " + whole + ");";
  return name;
}

std::string FunctionEmitter::count(ArrayRef<Value> operands) {
  for (Value operand : operands)
    if (auto type = cast<rank::BufferType>(operand.getType()); type.isShard())
      return shard(type) + ".count";
  return std::to_string(cast<rank::BufferType>(operands.front().getType()).getNumElements());
}

std::string FunctionEmitter::bufferRef(Value buffer) {
  Offset offset = offsetOf(buffer);
  std::string shift = offset.perSlot ? " + call.slot * " + constantName(offset.arena) + "RecordBytes" : "";
  if (auto type = cast<rank::BufferType>(buffer.getType()); type.isShard())
    shift += " + " + shard(type) + ".begin * " + std::to_string(type.getElementBytes());
  return "{" + constantName(offset.arena) + ", " + offset.text + shift + "}";
}

std::string FunctionEmitter::row(Value row) {
  if (auto op = row.getDefiningOp<rank::RowOp>())
    return constantName(("row." + op.getEntry()).str());
  unsigned index = cast<BlockArgument>(row).getArgNumber();
  return "at." + identifier(cast<StringAttr>(func.getArgumentNamesAttr()[index]).getValue());
}

std::string FunctionEmitter::mode(rank::WriteMode mode) {
  switch (mode) {
  case rank::WriteMode::overwrite:
    return "WriteMode::kOverwrite";
  case rank::WriteMode::add:
    return "WriteMode::kAccumulate";
  case rank::WriteMode::first:
    usesMode = true;
    return "mode";
  }
  return "";
}

//===----------------------------------------------------------------------===//
// Statements
//===----------------------------------------------------------------------===//

void FunctionEmitter::comment(Operation *op, StringRef text) {
  StringAttr id = getIdAttr(op);
  if (!id && text.empty())
    return;
  body << "  // " << (id ? oneLine(id.getValue()) : "") << (id && !text.empty() ? ": " : "") << text << "\n";
}

void FunctionEmitter::line(const Twine &text) { body << "  " << text << "\n"; }

/// One call, broken after commas where it would pass column 120.
void FunctionEmitter::callLine(StringRef function, ArrayRef<std::string> arguments) {
  std::string current = ("  " + function + "(").str(), all;
  std::string indent(std::min<size_t>(current.size(), 40), ' ');
  for (auto [i, argument] : llvm::enumerate(arguments))
    all += argument + (i + 1 == arguments.size() ? ");" : ", ");
  // A piece ends at a comma outside parentheses; braces may be broken inside.
  size_t begin = 0;
  int depth = 0;
  auto take = [&](size_t end) {
    std::string piece = all.substr(begin, end - begin);
    if (current.size() + StringRef(piece).rtrim().size() > 120 && begin > 0) {
      body << StringRef(current).rtrim() << "\n";
      current = indent;
    }
    current += piece;
    begin = end;
  };
  for (size_t i = 0; i + 1 < all.size(); ++i) {
    depth += (all[i] == '(') - (all[i] == ')');
    if (all[i] == ',' && all[i + 1] == ' ' && depth == 0)
      take(i + 2);
  }
  take(all.size());
  body << StringRef(current).rtrim() << "\n";
}

void FunctionEmitter::declareValues(rank::CallOp op) {
  constexpr size_t kColumns = 108;
  auto values = op->getAttrOfType<DenseElementsAttr>("values");
  Type type = cast<rank::BufferType>(op.getOuts()[0].getType()).getElementType();
  std::string element = elementType(type).str(), list;
  size_t column = 0;
  for (Attribute value : values.getValues<Attribute>()) {
    std::string text = literal(cast<TypedAttr>(value));
    text = (isNarrowFloat(type) ? element + "(" + text + ")" : text) + ", ";
    if ((column += text.size()) > kColumns) {
      list += "\n      ";
      column = text.size();
    }
    list += text;
  }
  line("  static constexpr " + element + " values[] = {" + list + "};");
}

void FunctionEmitter::table(StringRef type, StringRef name, StringRef rows) {
  body << "    const " << type << " " << name << "[] = {\n" << rows << "    };\n";
}

/// Where a profile reads the clock: at the end of each statement that timedCalls tells of.
void FunctionEmitter::emitMark(ArrayRef<Operation *> printed) {
  int64_t timed = llvm::count_if(printed, isTimed);
  if (timed > 0)
    line(timed == 1 ? "hycrt::mark(ctx);" : "hycrt::mark(ctx, " + std::to_string(timed) + ");");
}

void FunctionEmitter::emitInvokes(ArrayRef<Operation *> invokes) {
  auto first = cast<rank::InvokeOp>(invokes.front());
  std::string function = camelCase(first.getCallee()), type = function;
  type[0] = llvm::toUpper(type[0]);
  if (first.getArguments().empty()) { // layers that are one module called again, of which nothing differs
    body << "  for (int layer = 0; layer < " << invokes.size() << "; ++layer) " << function << "(ctx, call);\n";
    return;
  }
  body << "  static constexpr " << type << " k" << type << "[] = {\n";
  for (Operation *op : invokes) {
    if (StringAttr id = getIdAttr(op))
      body << "      // " << oneLine(id.getValue()) << "\n";
    std::string current = "      {";
    auto arguments = cast<rank::InvokeOp>(op).getArguments();
    for (auto [i, argument] : llvm::enumerate(arguments)) {
      auto place = argument.getDefiningOp<rank::AtOp>();
      std::string piece =
          (place ? std::to_string(place.getOffset()) : row(argument)) + (i + 1 == arguments.size() ? "}," : ", ");
      if (current.size() + piece.size() > 120) {
        body << StringRef(current).rtrim() << "\n";
        current = "       ";
      }
      current += piece;
    }
    body << current << "\n";
  }
  body << "  };\n";
  body << "  for (const " << type << "& layer : k" << type << ") " << function << "(ctx, call, layer);\n";
}

LogicalResult FunctionEmitter::emitTurn(ArrayRef<Operation *> calls) {
  if (calls.size() <= kCallsPerPiece)
    return emitCalls(calls);
  for (; !calls.empty(); calls = calls.drop_front(std::min(calls.size(), kCallsPerPiece))) {
    std::string name = camelCase(func.getSymName()) + "Turn" + std::to_string(++turnParts);
    FunctionEmitter part(func, mesh, *makePrinter, headers);
    part.moves.clear(); // none are made in a turn
    llvm::raw_string_ostream os(before);
    if (failed(part.emitPiece(os, calls.take_front(kCallsPerPiece), name, ", [[maybe_unused]] const int64_t turn")))
      return failure();
    line(name + "(" + arguments() + ", turn);");
  }
  return success();
}

LogicalResult FunctionEmitter::emitRepeat(rank::RepeatOp op) {
  SmallVector<Operation *> calls;
  for (Operation &call : op.getBlock())
    if (!isa<rank::AtOp, rank::RowOp>(call))
      calls.push_back(&call);
  comment(op);
  line("for (int64_t turn = 0; turn < " + Twine(op.getTimes()) + "; ++turn) {");
  std::string turn;
  std::swap(turn, text);
  if (failed(emitTurn(calls)))
    return failure();
  std::swap(turn, text);
  SmallVector<StringRef> lines;
  StringRef(turn).rtrim('\n').split(lines, '\n');
  for (StringRef each : lines)
    body << "  " << each << "\n";
  line("}");
  return success();
}

LogicalResult FunctionEmitter::emitOp(Operation *op) {
  if (auto repeat = dyn_cast<rank::RepeatOp>(op))
    return emitRepeat(repeat);
  if (auto gemm = dyn_cast<rank::GemmOp>(op))
    return emitGemm(gemm), success();
  if (auto launch = dyn_cast<rank::LaunchOp>(op))
    return emitLaunch(launch), success();
  if (auto start = dyn_cast<rank::StartOp>(op))
    return emitStart(start), success();
  if (auto move = dyn_cast<rank::MoveOp>(op))
    return emitMove(move), success();
  if (auto wait = dyn_cast<rank::WaitOp>(op); wait && moves.contains(wait.getTicket()))
    return line("hycrt::wait(ctx, " + moves[wait.getTicket()] + ");"), success();
  if (auto wait = dyn_cast<rank::WaitOp>(op))
    return line("hycrt::wait(ctx, " + tickets[wait.getTicket()] + ");"), success();
  if (auto check = dyn_cast<rank::CheckOp>(op))
    return emitCheck(check), success();
  if (auto call = dyn_cast<rank::CallOp>(op))
    return printer->print(call);
  return op->emitOpError("has no spelling in C++; expected a call, after hyc-verify-rank");
}
