// Weights from safetensors: what the header may not say, which tensor a parameter takes, and the logits that PyTorch
// computed with them, however the file names, types or shards them.
#include "../../e2e/SafeTensors.h"
#include "OnnxTesting.h"
#include "dialects/Hyc/HycDialect.h"
#include "hyc/Import/Checkpoint/Checkpoint.h"
#include "hyc/Import/HuggingFace/Import.h"
#include "hyc/Support/SafeTensors.h"
#include "test/Places.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>

using namespace hyc;
using namespace hyc::onnx;

namespace {

const std::string kModel = hyc::places::model("gpt2-formats");

std::string bytesOf(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string littleEndian(uint64_t value) { return std::string(reinterpret_cast<const char *>(&value), sizeof value); }

std::string fileOf(const std::string &header, const std::string &data = "") {
  return littleEndian(header.size()) + header + data;
}

/// What reading the bytes as a safetensors file says; "good" where it says nothing.
std::string outcomeOf(const std::string &bytes) {
  TemporaryFolder folder;
  folder.write("x.safetensors", bytes);
  auto tensors = readSafeTensorsHeader((folder / "x.safetensors").string());
  return tensors ? "good" : llvm::toString(tensors.takeError());
}

//===----------------------------------------------------------------------===//
// Headers
//===----------------------------------------------------------------------===//

struct Refusal {
  std::string bytes, message;
};
class SafeTensorsRefusal : public testing::TestWithParam<Refusal> {};
void PrintTo(const Refusal &refusal, std::ostream *out) { *out << refusal.message; }

TEST_P(SafeTensorsRefusal, says_what_was_found) {
  EXPECT_NE(outcomeOf(GetParam().bytes).find(GetParam().message), std::string::npos) << outcomeOf(GetParam().bytes);
}

std::string entry(const std::string &name, const std::string &shape, int begin, int end,
                  const std::string &type = "F32") {
  return "\"" + name + "\": {\"dtype\": \"" + type + "\", \"shape\": " + shape + ", \"data_offsets\": [" +
         std::to_string(begin) + ", " + std::to_string(end) + "]}";
}

const std::string kEight(8, 'x'), kSixteen(16, 'x');

INSTANTIATE_TEST_SUITE_P(
    Files, SafeTensorsRefusal,
    testing::Values(
        Refusal{littleEndian(uint64_t(1) << 63) + "{}", "claims 9223372036854775808 bytes, expected at most 2"},
        Refusal{littleEndian(3) + "{}", "claims 3 bytes"}, Refusal{"abc", "ends at byte 3"},
        Refusal{"", "ends at byte 0"}, Refusal{std::string("PK\3\4") + kSixteen, "is a pickle"},
        Refusal{std::string("\x80\x02") + kSixteen, "is a pickle"}, Refusal{fileOf("[]"), "is an array"},
        Refusal{fileOf("{" + entry("a", "[2]", 0, 8) + "," + entry("b", "[2]", 4, 12) + "}", std::string(12, 'x')),
                "\"b\" overlaps the tensor before it"},
        Refusal{fileOf("{" + entry("a", "[1]", 0, 4) + "," + entry("b", "[1]", 8, 12) + "}", std::string(12, 'x')),
                "\"b\" comes after a hole"},
        Refusal{fileOf("{" + entry("a", "[1]", 0, 4) + "}", kEight), "but the file has"},
        Refusal{fileOf("{" + entry("a", "[2]", 0, 8) + "}", "xxxx"), "ends at byte 8 of the data, which has 4"},
        Refusal{fileOf("{" + entry("a", "[3]", 0, 8) + "}", kEight), "has 8 bytes of data, expected 12"},
        Refusal{fileOf("{" + entry("a", "[-2]", 0, 8) + "}", kEight), "dimension of size -2"},
        Refusal{fileOf("{" + entry("a", "[4611686018427387904, 4]", 0, 8) + "}", kEight), "63 bits"},
        Refusal{fileOf("{" + entry("a", "[2]", 8, 0) + "}", kEight), "two ascending numbers"},
        Refusal{fileOf("{" + entry("a", "[2]", 0, 8, "F33") + "}", kEight), "has the type \"F33\""},
        Refusal{fileOf("{" + entry("a", "[1]", 0, 4) + "," + entry("a", "[1]", 4, 8) + "}", kEight), "\"a\""},
        Refusal{fileOf("{" + entry("\xff", "[2]", 0, 8) + "}", kEight), "UTF-8"},
        Refusal{fileOf("{" + entry("\\u0000", "[2]", 0, 8) + "}", kEight), "NUL"},
        Refusal{fileOf("{\"a\": {\"dtype\": \"F32\"}}"), "has no shape"},
        Refusal{fileOf(std::string(5000, '[')), "nested deeper"}));

TEST(SafeTensorsHeader, cut_off_at_any_byte_is_refused) {
  const std::string good = fileOf("{" + entry("a", "[2]", 0, 8) + "," + entry("b", "[2]", 8, 16) + "}", kSixteen);
  ASSERT_EQ(outcomeOf(good), "good");
  for (size_t bytes = 0; bytes < good.size(); ++bytes)
    EXPECT_NE(outcomeOf(good.substr(0, bytes)), "good") << bytes;
}

/// The length of a header of 640 bytes, 0x280, begins with the bytes that a pickle of protocol 2 begins with.
TEST(SafeTensorsHeader, whose_length_begins_as_a_pickle_does_is_read) {
  std::string header = "{" + entry("a", "[2]", 0, 8) + "}";
  for (size_t length : {640, 896, 1152, 1408}) {
    header.resize(length, ' ');
    EXPECT_EQ(outcomeOf(fileOf(header, kEight)), "good") << length;
  }
}

//===----------------------------------------------------------------------===//
// The fixture's weights, written again in other ways
//===----------------------------------------------------------------------===//

struct Weight {
  std::string name, type, bytes;
  llvm::SmallVector<int64_t> shape;
};

std::vector<Weight> weights() {
  const std::string file = bytesOf(kModel + "/model.safetensors");
  std::vector<Weight> result;
  for (const SafeTensor &tensor : llvm::cantFail(readSafeTensorsHeader(kModel + "/model.safetensors")))
    result.push_back({tensor.name, tensor.type, file.substr(tensor.offset, tensor.bytes), tensor.shape});
  return result;
}

std::string encode(llvm::ArrayRef<Weight> weights) {
  std::string header = "{\"__metadata__\": {\"format\": \"pt\"}", data;
  for (const Weight &weight : weights) {
    std::string shape;
    for (int64_t size : weight.shape)
      shape += (shape.empty() ? "" : ", ") + std::to_string(size);
    header += ", " + entry(weight.name, "[" + shape + "]", data.size(), data.size() + weight.bytes.size(), weight.type);
    data += weight.bytes;
  }
  return fileOf(header + "}", data);
}

/// The folder's model with these weights, or messages.
Imported importFolder(const TemporaryFolder &folder) {
  folder.write("config.json", bytesOf(kModel + "/config.json"));
  Imported result;
  result.context = std::make_unique<mlir::MLIRContext>();
  result.context->loadDialect<HycDialect>();
  result.context->getDiagEngine().registerHandler([&](mlir::Diagnostic &diagnostic) {
    std::string text = diagnostic.str();
    for (mlir::Diagnostic &note : diagnostic.getNotes())
      text += "\n" + note.str();
    (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error ? result.errors : result.warnings).push_back(text);
  });
  HuggingFaceOptions options;
  options.batch = 2;
  auto module = importHuggingFace(*result.context, (folder / "config.json").string(), options);
  if (succeeded(module))
    result.module = std::move(*module);
  return result;
}

/// The largest difference of the module's logits from PyTorch's, over the largest of those.
double logitsDifference(Imported &imported, const std::filesystem::path &folder) {
  auto reference = hyc_e2e::readSafeTensors(kModel + ".reference.safetensors");
  const hyc_e2e::HostTensor &tokens = reference.at("tokens"), &expected = reference.at("logits");
  int64_t samples = expected.shape[0], window = tokens.shape[2];
  std::vector<int64_t> ids;
  for (int64_t sample = 0; sample < samples; ++sample)
    for (int64_t i = 0; i + 1 < window; ++i)
      ids.push_back(static_cast<int64_t>(tokens.values[sample * window + i]));
  auto inputs = interpreter::Tensor::fromIntegers(interpreter::ElementKind::I64, {samples, window - 1}, ids);
  auto results = execute(imported, {inputs}, folder);
  double largest = 0, difference = 0;
  for (size_t i = 0; i < expected.values.size(); ++i) {
    largest = std::max(largest, std::fabs(expected.values[i]));
    difference = std::max(difference, std::fabs(results.at(0).getDouble(static_cast<int64_t>(i)) - expected.values[i]));
  }
  EXPECT_GT(largest, 0.1);
  return difference / largest;
}

TEST(HuggingFaceFolder, logits_are_those_of_pytorch) {
  TemporaryFolder folder;
  folder.write("model.safetensors", bytesOf(kModel + "/model.safetensors"));
  Imported imported = importFolder(folder);
  ASSERT_TRUE(imported) << imported.allErrors();
  EXPECT_TRUE(imported.warnings.empty());
  EXPECT_LT(logitsDifference(imported, folder.path), 1e-5);
}

TEST(HuggingFaceFolder, names_without_their_prefix_and_old_masks_are_understood) {
  TemporaryFolder folder;
  std::vector<Weight> list = weights();
  for (Weight &weight : list)
    weight.name = weight.name.substr(std::strlen("transformer."));
  list.push_back({"h.0.attn.bias", "U8", std::string(256, '\1'), {1, 1, 16, 16}});
  list.push_back({"h.0.attn.masked_bias", "F32", std::string(4, '\0'), {}});
  folder.write("model.safetensors", encode(list));
  Imported imported = importFolder(folder);
  ASSERT_TRUE(imported) << imported.allErrors();
  EXPECT_TRUE(imported.warnings.empty()) << imported.warnings.front();
  EXPECT_LT(logitsDifference(imported, folder.path), 1e-5);
}

void writeShards(const TemporaryFolder &folder, const std::string &firstFile = "model-00001-of-00002.safetensors") {
  std::vector<Weight> list = weights();
  std::string map;
  for (size_t i = 0; i < list.size(); ++i)
    map +=
        (i ? ", \"" : "\"") + list[i].name + "\": \"" + (i < 5 ? firstFile : "model-00002-of-00002.safetensors") + "\"";
  folder.write("model-00001-of-00002.safetensors", encode(llvm::ArrayRef<Weight>(list).take_front(5)));
  folder.write("model-00002-of-00002.safetensors", encode(llvm::ArrayRef<Weight>(list).drop_front(5)));
  folder.write("model.safetensors.index.json", "{\"metadata\": {}, \"weight_map\": {" + map + "}}");
}

TEST(HuggingFaceFolder, shards_are_one_checkpoint) {
  TemporaryFolder folder;
  writeShards(folder);
  Imported imported = importFolder(folder);
  ASSERT_TRUE(imported) << imported.allErrors();
  EXPECT_LT(logitsDifference(imported, folder.path), 1e-5);
}

TEST(HuggingFaceFolder, a_shard_elsewhere_or_missing_is_refused) {
  for (std::string name :
       {"../model-00001-of-00002.safetensors", "/etc/passwd", "x/../y.safetensors", ".safetensors"}) {
    TemporaryFolder folder;
    writeShards(folder, name);
    Imported imported = importFolder(folder);
    EXPECT_FALSE(imported) << name;
    EXPECT_NE(imported.allErrors().find("expected the name of a .safetensors file in the same folder"),
              std::string::npos)
        << imported.allErrors();
  }
  TemporaryFolder folder;
  writeShards(folder, "model-00003-of-00002.safetensors");
  EXPECT_NE(importFolder(folder).allErrors().find("model-00003-of-00002.safetensors: cannot be read"),
            std::string::npos);
}

/// The upper half of an f32's bits, or the nearest f16.
std::string narrowed(const std::string &bytes, bool isBf16) {
  std::string result;
  for (size_t i = 0; i < bytes.size(); i += 4) {
    float value;
    std::memcpy(&value, bytes.data() + i, 4);
    uint16_t half =
        interpreter::encodeHalfWidth(isBf16 ? interpreter::ElementKind::BF16 : interpreter::ElementKind::F16, value);
    result.append(reinterpret_cast<const char *>(&half), 2);
  }
  return result;
}

TEST(HuggingFaceFolder, narrow_types_are_widened) {
  // Half a unit in the last place of 8 and 11 bits, through two layers; never as close as f32.
  for (auto [isBf16, tolerance] : {std::pair(true, 2e-2), std::pair(false, 2e-3)}) {
    TemporaryFolder folder;
    std::vector<Weight> list = weights();
    for (Weight &weight : list)
      weight.bytes = narrowed(weight.bytes, isBf16), weight.type = isBf16 ? "BF16" : "F16";
    folder.write("model.safetensors", encode(list));
    Imported imported = importFolder(folder);
    ASSERT_TRUE(imported) << imported.allErrors();
    double difference = logitsDifference(imported, folder.path);
    EXPECT_LT(difference, tolerance);
    EXPECT_GT(difference, 1e-6);
  }
}

TEST(HuggingFaceFolder, missing_and_misshapen_tensors_are_all_listed_with_the_nearest) {
  TemporaryFolder folder;
  std::vector<Weight> list = weights();
  for (Weight &weight : list) {
    if (weight.name == "transformer.h.1.mlp.c_fc.bias")
      weight.name = "transformer.h.1.mlp.c_fc.bia";
    if (weight.name == "transformer.ln_f.weight")
      weight.shape = {16, 2};
  }
  folder.write("model.safetensors", encode(list));
  Imported imported = importFolder(folder);
  EXPECT_FALSE(imported);
  ASSERT_EQ(imported.errors.size(), 1u) << imported.allErrors();
  for (const char *part :
       {"1 of the model's tensors missing, 1 of another shape or type, 1 left over",
        "\"transformer.ln_f.weight\" is F32 [16, 2], expected [32]",
        "parameter \"transformer.h.1.mlp.c_fc.bias\" [128] is not there; the nearest that is left is "
        "\"transformer.h.1.mlp.c_fc.bia\""})
    EXPECT_NE(imported.errors[0].find(part), std::string::npos) << imported.errors[0];
}

TEST(HuggingFaceFolder, an_extra_tensor_is_a_warning_with_the_nearest) {
  TemporaryFolder folder;
  std::vector<Weight> list = weights();
  list.push_back({"transformer.h.1.mlp.c_fc.scale", "F32", std::string(4, '\0'), {1}});
  folder.write("model.safetensors", encode(list));
  Imported imported = importFolder(folder);
  ASSERT_TRUE(imported) << imported.allErrors();
  ASSERT_EQ(imported.warnings.size(), 1u);
  EXPECT_NE(imported.warnings[0].find("\"transformer.h.1.mlp.c_fc.scale\"; the nearest parameter is "
                                      "\"transformer.h.1.mlp.c_fc."),
            std::string::npos)
      << imported.warnings[0];
}

TEST(HuggingFaceFolder, a_pickle_is_refused) {
  TemporaryFolder folder;
  folder.write("pytorch_model.bin", std::string("PK\3\4"));
  EXPECT_NE(importFolder(folder).allErrors().find("'pytorch_model.bin', a pickle"), std::string::npos);
}

/// ONNX's exporter keeps the tied weight's other name.
TEST(Checkpoint, starts_an_onnx_model_whose_tied_weight_has_its_other_name) {
  ImportOptions options;
  options.batch = 2;
  options.weights = WeightSource::Initialise;
  Imported imported = importFile(kModel + ".onnx", options);
  ASSERT_TRUE(imported) << imported.allErrors();
  ASSERT_TRUE(imported.module->lookupSymbol("lm_head.weight"));
  auto checkpoint = Checkpoint::open(kModel);
  ASSERT_TRUE(static_cast<bool>(checkpoint)) << llvm::toString(checkpoint.takeError());
  ASSERT_TRUE(succeeded(startFromCheckpoint(*imported.module, *checkpoint)));
  EXPECT_LT(logitsDifference(imported, "."), 1e-5);
}

} // namespace
