// The tables of one stage's program while it is being lowered: what exists besides temporaries, and under which name.
#ifndef HYC_LIB_TRANSFORMS_RANK_PROGRAMTABLES_H
#define HYC_LIB_TRANSFORMS_RANK_PROGRAMTABLES_H

#include "dialects/Dist/DistDialect.h"
#include "dialects/Hyc/HycDialect.h"
#include "dialects/Rank/Arenas.h"
#include "dialects/Rank/RankDialect.h"
#include "hyc/Analysis/Entry.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <unordered_map>

namespace hyc {

/// Equal kernels of the module are one kernel.
class KernelTable {
public:
  explicit KernelTable(mlir::ModuleOp module) : module(module) {}

  /// The kernel with this body (moved in), space, reduced dimensions and strides. `name` says what it does: "add_gelu".
  rank::KernelOp getOrCreate(llvm::StringRef name, llvm::ArrayRef<int64_t> space, llvm::ArrayRef<int64_t> reduced,
                             llvm::ArrayRef<llvm::SmallVector<int64_t>> strides, mlir::TypeRange results,
                             mlir::Region &body, mlir::Location loc);

private:
  mlir::ModuleOp module;
  std::unordered_map<size_t, llvm::SmallVector<rank::KernelOp, 1>> byHash; ///< of what they compute
  llvm::StringMap<unsigned> uses;
  llvm::StringSet<> names;
};

/// Numbers that both sides of an exchange must agree on: counted over the whole module, by key.
class ExchangeNumbers {
public:
  int64_t number(llvm::StringRef key) { return numbers.try_emplace(key, numbers.size()).first->second; }

private:
  llvm::StringMap<int64_t> numbers;
};

/// What the module declares, by name: made once for the programs of all stages.
class ModuleSymbols {
public:
  explicit ModuleSymbols(mlir::ModuleOp module);

  /// What training declares; else what the module that evaluates does. Further sizes declare nothing of their own.
  mlir::Operation *lookup(llvm::StringRef name) const;
  /// The function of an entry, or of the module itself where `entry` is empty; null if there is none.
  FuncOp lookupFunction(llvm::StringRef name, llvm::StringRef entry) const;
  /// Names of the entries that modules inside become, and of the one that evaluates even where there is none.
  llvm::SmallVector<llvm::StringRef> entries() const;
  /// Whether a parameter is a master beside its copy in the compute type.
  bool isMaster(ParamOp param) const { return masters.contains(param.getSymNameAttr()); }

private:
  mlir::SymbolTable symbols;
  /// Of the modules inside, by entry: of the one that evaluates, first, if there is one, and of further sizes.
  llvm::SmallVector<std::pair<llvm::StringRef, std::optional<mlir::SymbolTable>>> inside;
  llvm::DenseSet<mlir::StringAttr> masters;
};

/// Where a saved value lies: a view of something that has an address for the whole run.
struct SavedValue {
  mlir::FlatSymbolRefAttr symbol;
  rank::BufferType symbolType;
  int64_t offset = 0; // elements
  rank::BufferType type;
};

class ProgramTables {
public:
  ProgramTables(rank::ProgramOp program, dist::MeshOp mesh, const ModuleSymbols &declared, KernelTable &kernels,
                ExchangeNumbers &collectives, ExchangeNumbers &tags);

  /// Keeps the names of a function's inputs and scalars for them, since the host knows them by these. Fails, after a
  /// diagnostic, where one is that of something else.
  mlir::LogicalResult reserveArguments(FuncOp function);
  /// Adds the param or state `name` of the module the first time it is asked for. Its symbol may be another one.
  rank::StateOp getState(mlir::Operation *user, llvm::StringRef name);
  /// From here on the parameter's copy in the compute type is the parameter.
  void replaceByCopy(llvm::StringRef parameter) { replaced.insert(parameter); }
  rank::InputOp addInput(mlir::StringRef name, mlir::StringRef source, mlir::ArrayAttr streams, int64_t bound,
                         rank::BufferType type, mlir::Location loc);
  rank::ScalarOp addScalar(mlir::StringRef name, rank::BufferType type, mlir::Location loc);
  rank::RecordOp addRecord(mlir::StringRef name, mlir::StringRef arena, rank::BufferType type, mlir::Location loc);
  /// A channel tensor of a virtual stage's forward or backward function.
  void addTransfer(rank::RecordOp record, llvm::StringRef channel, bool send, dist::Direction direction,
                   int64_t virtualStage, mlir::Location loc);
  rank::CollectiveOp addCollective(llvm::StringRef function, llvm::StringRef kind, dist::GroupAttr group,
                                   llvm::StringRef cause, llvm::StringRef why, dist::AxisListAttr flat,
                                   mlir::Location loc);

  /// The state or record of this symbol of the program; null where there is none.
  rank::StateOp findState(llvm::StringRef symbol) { return stateSymbols.lookup(symbol); }
  rank::RecordOp findRecord(llvm::StringRef name) { return records.lookup(name); }

  /// Marks the arena as one that peers can see.
  void share(llvm::StringRef arena);
  mlir::FlatSymbolRefAttr arenaRef(llvm::StringRef arena);

  /// The name of a transfer's, exchange's or function's entry; empty for what the stage's schedule runs.
  mlir::StringAttr getEntryName() { return entry ? entry.getSymNameAttr() : mlir::StringAttr(); }
  /// From here on functions are those of this entry, with its inputs; of a further size it trains that.
  void beginEntry(llvm::StringRef name, mlir::ArrayAttr instructions, std::optional<ModelSize> size);

  rank::ProgramOp program;
  dist::MeshOp mesh;
  int64_t stage;
  KernelTable &kernels;
  rank::EntryOp entry;                                        ///< null while those of the stage's schedule are lowered
  llvm::DenseMap<int64_t, llvm::StringMap<SavedValue>> saved; ///< by virtual stage
  /// States that a function has added to of those that run before in a step: backwards of the stage's later chunks.
  llvm::StringSet<> accumulated;

private:
  llvm::StringSet<> replaced; ///< parameters that are there as their copies
  rank::ArenaOp getArena(llvm::StringRef name);
  void noteStoredType(mlir::Attribute init);
  std::string uniqueName(llvm::StringRef name);
  /// Notes the name of what was added to the program.
  template <typename SymbolOp> SymbolOp added(SymbolOp symbol) {
    names.insert(symbol.getSymName());
    return symbol;
  }

  const ModuleSymbols &declared;
  ExchangeNumbers &collectives, &tags;
  mlir::OpBuilder builder; // at the end of the tables
  llvm::StringMap<rank::ArenaOp> arenas;
  llvm::StringMap<rank::StateOp> states, stateSymbols; ///< by what the module calls them, and by what the program does
  llvm::StringMap<rank::InputOp> inputs;
  llvm::StringMap<rank::ScalarOp> scalars;
  llvm::StringMap<rank::RecordOp> records;
  llvm::StringSet<> names;                          ///< of all that the program declares, or will
  llvm::DenseMap<mlir::StringAttr, bool> arguments; ///< inputs and, true, scalars
  llvm::StringMap<unsigned> collectiveCounts;
};

} // namespace hyc

#endif // HYC_LIB_TRANSFORMS_RANK_PROGRAMTABLES_H
