// How names, numbers and types of the IR are spelled in C++.
#ifndef HYC_LIB_TARGET_CPP_NAMES_H
#define HYC_LIB_TARGET_CPP_NAMES_H

#include "dialects/Dist/DistDialect.h"
#include "dialects/Rank/RankDialect.h"

#include <string>

namespace hyc::cpp {

/// "forward.h" -> "forwardH"; "transformer.h.0" -> "transformerH0".
std::string camelCase(llvm::StringRef name);
/// "kForwardH".
std::string constantName(llvm::StringRef name);
/// "forward.1" -> "runForward1": what the runtime calls.
std::string runnerName(llvm::StringRef function);
/// "ln_1.weight" -> "ln_1_weight".
std::string identifier(llvm::StringRef name);

/// "text", quoted and escaped.
std::string quoted(llvm::StringRef text);
/// For a comment: no line ends.
std::string oneLine(llvm::StringRef text);

/// "float" of f32: as memory keeps elements.
llvm::StringRef elementType(mlir::Type type);
/// "float" of f32 and narrower floats: as they are computed with.
llvm::StringRef scalarType(mlir::Type type);
/// "f32": the function of addresses.h.
llvm::StringRef addressFunction(mlir::Type type);
/// "hycrt::DType::kF32".
std::string dtype(mlir::Type type);

std::string number(double value);
/// A literal of the attribute's own type.
std::string literal(mlir::TypedAttr value);
/// "{4, 64}".
std::string braced(llvm::ArrayRef<int64_t> values);
/// "(4, 64)", for comments.
std::string shapeText(rank::BufferType type);
/// What emitted code calls an axis: "kAxisDp".
std::string axisName(mlir::StringAttr axis);
/// This rank's linear coordinate along the axes: "ctx.coordinate({kAxisDp, kAxisTp})".
std::string coordinate(dist::AxisListAttr axes);
/// "{kAxisDp, kAxisTp}", in order.
std::string axisList(dist::AxisListAttr axes);
/// "kAxisDp | kAxisTp".
std::string axisSet(dist::AxisListAttr axes);
/// Of an exchange's name "all_reduce" the runtime's: "hycrt::CollectiveKind::kAllReduce", "hycrt::allReduceStart".
std::string exchangeKind(dist::ExchangeKind kind);
std::string exchangeStart(dist::ExchangeKind kind);

} // namespace hyc::cpp

#endif // HYC_LIB_TARGET_CPP_NAMES_H
