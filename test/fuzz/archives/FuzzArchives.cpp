// hyc-fuzz-archives: archives of torch.export with one operator of the importer's table, and such with one thing
// changed, through the whole compiler.
#include "ArchiveDraft.h"
#include "test/fuzz/graphs/Trial.h"
#include "test/fuzz/settings/JsonChange.h"
#include "test/fuzz/settings/TextEdits.h"
#include "test/fuzz/trials/Minimise.h"

#include "dialects/Hyc/HycDialect.h"
#include "hyc/Import/TorchExport/Import.h"
#include "lib/Import/TorchExport/Translator.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Signals.h"
#include "llvm/Support/raw_ostream.h"

#include <filesystem>
#include <fstream>

using namespace hyc;
using namespace hyc::fuzzing;
namespace cl = llvm::cl;
namespace json = llvm::json;

static cl::OptionCategory ours("Options");
static cl::opt<uint64_t> seed("seed", cl::desc("The first seed"), cl::init(0), cl::cat(ours));
static cl::opt<uint64_t> archives("archives", cl::desc("How many"), cl::init(1000), cl::cat(ours));
static cl::opt<std::string> folder("folder", cl::desc("Of inputs and findings"), cl::Required, cl::cat(ours));
static cl::opt<std::string> logFile("log", cl::desc("A file with a line for each"), cl::cat(ours));
static cl::opt<int> jobs("jobs", cl::desc("Processes"), cl::init(1), cl::cat(ours));
static cl::opt<bool> unchanged("unchanged", cl::desc("Valid archives only"), cl::cat(ours));
static cl::opt<bool> covers("covers", cl::desc("Fails where an operator never reaches the rank dialect"),
                            cl::cat(ours));
static cl::opt<std::string> found("minimise", cl::desc("Makes a finding in FOLDER/found/SEED small, and does no more"),
                                  cl::cat(ours));
static cl::opt<bool> minimises("minimise-found", cl::desc("Makes what is found small"), cl::cat(ours));
static cl::opt<std::string> pattern("finding-is",
                                    cl::desc("A pattern: errors that match are findings, and no other errors are"),
                                    cl::cat(ours));

static void write(const std::string &path, const std::string &text) { std::ofstream(path, std::ios::binary) << text; }

static std::string printed(const json::Value &value) { return llvm::formatv("{0}", value); }

/// Every target of the importer's table.
static std::vector<std::string> allTargets() {
  std::vector<std::string> names;
  for (const auto *table : {&torchexport::allTranslations(), &torchexport::complexTranslations()})
    for (const auto &entry : *table)
      names.push_back(entry.first().str());
  llvm::sort(names);
  names.erase(llvm::unique(names), names.end());
  return names;
}

static bool isImported(const ZipRecords &records, const std::string &path) {
  write(path, writeZip(records));
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  mlir::ScopedDiagnosticHandler said(&context, [](mlir::Diagnostic &diagnostic) {
    if (std::getenv("HYC_FUZZ_DIAGNOSTICS"))
      llvm::errs() << diagnostic.str() << "\n";
    return mlir::success();
  });
  return succeeded(importTorchExport(context, path, {}));
}

/// Sizes that results may have, of which the operator tells by what it takes: those of the data with more and fewer
/// dimensions.
static bool findResultSizes(ArchiveDraft &draft, const std::string &path) {
  std::vector<int64_t> sizes = draft.firstSizes();
  auto isGood = [&](const std::vector<int64_t> &guess) {
    draft.setResultSizes(guess);
    return isImported(draft.records(printed(draft.model())), path);
  };
  if (isGood(sizes))
    return true;
  std::vector<int64_t> more = sizes;
  more.push_back(1);
  if (isGood(more))
    return true;
  while (!sizes.empty()) {
    sizes.pop_back();
    if (isGood(sizes))
      return true;
  }
  return false;
}

static constexpr int64_t kIntegers[] = {0, 1, 2, -1, -2, 5, 7, 100, 1 << 21, int64_t(1) << 33, INT64_MAX, INT64_MIN};

/// An argument of the operator: left out, twice, of another name, number, kind or tensor; or another operator.
static std::string changeArgument(ArchiveDraft &draft, Random &random) {
  static const std::vector<std::string> targets = allTargets();
  json::Object &node = draft.operatorNode();
  json::Array &arguments = *node.getArray("inputs");
  llvm::StringRef now = node.getString("target").value_or("");
  if (auto [name, overload] = now.rsplit('.'); random.oneIn(8)) {
    std::string inPlace = (name + "_." + overload).str();
    node["target"] = inPlace;
    return "as " + inPlace;
  }
  if (arguments.empty() || random.oneIn(6)) {
    std::string target = random.pick(targets);
    node["target"] = (llvm::StringRef(target).starts_with("aten.") ? "torch.ops." : "") + target;
    return "as " + target;
  }
  size_t at = random.below(static_cast<int64_t>(arguments.size()));
  json::Object &argument = *arguments[at].getAsObject();
  std::string name = argument.getString("name").value_or("").str();
  switch (random.below(6)) {
  case 0:
    arguments.erase(arguments.begin() + static_cast<ptrdiff_t>(at));
    return "without " + name;
  case 1:
    argument["arg"] = json::Object{{"as_none", true}};
    return name + " is None";
  case 2:
    argument["arg"] = json::Object{{"as_int", random.pick(kIntegers)}};
    return name + " is an integer";
  case 3:
    argument["arg"] = json::Object{{"as_ints", json::Array{random.pick(kIntegers), random.pick(kIntegers)}}};
    return name + " is a list";
  case 4:
    argument["arg"] = json::Object{{"as_tensor", json::Object{{"name", random.oneIn(2) ? "x" : "w"}}}};
    return name + " is another tensor";
  default:
    argument["arg"] = *arguments[random.below(static_cast<int64_t>(arguments.size()))].getAsObject()->get("arg");
    return name + " is another argument";
  }
}

/// Two archives of three are changed: an argument, or any part of the JSON.
static Verdict tryArchive(uint64_t number, const std::string &place) {
  static const std::vector<ArchiveRecipe> recipes = archiveRecipes();
  const ArchiveRecipe &recipe = recipes[number % recipes.size()];
  Random random(number * 0x2545F4914F6CDD1D + 31);
  write(place + "/about", recipe.target + "\n");
  std::string path = place + "/model.pt2";
  ArchiveDraft draft(recipe, random);
  if (!findResultSizes(draft, path))
    return {-1};
  uint64_t round = unchanged ? 0 : number / recipes.size() % 3;
  std::string change = round == 1 ? changeArgument(draft, random) : round == 2 ? "other JSON" : "";
  json::Value model = draft.model();
  write(path, writeZip(draft.records(round == 2 ? printChanged(model, random, true) : printed(model))));
  std::vector<std::string> flags = randomFlags(random, 4, "loss");
  std::string line;
  for (const std::string &flag : flags)
    line += (line.empty() ? "" : " ") + flag;
  write(place + "/flags", line + "\n" + change + "\n");
  TrialOutcome outcome = compileToRank(path, flags);
  Verdict verdict = lookFor({outcome.code, outcome.finding, recipe.target, outcome.said}, pattern);
  if (round == 0 && outcome.code == 0)
    verdict.reached = {recipe.target};
  return verdict;
}

/// An archive whose JSON gets smaller, and the flags it is compiled with.
struct ArchiveSpecimen {
  std::string model;
  std::vector<std::string> flags;
};

static std::string readAll(const std::string &path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

static std::vector<ArchiveSpecimen> withoutFlags(const ArchiveSpecimen &whole) {
  std::vector<ArchiveSpecimen> smaller;
  for (auto [begin, end] : rangesOf(whole.flags.size())) {
    ArchiveSpecimen next = whole;
    next.flags.erase(next.flags.begin() + static_cast<ptrdiff_t>(begin),
                     next.flags.begin() + static_cast<ptrdiff_t>(end));
    smaller.push_back(std::move(next));
  }
  return smaller;
}

/// The JSON's edits, and the flags left out.
static std::vector<Edits<ArchiveSpecimen>> archiveEdits() {
  std::vector<Edits<ArchiveSpecimen>> edits{withoutFlags};
  for (const Edits<std::string> &ofText : textEdits())
    edits.push_back([ofText](const ArchiveSpecimen &whole) {
      std::vector<ArchiveSpecimen> smaller;
      for (std::string &text : ofText(whole.model))
        smaller.push_back({std::move(text), whole.flags});
      return smaller;
    });
  return edits;
}

/// The archive of a finding with less in its JSON, under fewer flags, in a folder `minimised` beside it.
static bool minimiseArchive(const Supervision &options, const std::string &place) {
  namespace fs = std::filesystem;
  std::string bytes = readAll(place + "/model.pt2"), line = readAll(place + "/flags");
  std::optional<ZipRecords> records = readZip(reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size());
  auto isModel = [](const auto &record) { return llvm::StringRef(record.first).ends_with("models/model.json"); };
  ZipRecords::iterator model;
  if (!records || (model = llvm::find_if(*records, isModel)) == records->end()) {
    llvm::errs() << place << ": has no model.pt2 that can be read, expected what a finding leaves behind\n";
    return false;
  }
  std::string made = place + "/minimised", path = made + "/model.pt2";
  fs::remove_all(made);
  fs::create_directories(made);
  llvm::SmallVector<llvm::StringRef> words;
  llvm::StringRef(line).split('\n').first.split(words, ' ', -1, false);
  ArchiveSpecimen whole{model->second, {words.begin(), words.end()}};
  auto put = [&](const ArchiveSpecimen &specimen) {
    model->second = specimen.model;
    write(path, writeZip(*records));
  };
  auto attempt = [&](const ArchiveSpecimen &specimen) {
    put(specimen);
    TrialOutcome outcome = compileToRank(path, specimen.flags);
    return lookFor({outcome.code, outcome.finding, "", outcome.said}, pattern);
  };
  auto result = minimise<ArchiveSpecimen>(options, whole, archiveEdits(), attempt);
  if (!result) {
    llvm::errs() << place << ": shows no finding\n";
    return false;
  }
  put(result->smallest);
  write(made + "/flags", llvm::join(result->smallest.flags, " ") + "\n");
  llvm::outs() << path << ": " << whole.model.size() << " bytes of JSON under " << whole.flags.size() << " flags → "
               << result->smallest.model.size() << " under " << result->smallest.flags.size() << " in "
               << result->trials << " trials: " << result->verdict.finding << ": " << result->verdict.said << "\n"
               << result->smallest.model << "\n";
  return true;
}

int main(int argc, char **argv) {
  cl::HideUnrelatedOptions(ours);
  cl::ParseCommandLineOptions(argc, argv, "Archives of torch.export through hyc's compiler.\n");
  llvm::sys::PrintStackTraceOnErrorSignal(argv[0]);
  std::filesystem::create_directories(folder.getValue());
  Supervision supervision{.first = seed, .count = archives, .folder = folder, .log = logFile, .jobs = jobs};
  if (!found.empty())
    return !minimiseArchive(supervision, found);
  Tally tally = superviseTrials(supervision, tryArchive);
  llvm::outs() << describe(tally);
  for (const Finding &finding : tally.findings)
    if (minimises)
      minimiseArchive(supervision, folder + "/found/" + std::to_string(finding.seed));
  std::string missing;
  for (const std::string &target : allTargets())
    if (!tally.reached.count(target))
      missing += " " + target;
  if (!missing.empty())
    llvm::outs() << "not reached:" << missing << "\n";
  return !tally.findings.empty() || (covers && !missing.empty());
}
