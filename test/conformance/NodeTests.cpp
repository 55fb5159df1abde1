// Runs ONNX's node tests as emitted C++ and compares their outputs with those supplied. The table beside this file says
// of each test whether it passes, or why it does not; the test fails where one that passes there does not.
//
//   onnx_node_tests [--every N] [--only TEXT] [--lower-only] [--write-table]
//   onnx_node_tests --data FOLDER   others, such as hyc-fuzz-graphs writes: each that becomes a program has to pass
#include "Library.h"
#include "test/Places.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>

using namespace hyc::conformance;
namespace fs = std::filesystem;

namespace {
const std::string kTable = hyc::places::inTree("test/conformance/node-tests.txt");

struct Options {
  size_t every = 1;
  std::string only;
  std::string data = HYC_TEST_DATA;
  bool writesTable = false;
  bool lowersOnly = false; // says what cannot be compiled, and compiles nothing
};

/// "pass NAME" or "skip NAME reason".
std::map<std::string, std::string> readTable() {
  std::map<std::string, std::string> skipped;
  std::ifstream file(kTable);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string verdict, name, reason;
    words >> verdict >> name;
    std::getline(words >> std::ws, reason);
    if (verdict == "pass")
      skipped[name] = "";
    else if (verdict == "skip")
      skipped[name] = reason.empty() ? "no reason" : reason;
  }
  return skipped;
}

std::vector<std::string> listTests(const Options &options) {
  std::vector<std::string> names;
  for (const auto &entry : fs::directory_iterator(options.data))
    names.push_back(entry.path().filename().string().substr(std::strlen("test_")));
  std::sort(names.begin(), names.end());
  std::vector<std::string> chosen;
  for (size_t i = 0; i < names.size(); ++i)
    if (i % options.every == 0 && names[i].find(options.only) != std::string::npos)
      chosen.push_back(names[i]);
  return chosen;
}

/// Reasons that the table has stay: some are written by hand.
void writeTable(const std::vector<LoweredTest> &tests, const std::map<std::string, std::string> &before) {
  std::ofstream file(kTable);
  file << "# ONNX's node tests (Debian's libonnx-testdata), each with what becomes of it. Written by onnx_node_tests\n"
          "# --write-table, which keeps reasons; a test that passes may not become one that does not.\n";
  for (const LoweredTest &test : tests) {
    std::string reason = test.reason.substr(0, test.reason.find('\n'));
    if (auto known = before.find(test.name); !reason.empty() && known != before.end() && !known->second.empty())
      reason = known->second;
    file << (reason.empty() ? "pass " + test.name : "skip " + test.name + " " + reason) << "\n";
  }
}

Options parse(int argc, char **argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    if (argument == "--every" && i + 1 < argc)
      options.every = std::max(1, std::atoi(argv[++i]));
    else if (argument == "--only" && i + 1 < argc)
      options.only = argv[++i];
    else if (argument == "--data" && i + 1 < argc)
      options.data = argv[++i];
    else if (argument == "--lower-only")
      options.lowersOnly = true;
    else if (argument == "--write-table")
      options.writesTable = true;
    else
      std::cerr << "unknown argument " << argument << "\n", std::exit(64);
  }
  return options;
}
} // namespace

/// Tests that are in no table: a program that does not compile, or computes other values, is wrong.
static int runOthers(std::vector<LoweredTest> &tests) {
  size_t programs =
      std::count_if(tests.begin(), tests.end(), [](const LoweredTest &test) { return test.reason.empty(); });
  std::vector<bool> isProgram;
  for (const LoweredTest &test : tests)
    isProgram.push_back(test.reason.empty());
  Libraries libraries(tests);
  size_t wrong = 0;
  for (size_t i = 0; i < tests.size(); ++i) {
    if (isProgram[i] && tests[i].reason.empty())
      tests[i].reason = libraries.run(tests[i]);
    bool isWrong = isProgram[i] && !tests[i].reason.empty();
    wrong += isWrong;
    if (!tests[i].reason.empty())
      std::cout << (isWrong ? "FAILED  " : "skipped ") << tests[i].name << ": "
                << tests[i].reason.substr(0, tests[i].reason.find('\n')) << "\n";
  }
  std::cout << programs << " of " << tests.size() << " tests are programs, " << wrong << " of which are wrong\n";
  return wrong == 0 && programs > 0 ? 0 : 1;
}

int main(int argc, char **argv) {
  const Options options = parse(argc, argv);
  std::vector<LoweredTest> tests;
  for (const std::string &name : listTests(options)) {
    if (std::getenv("HYC_NODE_TRACE"))
      std::cerr << name << "\n";
    tests.push_back(lowerTest(options.data + "/test_" + name, name));
  }
  if (options.lowersOnly) {
    for (const LoweredTest &test : tests)
      if (!test.reason.empty())
        std::cout << "skipped onnx-node/" << test.name << ": " << test.reason << "\n";
    return 0;
  }
  if (options.data != HYC_TEST_DATA)
    return runOthers(tests);
  Libraries libraries(tests);
  std::map<std::string, std::string> table = readTable();
  size_t passed = 0, expected = 0, wrong = 0;
  for (LoweredTest &test : tests) {
    if (test.reason.empty())
      test.reason = libraries.run(test);
    bool passes = test.reason.empty();
    auto known = table.find(test.name);
    bool shouldPass = known != table.end() && known->second.empty();
    passed += passes, expected += shouldPass;
    std::cout << (passes ? "passed  onnx-node/" : "skipped onnx-node/") << test.name
              << (passes ? "" : ": " + test.reason.substr(0, test.reason.find('\n'))) << "\n";
    if (options.writesTable || (shouldPass == passes && known != table.end()))
      continue;
    wrong += known == table.end() || shouldPass; // one more that passes is no fault
    if (known == table.end() || shouldPass)
      std::cout << "FAILED  onnx-node/" << test.name
                << (shouldPass ? ": the table says that it passes" : ": not in the table") << "\n";
    else
      std::cout << "note: onnx-node/" << test.name << " passes now; write the table again\n";
  }
  if (options.writesTable)
    writeTable(tests, table);
  std::cout << passed << " of " << tests.size() << " node tests pass, " << expected << " by the table, " << wrong
            << " are not as the table says\n";
  return wrong == 0 ? 0 : 1;
}
