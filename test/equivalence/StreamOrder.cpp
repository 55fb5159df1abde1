// Every rank's queue, and running what is first on all of them until nothing can.
#include "StreamOrder.h"

#include "dialects/Dist/DistDialect.h"
#include "dialects/Hyc/HycDialect.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <vector>

using namespace hyc;

namespace {

/// A message of a group: to or from which rank.
struct Message {
  int64_t peer;
  bool isSend;
};

/// One thing on a stream: a collective of `members`, or messages.
struct Issued {
  std::vector<int64_t> members;
  std::vector<Message> messages;
};

class Streams {
public:
  explicit Streams(mlir::ModuleOp module) : module(module), mesh(dist::MeshOp::find(module)) {
    for (int64_t size : mesh.getSizes())
      perStage *= size;
    streams.resize(static_cast<size_t>(perStage) * mesh.getStages());
    for (auto schedule : module.getOps<dist::ScheduleOp>())
      for (int64_t place = 0; place < perStage; ++place)
        issue(schedule, static_cast<int64_t>(schedule.getStage()) * perStage + place);
  }

  bool hang() {
    while (advance())
      ;
    return llvm::any_of(streams, [](const auto &stream) { return !stream.empty(); });
  }

private:
  using Stream = std::deque<Issued>;

  int64_t coordinate(int64_t rank, size_t axis) const {
    int64_t stride = 1;
    for (size_t inner = axis + 1; inner < mesh.getSizes().size(); ++inner)
      stride *= mesh.getSizes()[inner];
    return rank / stride % mesh.getSizes()[axis];
  }

  std::vector<int64_t> membersOf(dist::GroupAttr group, int64_t rank) const {
    std::vector<int64_t> members;
    auto axes = llvm::to_vector(mesh.getAxes().getAsRange<mlir::StringAttr>());
    for (int64_t other = 0; other < static_cast<int64_t>(streams.size()); ++other) {
      bool isMember = group.getStages().empty() ? other / perStage == rank / perStage
                                                : llvm::is_contained(group.getStages(), other / perStage);
      for (size_t axis = 0; axis < axes.size() && isMember; ++axis)
        isMember = llvm::is_contained(group.getAxes().getAxes(), axes[axis]) ||
                   coordinate(other, axis) == coordinate(rank, axis);
      if (isMember)
        members.push_back(other);
    }
    return members;
  }

  void issue(dist::ScheduleOp schedule, int64_t rank) {
    auto stage = static_cast<int64_t>(schedule.getStage());
    for (auto instruction : schedule.getInstructions().getAsRange<dist::InstructionAttr>()) {
      if (instruction.getKind() == dist::InstructionKind::exchange) {
        Issued group;
        for (dist::TransferAttr transfer : instruction.getTransfers()) {
          int64_t peer = transfer.getPeerOf(mesh.getChunk(stage, transfer.getVirtualStage()));
          // NCCL has no such rank: an error, and no waiting.
          if (peer >= 0 && peer < mesh.getChunks())
            group.messages.push_back({mesh.getStageOf(peer) * perStage + rank % perStage, transfer.getIsSend()});
        }
        streams[static_cast<size_t>(rank)].push_back(group);
        continue;
      }
      bool isOfChunk = instruction.getKind() == dist::InstructionKind::forward ||
                       instruction.getKind() == dist::InstructionKind::backward;
      int64_t owner = isOfChunk ? mesh.getChunk(stage, instruction.getVirtualStage()) : stage;
      if (auto func = module.lookupSymbol<FuncOp>(dist::functionName(instruction.getKind(), owner)))
        func.walk([&](dist::ExchangeOpInterface op) {
          streams[static_cast<size_t>(rank)].push_back({membersOf(op.getExchangeGroup(), rank), {}});
        });
    }
  }

  /// Whether anything went on.
  bool advance() {
    bool moved = false;
    for (size_t rank = 0; rank < streams.size(); ++rank) {
      if (streams[rank].empty())
        continue;
      Issued &first = streams[rank].front();
      if (!first.members.empty()) {
        moved |= meet(first.members);
        continue;
      }
      moved |= deliver(static_cast<int64_t>(rank), first);
      if (first.messages.empty()) {
        streams[rank].pop_front();
        moved = true;
      }
    }
    return moved;
  }

  /// A copy: what it names is taken off the streams.
  bool meet(const std::vector<int64_t> members) {
    for (int64_t member : members)
      if (streams[static_cast<size_t>(member)].empty() ||
          streams[static_cast<size_t>(member)].front().members != members)
        return false;
    for (int64_t member : members)
      streams[static_cast<size_t>(member)].pop_front();
    return true;
  }

  /// Messages of which the other side stands at the first of its own.
  bool deliver(int64_t rank, Issued &group) {
    bool moved = false;
    for (size_t index = 0; index < group.messages.size();) {
      Message one = group.messages[index];
      auto other = findMessage(one.peer, {rank, !one.isSend});
      // Between two ranks, messages of one direction are met in order.
      bool isFirst = llvm::find_if(group.messages, [&](const Message &each) {
                       return each.peer == one.peer && each.isSend == one.isSend;
                     }) == group.messages.begin() + static_cast<std::ptrdiff_t>(index);
      if (one.peer == rank || !isFirst || !other) {
        ++index;
        continue;
      }
      auto &others = streams[static_cast<size_t>(one.peer)].front().messages;
      others.erase(others.begin() + *other);
      group.messages.erase(group.messages.begin() + static_cast<std::ptrdiff_t>(index));
      moved = true;
    }
    return moved;
  }

  std::optional<std::ptrdiff_t> findMessage(int64_t rank, Message wanted) {
    Stream &stream = streams[static_cast<size_t>(rank)];
    if (stream.empty())
      return std::nullopt;
    auto &messages = stream.front().messages;
    auto found = llvm::find_if(
        messages, [&](const Message &each) { return each.peer == wanted.peer && each.isSend == wanted.isSend; });
    return found == messages.end() ? std::nullopt : std::optional(found - messages.begin());
  }

  mlir::ModuleOp module;
  mutable dist::MeshOp mesh;
  int64_t perStage = 1;
  std::vector<Stream> streams;
};

} // namespace

bool hyc::equivalence::hangsOnStreams(mlir::ModuleOp module) { return Streams(module).hang(); }
