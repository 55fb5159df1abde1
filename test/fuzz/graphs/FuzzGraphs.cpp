// hyc-fuzz-graphs: small graphs of any operators, and such with one thing changed, through the whole compiler.
#include "Change.h"
#include "GraphGenerator.h"
#include "MinimiseGraph.h"
#include "Trial.h"
#include "WriteTests.h"
#include "test/fuzz/trials/Minimise.h"

#include "lib/Import/ONNX/Importer.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Signals.h"
#include "llvm/Support/raw_ostream.h"

#include <filesystem>
#include <fstream>

using namespace hyc;
using namespace hyc::fuzzing;
namespace cl = llvm::cl;

static cl::OptionCategory ours("Options");
static cl::opt<uint64_t> seed("seed", cl::desc("The first seed"), cl::init(0), cl::cat(ours));
static cl::opt<uint64_t> graphs("graphs", cl::desc("How many"), cl::init(1000), cl::cat(ours));
static cl::opt<std::string> only("only", cl::desc("Graphs of this operator"), cl::cat(ours));
static cl::opt<std::string> folder("folder", cl::desc("Of inputs and findings"), cl::Required, cl::cat(ours));
static cl::opt<std::string> logFile("log", cl::desc("A file with a line for each graph"), cl::cat(ours));
static cl::opt<int> jobs("jobs", cl::desc("Processes"), cl::init(1), cl::cat(ours));
static cl::opt<bool> unchanged("unchanged", cl::desc("Valid graphs only"), cl::cat(ours));
static cl::opt<std::string> tests("write-tests",
                                  cl::desc("A folder for graphs as node tests, with what the interpreter computes"),
                                  cl::cat(ours));
static cl::opt<bool> covers("covers", cl::desc("Fails where an operator never reaches the rank dialect"),
                            cl::cat(ours));

static cl::opt<std::string> found("minimise", cl::desc("Makes a finding in FOLDER/found/SEED small, and does no more"),
                                  cl::cat(ours));
static cl::opt<bool> minimises("minimise-found", cl::desc("Makes what is found small"), cl::cat(ours));
static cl::opt<std::string> pattern("finding-is",
                                    cl::desc("A pattern: errors that match are findings, and no other errors are"),
                                    cl::cat(ours));

/// Names of the importer's table, in order.
static std::vector<std::string> allOps() {
  // No recipe says lists of tensors, graphs within the graph, or attributes whose lists have to go together: ONNX's
  // node tests hold these.
  static const llvm::StringSet<> apart = {"SequenceEmpty",
                                          "SequenceConstruct",
                                          "SequenceInsert",
                                          "SequenceErase",
                                          "SequenceLength",
                                          "SequenceMap",
                                          "ConcatFromSequence",
                                          "Optional",
                                          "OptionalGetElement",
                                          "OptionalHasElement",
                                          "If",
                                          "Loop",
                                          "Scan",
                                          "TfIdfVectorizer",
                                          "hyc:ExpertMatMul",
                                          "hyc:Recurrence",
                                          "hyc:LogGamma",
                                          "hyc:Digamma"};
  std::vector<std::string> names;
  for (const auto &entry : onnx::allOperators())
    if (!apart.contains(entry.first()))
      names.push_back(entry.first().str());
  llvm::sort(names);
  return names;
}

static void write(const std::string &path, const std::string &text) { std::ofstream(path, std::ios::binary) << text; }

static std::string joined(const std::vector<std::string> &words) {
  std::string text;
  for (const std::string &word : words)
    text += (text.empty() ? "" : " ") + word;
  return text;
}

/// Two graphs of three are changed.
static Verdict tryGraph(uint64_t number, const std::string &place) {
  static const std::vector<std::string> ops = allOps();
  Random random(number * 0x2545F4914F6CDD1D + 14);
  GraphOptions options;
  options.op = only.empty() ? ops[number % ops.size()] : only.getValue();
  write(place + "/about", options.op + "\n");
  std::optional<GeneratedGraph> graph = generateGraph(random.next(), options);
  if (!graph)
    return {-1};
  if (!tests.empty()) {
    std::string name = tests + "/test_" + std::to_string(number) + "_" + options.op.substr(options.op.find(':') + 1);
    bool isWritten = writeTest(*graph, random, name);
    if (!isWritten)
      std::filesystem::remove_all(name);
    return {isWritten ? 0 : -1, "", options.op, "", isWritten ? graph->ops : std::vector<std::string>()};
  }
  bool isChanged = !unchanged && number / ops.size() % 3 != 0;
  std::string change = isChanged ? changeOneThing(graph->model, random) : "";
  std::vector<std::string> flags = randomFlags(random, graph->batch, graph->loss);
  std::string path = place + "/model.onnx";
  write(path, graph->model.SerializeAsString());
  write(place + "/flags", joined(flags) + "\n" + change + "\n" + joined(graph->ops) + "\n");
  TrialOutcome outcome = compileToRank(path, flags);
  Verdict verdict = lookFor({outcome.code, outcome.finding, options.op, outcome.said}, pattern);
  if (!isChanged && outcome.code == 0)
    verdict.reached = graph->ops;
  return verdict;
}

int main(int argc, char **argv) {
  cl::HideUnrelatedOptions(ours);
  cl::ParseCommandLineOptions(argc, argv, "Graphs of any operators through hyc's compiler.\n");
  llvm::sys::PrintStackTraceOnErrorSignal(argv[0]);
  std::filesystem::create_directories(folder.getValue());
  Supervision supervision{.first = seed, .count = graphs, .folder = folder, .log = logFile, .jobs = jobs};
  if (!found.empty())
    return !minimiseGraph(supervision, found, pattern);
  Tally tally = superviseTrials(supervision, tryGraph);
  llvm::outs() << describe(tally);
  for (const Finding &finding : tally.findings)
    if (minimises)
      minimiseGraph(supervision, folder + "/found/" + std::to_string(finding.seed), pattern);
  std::string missing;
  for (const std::string &op : allOps())
    if (!tally.reached.count(op))
      missing += " " + op;
  if (!missing.empty())
    llvm::outs() << "not reached:" << missing << "\n";
  return !tally.findings.empty() || (covers && !missing.empty());
}
