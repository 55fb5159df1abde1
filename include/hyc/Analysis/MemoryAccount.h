// MemoryAccount: what every rank holds at every moment of a step, arena by arena, and what it exchanges, before
// anything runs. Placement (hyc-place-buffers) fills it in from the very lives that decided the offsets, so that the
// two cannot disagree.
//
// Time is that of ArenaPlacement.h: an instruction of the schedule takes as many points as its function has ops, and
// one more. All ranks of a stage run one program over arenas of one size; they differ only in how much of their shards
// is padding.
//
// The surprise: an arena has two figures. `bytes` is what the runtime allocates, and what a machine must have. The
// bytes *alive* at the peak are less where offsets leave holes; no placement can go below them.
#ifndef HYC_ANALYSIS_MEMORYACCOUNT_H
#define HYC_ANALYSIS_MEMORYACCOUNT_H

#include "dialects/Rank/Arenas.h"
#include "hyc/Analysis/ArenaPlacement.h"
#include "llvm/ADT/StringRef.h"

#include <map>
#include <string>
#include <vector>

namespace mlir {
class ModuleOp;
}

namespace hyc {

namespace dist {
class MeshOp;
class ScheduleOp;
} // namespace dist
namespace rank {
class CollectiveOp;
class ProgramOp;
class StartOp;
} // namespace rank

struct AccountedFunction {
  std::string name;             ///< "forward"
  std::vector<std::string> ops; ///< one for each time point: "gemm h.0.mlp.c_fc"; empty for what is no call
};

struct AccountedInstruction {
  std::string text;        ///< "forward micro-batch 2 slot 0"
  std::string entry = {};  ///< other than training: "evaluate"
  std::string kind = {};   ///< "forward", "exchange"
  int64_t microBatch = -1; ///< that it works on; of an exchange that of its first transfer; -1: on none
  int64_t function = -1, slot = 0;
  int64_t begin = 0, end = 0; ///< time points [begin, end)
};

/// State, Input and Scalar exist for the whole run, a Record from one function to another, a Temporary inside one.
enum class TensorKind { State, Input, Scalar, Constant, Record, Temporary };
llvm::StringRef getName(TensorKind kind);

struct AccountedTensor {
  TensorKind kind = TensorKind::Temporary;
  std::string name;   ///< of the symbol, or the id of the op that makes the temporary
  std::string type;   ///< "4x128xf32"
  std::string source; ///< the first op that uses it: "gemm h.0.mlp.c_fc"; empty for what exists for the whole run
  ArenaItem item;     ///< where it lies, and when it is alive (Record, Temporary)
};

/// One tensor that is alive at a moment, with as many copies as there are slots that hold it.
struct AliveTensor {
  size_t tensor = 0; ///< index into ArenaAccount::tensors
  int64_t copies = 1;
};

struct ArenaMoment {
  int64_t time = 0, aliveBytes = 0;
  std::string instruction, op;
  std::vector<AliveTensor> alive; ///< largest first
};

struct ArenaAccount {
  std::string name;
  bool shared = false;
  int64_t bytes = 0, lowerBound = 0, recordBytes = 0;
  std::vector<AccountedTensor> tensors;
  ArenaMoment peak;

  /// Whether it takes up the device's memory.
  bool isOnDevice() const { return rank::isOnDevice(name); }
};

/// One exchange of one stage's functions, or one tensor that crosses to a neighbour.
struct ExchangeAccount {
  std::string function, kind; ///< kind: that of an exchange, as all_reduce, or "send"
  std::string axes;           ///< "{tp}", "{dp} stages [0, 1]"; of a send "stage 0 to 1"
  int64_t members = 1;
  int64_t bytes = 0; ///< of the whole tensor that is combined, joined, cut or passed on
  int64_t timesPerStep = 1;
  std::string source, because; ///< the op that asked for it, and the sharding

  /// Bytes that one rank sends in a step with the exchanges that move least, those around a ring: B(n−1)/n for
  /// all_gather, reduce_scatter and all_to_all, twice that for all_reduce (Patarasu and Yuan 2009); of a send or shift
  /// all.
  double sentBytesPerStep() const;
};

/// Ranks of a stage that hold equally many bytes of padding: those with a coordinate of these along every axis. A mesh
/// of a million ranks has a few such blocks.
struct PaddedRanks {
  struct Range {
    std::string axis;
    int64_t first = 0, last = 0; ///< both belong to it
  };
  std::vector<Range> coordinates;
  int64_t bytes = 0;
};

/// What a rank needs on the host, beside everything else, while checkpoints are written as training goes on
/// (hyc-run --checkpoint). Counted by itself: a run without them has none of it.
struct SnapshotBytes {
  int64_t states = 0; ///< of the rank that copies most: each state that it writes and that lies in memory
  int64_t writer = 0; ///< buffers and tables of the thread that writes
  /// Of hyc-run --copy neighbour: what it holds of such a rank, once on the rank's host and once more on the next.
  int64_t copies = 0;
  int64_t total() const { return states + writer; }
};
inline constexpr int64_t kSnapshotAlignment = 64;
/// Declared from measurements, as fixedBytes is: of a writer (a ring of five chunks of 1 MiB and the threads that have
/// four of them written), and for each tensor that it has a part of.
inline constexpr int64_t kCheckpointWriterBytes = 8 << 20, kCheckpointTensorBytes = 4096;
/// Of copies: the newest that is whole and the one that is being made (copies/copy_store.h), and what is told of each.
inline constexpr int64_t kCopiesKept = 2, kCopyHeadBytes = 64 << 10;

struct StageAccount {
  int64_t stage = 0, slots = 1;
  std::vector<AccountedFunction> functions;
  std::vector<AccountedInstruction> instructions;
  std::vector<ArenaAccount> arenas;
  std::vector<ExchangeAccount> exchanges;
  int64_t fixedBytes = 0;           ///< declared beside the arenas (Workspaces.h); 0: nobody said for how many threads
  SnapshotBytes snapshot;           ///< in no total
  std::vector<PaddedRanks> padding; ///< of states: elements that exist on no other layout. Every rank is in one block

  /// Arenas and fixed costs.
  int64_t deviceBytes() const;
  int64_t totalBytes() const;
  const ArenaAccount *findArena(llvm::StringRef name) const;
};

/// In the order of rank::kArenas; others after them.
void sortArenas(StageAccount &stage);

/// Bytes that are alive in an arena at each time point of the schedule and of all entries.
std::vector<int64_t> aliveOverTime(const StageAccount &stage, const ArenaAccount &arena);
/// What each entry has alive of an arena at most, by name, in the order in which they were planned; training's, of the
/// largest size where there are several, is called "".
std::vector<std::pair<std::string, int64_t>> peaksOfEntries(const StageAccount &stage, const ArenaAccount &arena);
/// Finds the peak of an arena: the first moment at which most bytes are alive.
void findPeak(const StageAccount &stage, ArenaAccount &arena);
/// What is alive in an arena at one time point.
ArenaMoment momentAt(const StageAccount &stage, const ArenaAccount &arena, int64_t time);

struct JobAccount {
  int64_t tp = 1, pp = 1, dp = 1, further = 1; ///< `further`: along axes of the plan's own
  std::vector<StageAccount> stages;

  int64_t ranksPerStage() const { return tp * dp * further; }
  int64_t ranks() const { return pp * ranksPerStage(); }
  /// Of the rank that needs most.
  int64_t mostDeviceBytes() const;
};

/// One started exchange, by the row of its collective.
ExchangeAccount accountExchange(rank::StartOp start, rank::CollectiveOp row, dist::MeshOp mesh);
/// Every exchange of one stage's program, in the order of its functions. Before coalescing each has a source of its
/// own.
std::vector<ExchangeAccount> accountExchanges(rank::ProgramOp program, dist::ScheduleOp schedule);
/// Bytes of the stage's states that are padding.
std::vector<PaddedRanks> accountPadding(rank::ProgramOp program);
/// By stage.
std::map<int64_t, SnapshotBytes> accountSnapshots(mlir::ModuleOp module);

} // namespace hyc

#endif // HYC_ANALYSIS_MEMORYACCOUNT_H
