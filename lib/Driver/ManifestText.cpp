// One line a rank: a manifest of thousands stays readable.
#include "ManifestText.h"

#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using namespace hyc;

static std::string quoted(const std::string &text) {
  std::string result;
  raw_string_ostream(result) << json::Value(json::fixUTF8(text));
  return result;
}

/// The shortest digits that read back as the same number.
static std::string exact(double value) {
  std::string result;
  raw_string_ostream(result) << json::Value(value);
  return result;
}

std::string hyc::writeManifest(const ManifestFacts &facts) {
  std::string text;
  raw_string_ostream os(text);
  os << "{\n  \"format_version\": 1,\n  \"name\": " << quoted(facts.name)
     << ",\n  \"plan_hash\": " << quoted(facts.planHash) << ",\n  \"mesh\": {\"tp\": " << facts.tp
     << ", \"pp\": " << facts.pp << ", \"dp\": " << facts.dp
     << "},\n  \"batch\": {\"micro_batch\": " << facts.microBatch << ", \"grad_accum\": " << facts.gradAccum
     << ", \"sequence\": " << facts.sequence << "},\n  \"schedule\": " << quoted(facts.schedule)
     << ",\n  \"threads\": " << facts.threads
     << ",\n  \"learning_rate\": {\"rule\": " << quoted(facts.learningRateSchedule)
     << ", \"base\": " << exact(facts.learningRate) << ", \"warmup_steps\": " << facts.warmupSteps
     << "},\n  \"model_files\": [";
  interleave(
      facts.modelFiles, os, [&](const std::string &file) { os << quoted(file); }, ", ");
  os << "],\n  \"ranks\": [";
  int64_t rank = 0;
  for (int64_t pp = 0; pp < facts.pp; ++pp)
    for (int64_t dp = 0; dp < facts.dp; ++dp)
      for (int64_t tp = 0; tp < facts.tp; ++tp, ++rank)
        os << (rank ? ",\n    " : "\n    ") << "{\"rank\": " << rank << ", \"tp\": " << tp << ", \"pp\": " << pp
           << ", \"dp\": " << dp << ", \"program\": " << quoted(facts.stagePrograms[pp]) << "}";
  os << "\n  ]\n}\n";
  return text;
}
