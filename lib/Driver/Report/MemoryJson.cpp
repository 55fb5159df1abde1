// memory.json: the account for programs.
#include "Report/MemoryReport.h"

#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using namespace hyc;

static std::string utf8(StringRef text) { return json::fixUTF8(text); }

static void writeAlive(json::OStream &json, const ArenaAccount &arena) {
  json.attributeArray("alive", [&] {
    for (const AliveTensor &alive : arena.peak.alive) {
      const AccountedTensor &tensor = arena.tensors[alive.tensor];
      // One line a tensor: there are thousands.
      json.rawValue([&](raw_ostream &os) {
        os << "{\"tensor\": " << json::Value(utf8(tensor.name)) << ", \"kind\": \"" << getName(tensor.kind)
           << "\", \"type\": \"" << tensor.type << "\", \"bytes\": " << tensor.item.bytes
           << ", \"copies\": " << alive.copies << ", \"offset\": " << tensor.item.offset
           << ", \"op\": " << json::Value(utf8(tensor.source)) << "}";
      });
    }
  });
}

/// Of several sizes: the most that each entry has alive.
static void writeEntries(json::OStream &json, const StageAccount &stage, const ArenaAccount &arena) {
  std::vector<std::pair<std::string, int64_t>> peaks = peaksOfEntries(stage, arena);
  if (all_of(peaks, [](const auto &peak) { return peak.first.empty() || peak.first == "evaluate"; }))
    return;
  json.attributeObject("alive_bytes_by_entry", [&] {
    for (const auto &[entry, bytes] : peaks)
      json.attribute(entry.empty() ? "train" : entry, bytes);
  });
}

static void writeArena(json::OStream &json, const StageAccount &stage, const ArenaAccount &arena) {
  json.object([&] {
    json.attribute("arena", arena.name);
    json.attribute("on_device", arena.isOnDevice());
    json.attribute("shared", arena.shared);
    json.attribute("bytes", arena.bytes);
    json.attribute("lower_bound", arena.lowerBound);
    json.attribute("record_bytes", arena.recordBytes);
    json.attributeObject("peak", [&] {
      json.attribute("alive_bytes", arena.peak.aliveBytes);
      json.attribute("instruction", arena.peak.instruction);
      json.attribute("op", utf8(arena.peak.op));
      writeAlive(json, arena);
    });
    writeEntries(json, stage, arena);
  });
}

static void writeExchange(json::OStream &json, const ExchangeAccount &exchange) {
  json.rawValue([&](raw_ostream &os) {
    os << "{\"function\": \"" << exchange.function << "\", \"kind\": \"" << exchange.kind << "\", \"over\": \""
       << exchange.axes << "\", \"members\": " << exchange.members << ", \"bytes\": " << exchange.bytes
       << ", \"times_per_step\": " << exchange.timesPerStep
       << ", \"sent_bytes_per_step\": " << static_cast<int64_t>(exchange.sentBytesPerStep())
       << ", \"op\": " << json::Value(utf8(exchange.source)) << ", \"because\": " << json::Value(utf8(exchange.because))
       << "}";
  });
}

/// The ranks as ranges of coordinates: {"dp": [0, 1], "tp": [3, 3], "bytes": 512}.
static void writePadding(json::OStream &json, const PaddedRanks &ranks) {
  json.rawValue([&](raw_ostream &os) {
    os << '{';
    for (const PaddedRanks::Range &range : ranks.coordinates)
      os << json::Value(utf8(range.axis)) << ": [" << range.first << ", " << range.last << "], ";
    os << "\"bytes\": " << ranks.bytes << '}';
  });
}

static void writeStage(json::OStream &json, const JobAccount &job, const StageAccount &stage) {
  json.object([&] {
    json.attribute("stage", stage.stage);
    json.attribute("first_rank", stage.stage * job.ranksPerStage());
    json.attribute("ranks", job.ranksPerStage());
    json.attribute("slots", stage.slots);
    json.attribute("device_bytes", stage.deviceBytes());
    json.attribute("total_bytes", stage.totalBytes());
    json.attribute("fixed_bytes", stage.fixedBytes);
    json.attribute("snapshot_bytes", stage.snapshot.states);
    json.attribute("checkpoint_writer_bytes", stage.snapshot.writer);
    json.attribute("copy_bytes", stage.snapshot.copies);
    json.attributeArray("arenas", [&] {
      for (const ArenaAccount &arena : stage.arenas)
        writeArena(json, stage, arena);
    });
    json.attributeArray("padding_bytes", [&] {
      for (const PaddedRanks &ranks : stage.padding)
        if (ranks.bytes > 0)
          writePadding(json, ranks);
    });
    double sent = 0;
    for (const ExchangeAccount &exchange : stage.exchanges)
      sent += exchange.sentBytesPerStep();
    json.attribute("sent_bytes_per_step", static_cast<int64_t>(sent));
    json.attributeArray("exchanges", [&] {
      for (const ExchangeAccount &exchange : stage.exchanges)
        writeExchange(json, exchange);
    });
  });
}

std::string hyc::writeMemoryJson(const JobAccount &job, StringRef name, const StepBatch &batch, const StepTime *step) {
  std::string text;
  raw_string_ostream os(text);
  json::OStream json(os, /*IndentSize=*/1);
  json.object([&] {
    json.attribute("format_version", 1);
    json.attribute("name", utf8(name));
    json.attributeBegin("mesh");
    json.rawValue([&](raw_ostream &stream) {
      stream << "{\"tp\": " << job.tp << ", \"pp\": " << job.pp << ", \"dp\": " << job.dp << "}";
    });
    json.attributeEnd();
    json.attribute("samples_per_step", batch.microBatch * batch.gradAccum * job.dp);
    json.attribute("micro_batch", batch.microBatch);
    json.attribute("grad_accum", batch.gradAccum);
    json.attribute("sequence", batch.sequence);
    if (step)
      json.attributeObject("estimate", [&] {
        json.attribute("step_ms", step->stages.front().total() * 1e3);
        json.attribute("waiting", step->waitingShare(0));
      });
    json.attributeArray("stages", [&] {
      for (const StageAccount &stage : job.stages)
        writeStage(json, job, stage);
    });
  });
  os << "\n";
  return text;
}
