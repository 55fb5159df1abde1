// Memory: the arenas of one simulated rank, byte by byte, with a note on every byte: whether anything was written
// there, and whether an exchange is using it. Reading what nothing wrote, or touching what an exchange holds, is a
// diagnostic.
//
// The surprise: under wide arithmetic every byte address counts four times, so that an f64 fits where the program keeps
// 16 bits, and offsets, strides and overlaps stay what they are.
#ifndef HYC_LIB_INTERPRETER_RANK_MEMORY_H
#define HYC_LIB_INTERPRETER_RANK_MEMORY_H

#include "hyc/Interpreter/Device.h"
#include "mlir/IR/Operation.h"
#include "llvm/Support/LogicalResult.h"
#include <map>

namespace hyc::interpreter {

enum class ByteNote : uint8_t {
  Undefined, ///< nothing wrote it since it was freed
  Defined,
  Lent,     ///< the source of an unfinished exchange: may be read
  Promised, ///< the destination of an unfinished exchange: may not be touched
};

struct Arena {
  std::string name;
  int64_t bytes = 0, recordBytes = 0;
  std::vector<uint8_t> data;   ///< kWideScale times as many bytes under wide arithmetic
  std::vector<ByteNote> notes; ///< one a byte of the program
};

/// Elements of an arena. Strides count elements and may repeat (0) where only read.
struct Extent {
  Arena *arena = nullptr;
  int64_t offset = 0; ///< in bytes of the program
  mlir::Type elementType;
  llvm::SmallVector<int64_t> shape, strides;

  static Extent dense(Arena *arena, int64_t offset, mlir::Type elementType, llvm::ArrayRef<int64_t> shape);
};

/// Bytes of Arena::data for one byte of the program under wide arithmetic.
inline constexpr int64_t kWideScale = 8;

class Memory {
public:
  explicit Memory(Arithmetic arithmetic) : arithmetic(arithmetic) {}

  Arena &addArena(llvm::StringRef name, int64_t bytes, int64_t recordBytes);
  /// Null where there is none.
  Arena *find(llvm::StringRef name);

  /// The elements, dense; a diagnostic at `op` where some lie outside the arena, are undefined or promised.
  llvm::FailureOr<Tensor> load(mlir::Operation *op, const Extent &region) const;
  /// Fails, after a diagnostic at `op`, where some lie outside the arena or an exchange uses them.
  llvm::LogicalResult store(mlir::Operation *op, const Extent &region, const Tensor &value);

  /// Notes the region's bytes, after the same checks of bounds.
  llvm::LogicalResult note(mlir::Operation *op, const Extent &region, ByteNote note);
  /// From here on nothing is known of these bytes, which are filled with ones: a NaN, or -1.
  void poison(Arena &arena, int64_t begin, int64_t end);
  /// Defines these bytes as zeros.
  void zero(Arena &arena, int64_t begin, int64_t end);

private:
  llvm::LogicalResult checkBounds(mlir::Operation *op, const Extent &region) const;

  Arithmetic arithmetic;
  std::map<std::string, Arena> arenas;
};

/// Bytes that the program gives one element.
int64_t programBytes(mlir::Type elementType);

} // namespace hyc::interpreter

#endif // HYC_LIB_INTERPRETER_RANK_MEMORY_H
