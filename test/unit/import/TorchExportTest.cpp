// torch.export archives: PyTorch's logits, names, ties and module paths; and what an archive may not be.
#include "../../e2e/SafeTensors.h"
#include "OnnxTesting.h"
#include "dialects/Hyc/HycDialect.h"
#include "hyc/Import/HuggingFace/Import.h"
#include "hyc/Import/TorchExport/Import.h"
#include "hyc/Pipelines/Pipelines.h"
#include "hyc/Support/OpIds.h"
#include "lib/Import/TorchExport/Archive.h"
#include "lib/Import/TorchExport/SymbolicSizes.h"
#include "mlir/Pass/PassManager.h"
#include "test/Places.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CRC.h"
#include "llvm/Support/Regex.h"
#include <cmath>
#include <fstream>

using namespace hyc;
using namespace hyc::onnx;

namespace {

const std::string kModel = hyc::places::model("gpt2-formats");
using Records = std::vector<std::pair<std::string, std::string>>;

Imported importBy(llvm::function_ref<llvm::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>(mlir::MLIRContext &)> import) {
  Imported result;
  result.context = std::make_unique<mlir::MLIRContext>();
  result.context->disableMultithreading();
  result.context->loadDialect<HycDialect>();
  mlir::ScopedDiagnosticHandler handler(result.context.get(), [&](mlir::Diagnostic &diagnostic) {
    (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error ? result.errors : result.warnings)
        .push_back(diagnostic.str());
  });
  auto module = import(*result.context);
  if (succeeded(module))
    result.module = std::move(*module);
  return result;
}

Imported importArchive(const std::string &path) {
  ImportOptions options;
  options.batch = 2;
  return importBy([&](mlir::MLIRContext &context) { return importTorchExport(context, path, options); });
}

void runModelPhase(Imported &imported) {
  mlir::PassManager passes(imported.context.get());
  buildPhase(Phase::Model, passes, Plan());
  buildVerification(Phase::Model, passes);
  ASSERT_TRUE(succeeded(passes.run(*imported.module)));
}

//===----------------------------------------------------------------------===//
// Meaning
//===----------------------------------------------------------------------===//

void expectPyTorchsLogits(Imported &imported) {
  auto reference = hyc_e2e::readSafeTensors(kModel + ".reference.safetensors");
  const hyc_e2e::HostTensor &tokens = reference.at("tokens"), &expected = reference.at("logits");
  int64_t samples = expected.shape[0], window = tokens.shape[2];
  std::vector<int64_t> ids;
  for (int64_t sample = 0; sample < samples; ++sample)
    for (int64_t i = 0; i + 1 < window; ++i)
      ids.push_back(static_cast<int64_t>(tokens.values[sample * window + i]));
  auto inputs = interpreter::Tensor::fromIntegers(interpreter::ElementKind::I64, {samples, window - 1}, ids);
  auto results = execute(imported, {inputs}, hyc::places::model(""));
  ASSERT_EQ(results.size(), 1u);
  double largest = 0, difference = 0;
  for (size_t i = 0; i < expected.values.size(); ++i) {
    largest = std::max(largest, std::fabs(expected.values[i]));
    difference = std::max(difference, std::fabs(results[0].getDouble(static_cast<int64_t>(i)) - expected.values[i]));
  }
  EXPECT_GT(largest, 0.1);
  EXPECT_LT(difference, 1e-5 * largest);
}

TEST(TorchExport, logits_are_those_of_pytorch_as_imported_and_raised) {
  Imported imported = importArchive(kModel + ".pt2");
  ASSERT_TRUE(imported) << imported.allErrors();
  expectPyTorchsLogits(imported);
  runModelPhase(imported);
  expectPyTorchsLogits(imported);
}

TEST(TorchExport, names_ties_and_module_paths_are_the_models) {
  Imported imported = importArchive(kModel + ".pt2");
  ASSERT_TRUE(imported) << imported.allErrors();
  EXPECT_TRUE(imported.module->lookupSymbol<ParamOp>("transformer.wte.weight"));
  EXPECT_FALSE(imported.module->lookupSymbol<ParamOp>("lm_head.weight"));
  EXPECT_EQ(std::distance(imported.module->getOps<ParamOp>().begin(), imported.module->getOps<ParamOp>().end()), 28);
  auto train = imported.module->lookupSymbol<FuncOp>("train");
  EXPECT_EQ(train.getArgAttrOfType<mlir::StringAttr>(0, "hyc.input"), "input_ids");
  EXPECT_EQ(train.getResultAttrOfType<mlir::StringAttr>(0, "hyc.output"), "logits");
  std::vector<std::string> norms;
  train.walk([&](LayerNormOp op) { norms.push_back(getIdPath(op).str()); });
  EXPECT_EQ(norms, (std::vector<std::string>{"transformer.h.0.ln_1", "transformer.h.0.ln_2", "transformer.h.1.ln_1",
                                             "transformer.h.1.ln_2", "transformer.ln_f"}));
}

TEST(TorchExport, parameters_of_one_value_that_modules_share_stay_shared) {
  Imported imported = importArchive(hyc::places::model("tied.pt2"));
  ASSERT_TRUE(imported) << imported.allErrors();
  EXPECT_TRUE(imported.warnings.empty());
  std::vector<std::string> names;
  for (ParamOp param : imported.module->getOps<ParamOp>())
    names.push_back(param.getSymName().str());
  llvm::sort(names);
  EXPECT_EQ(names, (std::vector<std::string>{"first.bias", "first.weight", "norm.bias", "norm.weight", "other.bias",
                                             "second.weight"}));
}

//===----------------------------------------------------------------------===//
// One model, one text
//===----------------------------------------------------------------------===//

/// The text of phase 1 without where values lie, the tied weight under one name.
std::string textOf(Imported imported) {
  EXPECT_TRUE(imported) << imported.allErrors();
  if (!imported)
    return "";
  runModelPhase(imported);
  (*imported.module)->removeAttr("hyc.model_folder");
  std::string text;
  llvm::raw_string_ostream(text) << *imported.module;
  std::string result;
  llvm::Regex place("#hyc\\.file<\"[^\"]*\", offset = [0-9]+>"), tied("@lm_head\\.weight");
  for (llvm::StringRef line : llvm::split(text, '\n'))
    result += tied.sub("@transformer.wte.weight", place.sub("#hyc.file", line)) + "\n";
  return result;
}

TEST(EveryFormat, of_one_model_is_one_text) {
  ImportOptions options;
  options.batch = 2;
  HuggingFaceOptions folder;
  folder.batch = 2;
  std::string expected = textOf(importBy(
      [&](mlir::MLIRContext &context) { return importHuggingFace(context, kModel + "/config.json", folder); }));
  EXPECT_NE(expected.find("hyc.attention causal"), std::string::npos);
  EXPECT_EQ(textOf(importArchive(kModel + ".pt2")), expected);
  for (const char *name : {".onnx", "-legacy.onnx"})
    EXPECT_EQ(textOf(importBy([&](mlir::MLIRContext &context) { return importOnnx(context, kModel + name, options); })),
              expected)
        << name;
}

//===----------------------------------------------------------------------===//
// What is refused
//===----------------------------------------------------------------------===//

std::string little(uint64_t value, int bytes) { return std::string(reinterpret_cast<const char *>(&value), bytes); }

uint32_t checksumOf(const std::string &bytes) {
  return llvm::crc32(llvm::ArrayRef<uint8_t>(reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size()));
}

/// A zip file of stored records; `method` is what its directory says of them.
std::string zipOf(const Records &records, int method = 0) {
  std::string file, directory;
  for (const auto &[name, contents] : records) {
    std::string fields = little(0, 2) + little(method, 2) + little(0, 4) + little(checksumOf(contents), 4) +
                         little(contents.size(), 4) + little(contents.size(), 4) + little(name.size(), 2);
    directory += "PK\1\2" + little(0, 2) + little(0, 2) + fields + little(0, 2) + little(0, 2) + little(0, 2) +
                 little(0, 2) + little(0, 4) + little(file.size(), 4) + name;
    file += "PK\3\4" + little(0, 2) + fields + little(0, 2) + name + contents;
  }
  return file + directory + "PK\5\6" + little(0, 2) + little(0, 2) + little(records.size(), 2) +
         little(records.size(), 2) + little(directory.size(), 4) + little(file.size(), 4) + little(0, 2);
}

/// The fixture's records.
Records fixture() {
  Records records;
  auto archive = llvm::cantFail(torchexport::Archive::open(kModel + ".pt2"));
  for (const auto &[name, record] : archive.getRecords())
    records.push_back({"root/" + name, llvm::cantFail(archive.read(name)).str()});
  return records;
}

/// The fixture with `from` replaced by `to`, once, in a record.
Records changed(const std::string &record, const std::string &from, const std::string &to) {
  Records records = fixture();
  for (auto &[name, contents] : records)
    if (name == "root/" + record) {
      size_t at = contents.find(from);
      EXPECT_NE(at, std::string::npos) << from;
      contents.replace(at, from.size(), to);
    }
  return records;
}

std::string outcomeOf(const std::string &bytes) {
  TemporaryFolder folder;
  folder.write("x.pt2", bytes);
  Imported imported = importArchive((folder / "x.pt2").string());
  return imported ? "good" : imported.allErrors();
}

void expectRefusal(const std::string &bytes, const std::string &message) {
  std::string outcome = outcomeOf(bytes);
  EXPECT_NE(outcome.find(message), std::string::npos) << outcome.substr(0, 2000);
}

TEST(TorchExportRefusal, written_again_unchanged_it_is_good) { EXPECT_EQ(outcomeOf(zipOf(fixture())), "good"); }

TEST(TorchExportRefusal, cut_off_at_any_byte) {
  TemporaryFolder folder;
  std::string path = (folder / "x.pt2").string();
  std::filesystem::copy_file(kModel + ".pt2", path);
  // All of the directory and the end record; of the contents, whose bytes are alike, a sample.
  const uintmax_t whole = std::filesystem::file_size(path);
  for (uintmax_t bytes = whole; bytes-- > 0;) {
    std::filesystem::resize_file(path, bytes);
    auto archive = torchexport::Archive::open(path);
    ASSERT_FALSE(static_cast<bool>(archive)) << bytes;
    std::string message = llvm::toString(archive.takeError());
    ASSERT_NE(message.find("not a torch.export archive"), std::string::npos) << message;
    if (bytes + 6000 < whole)
      bytes -= std::min<uintmax_t>(bytes, 211);
  }
  std::filesystem::copy_file(kModel + ".pt2", path, std::filesystem::copy_options::overwrite_existing);
  std::filesystem::resize_file(path, whole / 2);
  EXPECT_NE(importArchive(path).allErrors().find("without the directory of a zip file"), std::string::npos);
}

TEST(TorchExportRefusal, of_damaged_archives_says_where) {
  std::string good = zipOf(fixture()), damaged = good;
  damaged[damaged.find("\"graph_module\"") + 3] ^= 1;
  expectRefusal(damaged, "record 'models/model.json' is damaged: its checksum does not match");
  expectRefusal(zipOf(fixture(), 8), "is compressed or encrypted");
  Records twice = fixture();
  twice.push_back(twice.front());
  expectRefusal(zipOf(twice), "is there twice");
  Records outside = fixture();
  outside.push_back({"other/x", "x"});
  expectRefusal(zipOf(outside), "which others are in");
  Records nul = fixture();
  nul.push_back({std::string("root/a\0b", 8), "x"});
  expectRefusal(zipOf(nul), "not valid UTF-8 without NUL");
  expectRefusal(zipOf({}), "it holds nothing");
  expectRefusal("no zip", "does not begin as a zip file");
}

TEST(TorchExportRefusal, of_other_archives_says_what_they_are) {
  expectRefusal(zipOf({{"x/data.pkl", "."}, {"x/version", "3"}}), "is a pickle of torch.save");
  expectRefusal(zipOf({{"x/serialized_exported_program.json", "{}"}}), "a torch before 2.9");
  expectRefusal(zipOf({{"x/y", ""}}), "has no record 'archive_format'");
  expectRefusal(zipOf(changed("byteorder", "little", "big")), "byteorder is 'big'");
  expectRefusal(zipOf(changed("models/model.json", "\"major\": 8", "\"major\": 9")), "schema version 9, expected 8");
}

TEST(TorchExportRefusal, of_json_and_tensors_names_them) {
  expectRefusal(zipOf(changed("models/model.json", "{", "{\"x\": " + std::string(10000, '[') + ",")), "nested deeper");
  EXPECT_EQ(outcomeOf(zipOf(changed("models/model.json", "{", "{\"x\": ?"))).find("models/model.json:1:7: "), 0u);
  expectRefusal(zipOf(changed("models/model.json", "\"tanh\"", "\"tan\xff\"")), "UTF-8");
  const std::string config = "data/weights/model_weights_config.json";
  expectRefusal(zipOf(changed(config, "\"use_pickle\": false", "\"use_pickle\": true")), "stored as a pickle");
  expectRefusal(zipOf(changed(config, "\"path_name\": \"weight_3\"", "\"path_name\": \"../weight_3\"")),
                "which is not there");
  expectRefusal(zipOf(changed(config, "{\"as_int\": 257}", "{\"as_int\": 1000}")), "needs 128000 bytes at offset 0");
  expectRefusal(zipOf(changed(config, "{\"as_int\": 257}", "{\"as_int\": -1}")), "a size or stride of -1");
  expectRefusal(zipOf(changed(config, "{\"as_int\": 257}", "{\"as_int\": 9223372036854775807}")),
                "does not lie in row-major order");
  expectRefusal(zipOf(changed(config, "\"dtype\": 7", "\"dtype\": 99")), "unsupported type 99");
  expectRefusal(zipOf(changed(config, "\"dtype\": 7", "\"dtype\": 10")), "needs 65792 bytes at offset 0"); // pairs
}

TEST(SymbolicSizes, are_numbers_where_what_is_in_them_is_bound) {
  llvm::StringMap<int64_t> values{{"s40", 6}, {"s72", 5}};
  auto of = [&](const std::string &text) { return torchexport::evaluateSize({std::nullopt, text}, values); };
  EXPECT_EQ(of("s40"), 6);
  EXPECT_EQ(of("Symbol('s40', positive=True, integer=True)"), 6);
  EXPECT_EQ(of("Mul(Integer(16), Symbol('s40', positive=True, integer=True))"), 96);
  EXPECT_EQ(of("Add(Mul(Integer(-1), Symbol('s72', integer=True)), Symbol('s40', integer=True), Integer(3))"), 4);
  EXPECT_EQ(of("Pow(Symbol('s72', integer=True), Integer(3))"), 125);
  for (const char *open : {"s1", "Mul(Integer(2), Symbol('s1', integer=True))", "FloorDiv(Symbol('s40'), Integer(2))",
                           "Mul(", "Integer(2", "Integer(2) 3", "Pow(Integer(2), Integer(-1))",
                           "Integer(99999999999999999999)", "Mul(Integer(9223372036854775807), Integer(2))"})
    EXPECT_EQ(of(open), std::nullopt) << open;
  std::string nested = "Integer(1)";
  for (int depth = 0; depth < 1000; ++depth)
    nested = "Add(" + nested + ")";
  EXPECT_EQ(of(nested), std::nullopt);
}

TEST(SymbolicSizes, of_a_program_follow_from_the_batch_and_keep_their_names) {
  torchexport::Program program;
  program.inputs = {"x"};
  program.values["x"].sizes = {{std::nullopt, "s40"}, {3, ""}, {std::nullopt, "s9"}};
  program.values["y"].sizes = {{std::nullopt, "Mul(Integer(16), Symbol('s40', integer=True))"}};
  torchexport::bindSizes(program, {}, 4);
  EXPECT_EQ(program.values["x"].sizes[0].value, 4);
  EXPECT_EQ(program.values["x"].sizes[0].symbol, "s40");
  EXPECT_EQ(program.values["x"].sizes[1].value, 3);
  EXPECT_EQ(program.values["x"].sizes[2].value, std::nullopt);
  EXPECT_EQ(program.values["y"].sizes[0].value, 64);
  llvm::StringMap<int64_t> dims{{"s40", 5}, {"s9", 7}};
  torchexport::Program other = {};
  other.inputs = program.inputs;
  other.values["x"].sizes = {{std::nullopt, "s40"}, {std::nullopt, "s9"}};
  torchexport::bindSizes(other, dims, 4);
  EXPECT_EQ(other.values["x"].sizes[0].value, 5);
  EXPECT_EQ(other.values["x"].sizes[1].value, 7);
}

TEST(TorchExportRefusal, of_complex_numbers_says_where_pairs_serve) {
  auto complexIn = [](const std::string &value, const std::string &type) {
    return zipOf(
        changed("models/model.json", "\"" + value + "\": {\"dtype\": " + type, "\"" + value + "\": {\"dtype\": 10"));
  };
  expectRefusal(complexIn("tanh", "7"),
                "operator \"aten.tanh.default\" is not known to hyc over complex numbers; used by \"tanh\"");
  expectRefusal(complexIn("linear", "7"), "operator \"aten.linear.default\" is not known to hyc over complex numbers");
}

TEST(TorchExportRefusal, of_operators_lists_each_once_with_its_nodes) {
  std::string outcome = outcomeOf(
      zipOf(changed("models/model.json", "torch.ops.aten.tanh.default", "torch.ops.aten.special_bessel_j0.default")));
  EXPECT_NE(outcome.find("operator \"aten.special_bessel_j0.default\" is not known to hyc; used by \"tanh\""),
            std::string::npos)
      << outcome;
}

} // namespace
