// The edits of a model, tried through the compiler.
#include "MinimiseGraph.h"

#include "ModelEdits.h"
#include "Trial.h"
#include "test/fuzz/trials/Minimise.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <filesystem>
#include <fstream>
#include <sstream>

using namespace hyc;
using namespace hyc::fuzzing;

static constexpr int64_t kBatch = 4; ///< of symbols, as the generator has them

static std::string readAll(const std::string &path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

static void write(const std::string &path, const std::string &text) { std::ofstream(path, std::ios::binary) << text; }

static std::optional<Specimen> readSpecimen(const std::string &folder) {
  Specimen specimen;
  std::ifstream flags(folder + "/flags");
  std::string first;
  std::getline(flags, first);
  std::stringstream words(first);
  for (std::string flag; words >> flag;)
    specimen.flags.push_back(flag);
  if (first.find("--emit=") == std::string::npos) // no toolchain is at hand
    specimen.flags.push_back("--emit=rank");
  if (!flags || !specimen.model.ParseFromString(readAll(folder + "/model.onnx")))
    return std::nullopt;
  return specimen;
}

static std::string countsOf(const Specimen &specimen) {
  auto count = [](size_t number, const char *what) { return std::to_string(number) + what + (number == 1 ? "" : "s"); };
  return count(specimen.model.graph().node_size(), " node") + " under " + count(specimen.flags.size(), " flag");
}

bool hyc::fuzzing::minimiseGraph(const Supervision &options, const std::string &found, const std::string &pattern) {
  std::optional<Specimen> whole = readSpecimen(found);
  if (!whole) {
    llvm::errs() << found << ": has no model.onnx and flags that can be read, expected what a finding leaves behind\n";
    return false;
  }
  std::string place = options.folder + "/minimising";
  std::filesystem::create_directories(place);
  std::string path = place + "/model.onnx", known = place + "/facts";
  auto attempt = [&](const Specimen &specimen) {
    write(path, specimen.model.SerializeAsString());
    TrialOutcome outcome = compileToRank(path, specimen.flags);
    return lookFor({outcome.code, outcome.finding, "", outcome.said}, pattern);
  };
  auto lookAt = [&](const onnxfile::Model &model) {
    write(known, "");
    Supervision quiet = options;
    quiet.log.clear();
    quiet.folder = place;
    runAlone(quiet, [&] {
      std::ofstream lines(known);
      importFacts(model, kBatch, [&](const std::string &line) { lines << line << std::flush; });
      return Verdict();
    });
    return parseFacts(readAll(known));
  };
  auto result = minimise<Specimen>(options, *whole, specimenEdits(lookAt), attempt);
  if (!result) {
    llvm::errs() << found << ": shows no finding\n";
    return false;
  }
  std::string folder = found + "/minimised", flags = llvm::join(result->smallest.flags, " ");
  std::filesystem::create_directories(folder);
  write(folder + "/model.onnx", result->smallest.model.SerializeAsString());
  write(folder + "/flags", flags + "\n");
  write(folder + "/command", "hyc-compile model.onnx " + flags + " -o /dev/null\n");
  std::string text = describeModel(result->smallest.model);
  write(folder + "/model.txt", text);
  llvm::outs() << found << ": " << countsOf(*whole) << " → " << countsOf(result->smallest) << " in " << result->trials
               << " trials: " << result->verdict.finding << ": " << result->verdict.said << "\n"
               << text << "hyc-compile " << folder << "/model.onnx " << flags << " -o /dev/null\n";
  return true;
}
