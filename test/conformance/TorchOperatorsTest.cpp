// Every operator of torch.export that hyc reads, over torch's own samples (torch/export_operators.py): results as
// imported and as phase 1 leaves them, gradients, and the loss of the rank program. Then places where derivatives jump
// (torch/edge_cases.py), some of ONNX's operators. What is refused stands in torch/refused.txt, with what the message
// says.
#include "../e2e/SafeTensors.h"
#include "../equivalence/TrainedModule.h"
#include "dialects/Hyc/HycDialect.h"
#include "hyc/Interpreter/Interpreter.h"
#include "hyc/Interpreter/RankInterpreter.h"
#include "test/Places.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <map>

using namespace hyc;
using equivalence::TrainedModule;
using interpreter::ElementKind;
using interpreter::Tensor;

namespace {
const std::string kCases = hyc::places::inBuild("test/conformance/torch");

/// "nn.functional.pad.reflect-2" of the file's name.
std::vector<std::string> readCases() {
  std::vector<std::string> names;
  for (const auto &entry : std::filesystem::directory_iterator(kCases))
    if (entry.path().extension() != ".safetensors")
      names.push_back(entry.path().stem());
  std::sort(names.begin(), names.end());
  return names;
}

std::string operatorOf(const std::string &name) { return name.substr(0, name.rfind('-')); }

std::vector<std::string> readOperators() {
  std::vector<std::string> names;
  for (const std::string &name : readCases())
    if (names.empty() || names.back() != operatorOf(name))
      names.push_back(operatorOf(name));
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

/// By case, what the refusal says: `NAME-N WORDS`, or `NAME WORDS` for all of an operator; # begins a comment.
std::map<std::string, std::string> readRefused() {
  std::map<std::string, std::string> refused;
  std::ifstream file(hyc::places::inTree("test/conformance/torch/refused.txt"));
  for (std::string line; std::getline(file, line);)
    if (size_t space = line.find(' '); !line.empty() && line[0] != '#' && space != std::string::npos)
      refused[line.substr(0, space)] = line.substr(space + 1);
  return refused;
}

Tensor toTensor(const hyc_e2e::HostTensor &values) {
  Tensor result(ElementKind::F32, values.shape);
  for (size_t i = 0; i < values.values.size(); ++i)
    result.set(static_cast<int64_t>(i), values.values[i]);
  return result;
}

/// Equal, infinities and what is no number too, within what single precision leaves of sums of a few hundred.
void expectNear(const std::vector<double> &actual, const std::vector<double> &expected, const std::string &what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  double largest = 1;
  for (double value : expected)
    if (std::isfinite(value))
      largest = std::max(largest, std::fabs(value));
  for (size_t i = 0; i < expected.size(); ++i) {
    if (std::isnan(expected[i]) ? std::isnan(actual[i]) : actual[i] == expected[i])
      continue;
    // Beside numbers of any size: a large result must not excuse a small one's error.
    double allowed = 1e-4 * std::fabs(expected[i]) + 2e-6 * largest;
    ASSERT_LE(std::fabs(actual[i] - expected[i]), allowed)
        << what << " [" << i << "] is " << actual[i] << ", expected " << expected[i];
  }
}

class Case {
public:
  explicit Case(const std::string &name)
      : path(kCases + "/" + name + ".pt2"), isEdge(name.rfind("edge.", 0) == 0),
        told(hyc_e2e::readSafeTensors(kCases + "/" + name + ".safetensors")) {
    if (!std::filesystem::exists(path))
      path.replace(path.size() - 4, 4, ".onnx");
  }

  /// The refusal's words; empty where the archive is read.
  std::string refusal() const {
    TrainedModule module(path, 1);
    return module ? "" : module.diagnostics();
  }

  void checkResults(bool raised) const {
    TrainedModule module(path, 1);
    ASSERT_TRUE(module && (!raised || module.enter(Phase::Model, Plan()))) << module.diagnostics();
    auto interpreter = create(module);
    ASSERT_TRUE(succeeded(interpreter)) << module.diagnostics();
    llvm::SmallVector<Tensor> inputs;
    for (size_t i = 0; told.count("in." + std::to_string(i)); ++i)
      inputs.push_back(toTensor(told.at("in." + std::to_string(i))));
    auto entry = module.get().lookupSymbol<FuncOp>("train");
    inputs.resize(entry.getNumArguments()); // an input that nothing reads may be gone
    auto results = interpreter->call("train", inputs);
    ASSERT_TRUE(succeeded(results)) << module.diagnostics();
    const auto names = outputNames(entry);
    size_t compared = 0;
    for (size_t i = 0; i < names.size(); ++i)
      if (auto expected = told.find("out." + names[i].substr(std::min<size_t>(3, names[i].size())));
          expected != told.end()) {
        expectNear((*results)[i].toDoubles(), expected->second.values, names[i]);
        ++compared;
      }
    EXPECT_GT(compared, 0u);
  }

  void checkGradients() const {
    if (told.lower_bound("grad.") == told.end() || told.lower_bound("grad.")->first.rfind("grad.", 0) != 0)
      return;
    TrainedModule module(path, 1);
    Plan plan;
    plan.loss = "loss";
    plan.optimizer = "sgd";
    ASSERT_TRUE(module && module.enter(Phase::Model, plan)) << module.diagnostics();
    if (!module.enter(Phase::Train, plan)) { // where every gradient is 0, it says so
      EXPECT_NE(module.diagnostics().find("there is nothing to train"), std::string::npos) << module.diagnostics();
      for (const auto &[name, expected] : told)
        if (name.rfind("grad.", 0) == 0)
          expectNear(std::vector<double>(expected.values.size(), 0), expected.values, name);
      return;
    }
    auto interpreter = create(module);
    ASSERT_TRUE(succeeded(interpreter)) << module.diagnostics();
    interpreter::NamedTensors batch;
    auto microbatch = module.get().lookupSymbol<FuncOp>("microbatch");
    for (unsigned i = 0; i < microbatch.getNumArguments(); ++i)
      batch[microbatch.getArgAttrOfType<mlir::StringAttr>(i, "hyc.input").str()] =
          toTensor(told.at("in." + std::to_string(i)));
    auto step = runTrainStep(*interpreter, {batch}, 1e-3);
    ASSERT_TRUE(succeeded(step)) << module.diagnostics();
    for (auto gradient = told.lower_bound("grad."); gradient != told.end() && gradient->first.rfind("grad.", 0) == 0;
         ++gradient) {
      const Tensor *own = interpreter->getState(gradient->first.substr(5) + ".grad");
      // A parameter without a part in the loss has none.
      std::vector<double> actual = own ? own->toDoubles() : std::vector<double>(gradient->second.values.size(), 0);
      expectNear(actual, gradient->second.values, gradient->first);
    }
    checkProgram(module, plan, batch, *step);
  }

private:
  /// The same step by the rank program, whose kernels also look at numbers of elements that are none.
  void checkProgram(TrainedModule &module, const Plan &plan, const interpreter::NamedTensors &batch,
                    const interpreter::StepResult &expected) const {
    for (Phase phase : {Phase::Plan, Phase::Local, Phase::Rank})
      if (!module.enter(phase, plan)) { // the target may lack a kernel, and has to say so
        EXPECT_NE(module.diagnostics().find("has no kernel on this target"), std::string::npos) << module.diagnostics();
        return;
      }
    auto ranks = interpreter::RankInterpreter::create(module.get(), interpreterOptions());
    ASSERT_TRUE(succeeded(ranks)) << module.diagnostics();
    auto step = ranks->runStep(batch, 1e-3);
    ASSERT_TRUE(succeeded(step)) << module.diagnostics();
    expectNear({step->lossSum, step->gradNorm}, {expected.lossSum, expected.gradNorm}, "loss and norm of the program");
  }

  llvm::FailureOr<interpreter::Interpreter> create(const TrainedModule &module) const {
    return interpreter::Interpreter::create(module.get(), interpreterOptions());
  }
  interpreter::Options interpreterOptions() const {
    interpreter::Options options;
    // At an edge it matters what is rounded.
    options.arithmetic = isEdge ? interpreter::Arithmetic::AsTyped : interpreter::Arithmetic::Wide;
    options.baseDirectory = kCases;
    return options;
  }
  static std::vector<std::string> outputNames(FuncOp entry) {
    std::vector<std::string> names;
    for (unsigned i = 0; i < entry.getNumResults(); ++i) {
      auto name = entry.getResultAttrOfType<mlir::StringAttr>(i, "hyc.output");
      names.push_back(name ? name.str() : "");
    }
    return names;
  }

  std::string path;
  bool isEdge;
  std::map<std::string, hyc_e2e::HostTensor> told;
};

class TorchOperators : public testing::TestWithParam<std::string> {};

TEST_P(TorchOperators, GiveTorchsResultsAndGradients) {
  static const std::map<std::string, std::string> refused = readRefused();
  for (const std::string &name : readCases()) {
    if (operatorOf(name) != GetParam())
      continue;
    SCOPED_TRACE(name);
    const Case sample(name);
    const std::string said = sample.refusal();
    auto known = refused.find(name);
    known = known == refused.end() ? refused.find(GetParam()) : known;
    if (known != refused.end()) {
      EXPECT_NE(said.find(known->second), std::string::npos) << "expected to be refused with: " << known->second << "\n"
                                                             << said;
      continue;
    }
    EXPECT_EQ(said, "");
    if (!said.empty())
      continue;
    sample.checkResults(/*raised=*/false);
    sample.checkResults(/*raised=*/true);
    sample.checkGradients();
  }
}

INSTANTIATE_TEST_SUITE_P(, TorchOperators, testing::ValuesIn(readOperators()), [](const auto &info) {
  std::string name = info.param;
  std::replace_if(name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
  return name;
});
} // namespace
