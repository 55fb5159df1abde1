// Text and checks of the dist attributes.
#include "dialects/Dist/AttributeText.h"
#include "dialects/Dist/DistDialect.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/SmallSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace hyc::dist;

#define GET_ATTRDEF_CLASSES
#include "dialects/Dist/DistAttrs.cpp.inc"

void DistDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/Dist/DistAttrs.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// axes
//===----------------------------------------------------------------------===//

FailureOr<AxisListAttr> AxisListAttr::parseBraces(AsmParser &parser) {
  SmallVector<StringAttr> axes;
  auto parseAxis = [&]() -> ParseResult {
    StringRef name;
    if (parser.parseKeyword(&name))
      return failure();
    axes.push_back(StringAttr::get(parser.getContext(), name));
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Braces, parseAxis, " in an axis list"))
    return failure();
  return AxisListAttr::get(parser.getContext(), axes);
}

static void writeBraces(llvm::raw_ostream &os, AxisListAttr axes) {
  os << '{';
  llvm::interleaveComma(axes.getAxes(), os, [&](StringAttr axis) { os << axis.getValue(); });
  os << '}';
}

void AxisListAttr::printBraces(AsmPrinter &printer) const { writeBraces(printer.getStream(), *this); }

/// What follows the attribute's name.
static void write(llvm::raw_ostream &os, AxisListAttr axes) {
  os << '<';
  writeBraces(os, axes);
  os << '>';
}

static void write(llvm::raw_ostream &os, ShardingAttr sharding) {
  os << "<[";
  llvm::interleaveComma(sharding.getDims(), os, [&](AxisListAttr axes) { writeBraces(os, axes); });
  os << ']';
  auto writeOptional = [&](StringRef keyword, AxisListAttr axes) {
    if (axes.empty())
      return;
    os << ' ' << keyword << ' ';
    writeBraces(os, axes);
  };
  writeOptional("partial", sharding.getPartial());
  writeOptional("partial_max", sharding.getPartialMax());
  writeOptional("flat", sharding.getFlat());
  os << '>';
}

/// With the name.
template <typename AttrT> static std::string spell(AttrT attribute) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << '#' << DistDialect::getDialectNamespace() << '.' << AttrT::getMnemonic();
  write(os, attribute);
  return text;
}

std::string hyc::dist::textOf(AxisListAttr axes) { return spell(axes); }
std::string hyc::dist::textOf(ShardingAttr sharding) { return spell(sharding); }

Attribute AxisListAttr::parse(AsmParser &parser, Type) {
  if (parser.parseLess())
    return {};
  FailureOr<AxisListAttr> axes = parseBraces(parser);
  if (failed(axes) || parser.parseGreater())
    return {};
  return *axes;
}

void AxisListAttr::print(AsmPrinter &printer) const { write(printer.getStream(), *this); }

//===----------------------------------------------------------------------===//
// sharding
//===----------------------------------------------------------------------===//

Attribute ShardingAttr::parse(AsmParser &parser, Type) {
  SmallVector<AxisListAttr> dims;
  auto parseDim = [&]() -> ParseResult {
    FailureOr<AxisListAttr> axes = AxisListAttr::parseBraces(parser);
    if (failed(axes))
      return failure();
    dims.push_back(*axes);
    return success();
  };
  AxisListAttr none = AxisListAttr::get(parser.getContext(), {});
  AxisListAttr partial = none, partialMax = none, flat = none;
  auto parseOptional = [&](StringRef keyword, AxisListAttr &axes) -> ParseResult {
    if (failed(parser.parseOptionalKeyword(keyword)))
      return success();
    FailureOr<AxisListAttr> parsed = AxisListAttr::parseBraces(parser);
    if (failed(parsed))
      return failure();
    axes = *parsed;
    return success();
  };
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() || parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseDim, " in a sharding") ||
      parseOptional("partial", partial) || parseOptional("partial_max", partialMax) || parseOptional("flat", flat) ||
      parser.parseGreater())
    return {};
  return ShardingAttr::getChecked([&] { return parser.emitError(loc); }, parser.getContext(), dims, partial, partialMax,
                                  flat);
}

void ShardingAttr::print(AsmPrinter &printer) const { write(printer.getStream(), *this); }

LogicalResult ShardingAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, ArrayRef<AxisListAttr> dims,
                                   AxisListAttr partial, AxisListAttr partialMax, AxisListAttr flat) {
  llvm::SmallSet<StringRef, 4> seen;
  auto addAll = [&](AxisListAttr axes) -> LogicalResult {
    for (StringAttr axis : axes.getAxes())
      if (!seen.insert(axis.getValue()).second)
        return emitError() << "[sharding.axis_once] axis \"" << axis.getValue() << "\" is named twice";
    return success();
  };
  for (AxisListAttr axes : dims)
    if (failed(addAll(axes)))
      return failure();
  return success(succeeded(addAll(partial)) && succeeded(addAll(partialMax)) && succeeded(addAll(flat)));
}

ShardingAttr ShardingAttr::replicated(MLIRContext *context, int64_t tensorRank) {
  AxisListAttr none = AxisListAttr::get(context, {});
  return ShardingAttr::get(context, SmallVector<AxisListAttr>(tensorRank, none), none, none, none);
}

ShardingAttr ShardingAttr::get(MLIRContext *context, ArrayRef<SmallVector<StringAttr>> dims,
                               ArrayRef<StringAttr> partial, ArrayRef<StringAttr> partialMax,
                               ArrayRef<StringAttr> flat) {
  SmallVector<AxisListAttr> lists;
  for (const SmallVector<StringAttr> &axes : dims)
    lists.push_back(AxisListAttr::get(context, axes));
  return ShardingAttr::get(context, lists, AxisListAttr::get(context, partial), AxisListAttr::get(context, partialMax),
                           AxisListAttr::get(context, flat));
}

bool ShardingAttr::isReplicated() const {
  return llvm::all_of(getDims(), [](AxisListAttr axes) { return axes.empty(); }) && getPartial().empty() &&
         getPartialMax().empty() && getFlat().empty();
}

bool ShardingAttr::splits(StringAttr axis) const {
  return llvm::any_of(getDims(), [&](AxisListAttr axes) { return axes.contains(axis); });
}

ShardingAttr ShardingAttr::withDims(ArrayRef<AxisListAttr> dims) const {
  return ShardingAttr::get(getContext(), dims, getPartial(), getPartialMax(), getFlat());
}

ShardingAttr ShardingAttr::withoutPartial() const {
  AxisListAttr none = AxisListAttr::get(getContext(), {});
  return ShardingAttr::get(getContext(), getDims(), none, none, getFlat());
}

ShardingAttr ShardingAttr::withFlat(AxisListAttr flat) const {
  return ShardingAttr::get(getContext(), getDims(), getPartial(), getPartialMax(), flat);
}

ShardingAttr ShardingAttr::withoutFlat() const { return withFlat(AxisListAttr::get(getContext(), {})); }

//===----------------------------------------------------------------------===//
// group
//===----------------------------------------------------------------------===//

Attribute GroupAttr::parse(AsmParser &parser, Type) {
  SmallVector<int64_t> stages;
  auto parseStage = [&]() -> ParseResult { return parser.parseInteger(stages.emplace_back()); };
  if (parser.parseLess())
    return {};
  FailureOr<AxisListAttr> axes = AxisListAttr::parseBraces(parser);
  if (failed(axes))
    return {};
  if (succeeded(parser.parseOptionalKeyword("stages")) &&
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseStage, " in a stage list"))
    return {};
  if (parser.parseGreater())
    return {};
  return GroupAttr::get(parser.getContext(), *axes, stages);
}

std::string hyc::dist::textOf(GroupAttr group) {
  std::string text;
  llvm::raw_string_ostream os(text);
  writeBraces(os, group.getAxes());
  if (group.getStages().empty())
    return text;
  os << " stages [";
  llvm::interleaveComma(group.getStages(), os);
  os << ']';
  return text;
}

void GroupAttr::print(AsmPrinter &printer) const { printer << '<' << textOf(*this) << '>'; }

//===----------------------------------------------------------------------===//
// lifetime
//===----------------------------------------------------------------------===//

Attribute LifetimeAttr::parse(AsmParser &parser, Type) {
  StringRef keyword;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() || parser.parseKeyword(&keyword))
    return {};
  std::optional<LifetimeKind> kind = symbolizeLifetimeKind(keyword);
  if (!kind) {
    parser.emitError(loc, "lifetime is \"") << keyword << "\", expected save, recompute or offload";
    return {};
  }
  AxisListAttr over = AxisListAttr::get(parser.getContext(), {});
  if (succeeded(parser.parseOptionalKeyword("over"))) {
    FailureOr<AxisListAttr> axes = AxisListAttr::parseBraces(parser);
    if (failed(axes))
      return {};
    over = *axes;
  }
  if (parser.parseGreater())
    return {};
  return LifetimeAttr::getChecked([&] { return parser.emitError(loc); }, parser.getContext(), *kind, over);
}

void LifetimeAttr::print(AsmPrinter &printer) const {
  printer << '<' << stringifyLifetimeKind(getKind());
  if (!getOver().empty()) {
    printer << " over ";
    getOver().printBraces(printer);
  }
  printer << '>';
}

LogicalResult LifetimeAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, LifetimeKind kind,
                                   AxisListAttr over) {
  if (kind != LifetimeKind::recompute || over.empty())
    return success();
  return emitError() << "[lifetime.over] what is computed again is kept nowhere, but axes were given";
}

LifetimeAttr LifetimeAttr::get(MLIRContext *context, LifetimeKind kind) {
  return LifetimeAttr::get(context, kind, AxisListAttr::get(context, {}));
}

LifetimeAttr LifetimeAttr::of(Operation *op) {
  auto recorded = op->getAttrOfType<LifetimeAttr>(kLifetime);
  return recorded ? recorded : get(op->getContext(), LifetimeKind::save);
}

//===----------------------------------------------------------------------===//
// transfer and do
//===----------------------------------------------------------------------===//

static ParseResult parseWhich(AsmParser &parser, int64_t &virtualStage, int64_t &microBatch, int64_t &slot) {
  if (succeeded(parser.parseOptionalKeyword("virtual_stage")) && parser.parseInteger(virtualStage))
    return failure();
  return failure(parser.parseKeyword("micro_batch") || parser.parseInteger(microBatch) || parser.parseKeyword("slot") ||
                 parser.parseInteger(slot));
}

FailureOr<TransferAttr> TransferAttr::parseBare(AsmParser &parser) {
  StringRef verb, direction;
  int64_t virtualStage = 0, microBatch = 0, slot = 0;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&verb) || parser.parseKeyword(&direction) ||
      parseWhich(parser, virtualStage, microBatch, slot))
    return failure();
  std::optional<Direction> parsed = symbolizeDirection(direction);
  if ((verb != "send" && verb != "receive") || !parsed) {
    parser.emitError(loc, "expected send or receive, and forward or backward");
    return failure();
  }
  return TransferAttr::get(parser.getContext(), verb == "send", *parsed, virtualStage, microBatch, slot);
}

static void printWhich(AsmPrinter &printer, int64_t virtualStage, int64_t microBatch, int64_t slot) {
  if (virtualStage != 0)
    printer << " virtual_stage " << virtualStage;
  printer << " micro_batch " << microBatch << " slot " << slot;
}

void TransferAttr::printBare(AsmPrinter &printer) const {
  printer << (getIsSend() ? "send " : "receive ") << stringifyDirection(getDirection());
  printWhich(printer, getVirtualStage(), getMicroBatch(), getSlot());
}

Attribute TransferAttr::parse(AsmParser &parser, Type) {
  if (parser.parseLess())
    return {};
  FailureOr<TransferAttr> transfer = parseBare(parser);
  if (failed(transfer) || parser.parseGreater())
    return {};
  return *transfer;
}

void TransferAttr::print(AsmPrinter &printer) const {
  printer << '<';
  printBare(printer);
  printer << '>';
}

Attribute InstructionAttr::parse(AsmParser &parser, Type) {
  StringRef keyword;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() || parser.parseKeyword(&keyword))
    return {};
  std::optional<InstructionKind> kind = symbolizeInstructionKind(keyword);
  if (!kind)
    return parser.emitError(loc, "unknown instruction '") << keyword << "'", Attribute();
  int64_t virtualStage = 0, microBatch = 0, slot = 0;
  SmallVector<TransferAttr> transfers;
  if (*kind == InstructionKind::forward || *kind == InstructionKind::backward) {
    if (parseWhich(parser, virtualStage, microBatch, slot))
      return {};
  } else if (*kind == InstructionKind::exchange) {
    auto parseTransfer = [&]() -> ParseResult {
      FailureOr<TransferAttr> transfer = TransferAttr::parseBare(parser);
      if (failed(transfer))
        return failure();
      transfers.push_back(*transfer);
      return success();
    };
    if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseTransfer, " in an exchange"))
      return {};
  }
  if (parser.parseGreater())
    return {};
  return InstructionAttr::get(parser.getContext(), *kind, virtualStage, microBatch, slot, transfers);
}

void InstructionAttr::print(AsmPrinter &printer) const {
  printer << '<' << stringifyInstructionKind(getKind());
  if (getKind() == InstructionKind::forward || getKind() == InstructionKind::backward)
    printWhich(printer, getVirtualStage(), getMicroBatch(), getSlot());
  if (getKind() == InstructionKind::exchange) {
    printer << " [";
    llvm::interleaveComma(getTransfers(), printer, [&](TransferAttr transfer) { transfer.printBare(printer); });
    printer << ']';
  }
  printer << '>';
}
