// Fixed offsets for everything that lives in one arena: who may share an address, and where each goes.
//
// Time is the stage's schedule, executed once: each instruction takes as many time points as its function has ops.
// There are two kinds of items. A temporary lives inside one function and is there in every execution of it. A record
// outlives its function, and there is one copy of it for each slot of micro-batches in flight (`slots` in all). The
// arena is
//
//   [ reserved | record of slot 0 | record of slot 1 | … | temporaries ]
//
// and the surprise is that temporaries also use the holes of their own slot's record: during forward the record is
// still filling, during backward it is draining. With one slot the border between record and temporaries vanishes.
#ifndef HYC_ANALYSIS_ARENAPLACEMENT_H
#define HYC_ANALYSIS_ARENAPLACEMENT_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>

namespace hyc {

/// One execution of a function: op p of it happens at time `begin + p`.
struct FunctionExecution {
  int64_t function = 0;
  int64_t slot = 0;
  int64_t begin = 0;
};

/// One life of a record: it is alive at the times begin ≤ t ≤ end.
struct RecordLife {
  int64_t slot = 0;
  int64_t begin = 0;
  int64_t end = 0;
};

struct ArenaItem {
  int64_t bytes = 0;
  int64_t alignment = 0; // 0: by size

  // A temporary: alive while ops first ≤ p ≤ last of `function` execute.
  int64_t function = -1;
  int64_t first = 0;
  int64_t last = 0;

  // A record (function < 0). `single`: one copy serves all slots.
  llvm::SmallVector<RecordLife, 2> lives;
  bool single = false;

  // Results. With `perSlot` slot s lies at offset + s · recordBytes.
  int64_t offset = -1;
  bool perSlot = false;

  int64_t getAlignment() const;
  bool isTemporary() const { return function >= 0; }
};

struct ArenaExtent {
  int64_t bytes = 0;
  int64_t recordBytes = 0;
  int64_t lowerBound = 0; // most bytes alive at one moment, alignment not counted
};

/// Places all items after the first `reserved` bytes. Deterministic: the same input gives the same offsets.
ArenaExtent placeItems(llvm::MutableArrayRef<ArenaItem> items, llvm::ArrayRef<FunctionExecution> executions,
                       int64_t slots, int64_t reserved);

/// What offsets are multiples of: a cache line, or for less than one the power of two in the size, which every element
/// size divides.
int64_t placementAlignment(int64_t bytes);

} // namespace hyc

#endif // HYC_ANALYSIS_ARENAPLACEMENT_H
