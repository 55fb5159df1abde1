// Values beside the model: read from where they should be, and from nowhere else.
#include "OnnxTesting.h"
#include "dialects/Hyc/HycDialect.h"
#include <filesystem>
#include <limits>

using namespace hyc;
using namespace hyc::onnx;

namespace {
/// y = x · w, where w lies at the place that the test names.
class ExternalData : public testing::Test {
protected:
  ExternalData() {
    folder.write("inside/weights.bin", std::string(8, '\0') + floats({1, 2, 3, 4}));
    folder.write("secret.bin", floats({5, 6, 7, 8}));
  }

  static std::string floats(const std::vector<float> &values) {
    return std::string(reinterpret_cast<const char *>(values.data()), values.size() * sizeof(float));
  }

  Imported importWith(const std::vector<std::pair<std::string, std::string>> &entries,
                      const ImportOptions &options = {}) {
    ModelBuilder model;
    model.input("x", kF32, {1, 2});
    onnxfile::Tensor &tensor = model.floats("w", {2, 2}, {});
    tensor.clear_raw_data();
    tensor.set_data_location(1);
    for (auto &[key, value] : entries) {
      onnxfile::Entry &entry = *tensor.add_external_data();
      entry.set_key(key);
      entry.set_value(value);
    }
    model.node("MatMul", {"x", "w"}, {"y"});
    model.output("y");
    folder.write("inside/model.onnx", model.bytes());
    return importFile(folder / "inside/model.onnx", options);
  }

  TemporaryFolder folder;
};

TEST_F(ExternalData, is_read_from_a_file_beside_the_model) {
  Imported imported = importWith({{"location", "weights.bin"}, {"offset", "8"}, {"length", "16"}});
  auto results = execute(imported, {interpreter::Tensor::fromDoubles(interpreter::ElementKind::F32, {1, 2}, {1, 10})},
                         folder / "inside");
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].toDoubles(), (std::vector<double>{31, 42}));
}

TEST_F(ExternalData, may_lie_in_a_folder_below) {
  folder.write("inside/deep/er/w.bin", floats({1, 2, 3, 4}));
  EXPECT_TRUE(importWith({{"location", "deep/er/w.bin"}}));
}

TEST_F(ExternalData, never_leaves_the_folder_of_the_model) {
  std::string absolute = (folder / "secret.bin").string();
  for (std::string location : {std::string("../secret.bin"), std::string("deep/../../secret.bin"), absolute,
                               std::string("./../secret.bin"), std::string(".."), std::string("/"), std::string("")})
    expectError(importWith({{"location", location}}), {"\"w\"", "refused"});
}

TEST_F(ExternalData, is_not_read_through_a_link) {
  std::filesystem::create_symlink(folder / "secret.bin", folder / "inside/link.bin");
  expectError(importWith({{"location", "link.bin"}}), {"\"w\"", "'link.bin' is a symbolic link"});
  std::filesystem::create_directory_symlink(folder.path, folder / "inside/up");
  expectError(importWith({{"location", "up/secret.bin"}}), {"\"w\"", "'up' is a symbolic link"});
  std::filesystem::create_hard_link(folder / "secret.bin", folder / "inside/hard.bin");
  expectError(importWith({{"location", "hard.bin"}}), {"\"w\"", "2 hard links"});
}

TEST_F(ExternalData, must_be_a_plain_file) {
  std::filesystem::create_directory(folder / "inside/folder.bin");
  expectError(importWith({{"location", "folder.bin"}}), {"\"w\"", "expected a plain file"});
  // Opened, a FIFO without a writer would block for ever.
  ASSERT_EQ(std::system(("mkfifo " + (folder / "inside/fifo.bin").string()).c_str()), 0);
  expectError(importWith({{"location", "fifo.bin"}}), {"\"w\"", "expected a plain file"});
}

TEST_F(ExternalData, has_offsets_and_lengths_that_are_plain_numbers) {
  for (std::string number : {"-1", "eight", "", "0x8", " 8", "9223372036854775808", "8.0"}) {
    expectError(importWith({{"location", "weights.bin"}, {"offset", number}}), {"\"w\"", "offset '" + number + "'"});
    expectError(importWith({{"location", "weights.bin"}, {"length", number}}), {"\"w\"", "length '" + number + "'"});
  }
}

TEST_F(ExternalData, lies_within_its_file) {
  expectError(importWith({{"location", "weights.bin"}, {"offset", "9"}}), {"\"w\"", "from byte 9 over 16 bytes", "24"});
  expectError(importWith({{"location", "weights.bin"}, {"offset", "1152921504606846976"}}), {"\"w\"", "24"});
  expectError(importWith({{"location", "weights.bin"}, {"length", "1152921504606846976"}}), {"\"w\"", "expected 16"});
}

TEST_F(ExternalData, is_given_once) {
  expectError(importWith({{"location", "weights.bin"}, {"location", "../secret.bin"}}), {"\"w\"", "'location' twice"});
}

TEST_F(ExternalData, has_a_clean_file_name) {
  expectError(importWith({{"location", std::string("weights.bin\0/../x", 17)}}),
              {"\"w\"", "not valid UTF-8 without NUL"});
}

TEST_F(ExternalData, that_is_absent_is_asked_for_or_initialised_by_rule) {
  expectError(importWith({{"location", "absent.bin"}}), {"\"w\"", "'absent.bin', which does not exist"});
  ImportOptions options;
  options.weights = WeightSource::InitialiseMissing;
  Imported imported = importWith({{"location", "absent.bin"}}, options);
  ASSERT_TRUE(imported);
  for (ParamOp param : imported.module->getOps<ParamOp>())
    EXPECT_TRUE(mlir::isa<NormalAttr>(param.getInit()));
}

TEST_F(ExternalData, of_a_huge_tensor_is_refused_before_anything_is_allocated) {
  ModelBuilder model;
  model.input("x", kF32, {1});
  onnxfile::Tensor &tensor = model.integers("n", {int64_t(1) << 59}, {});
  tensor.clear_raw_data();
  tensor.set_data_location(1);
  onnxfile::Entry &entry = *tensor.add_external_data();
  entry.set_key("location");
  entry.set_value("weights.bin");
  model.node("Expand", {"x", "n"}, {"y"});
  model.output("y");
  folder.write("inside/model.onnx", model.bytes());
  expectError(importFile(folder / "inside/model.onnx"), {"\"n\"", "24"});
}
} // namespace
