// The graph built from a config.json: what PyTorch computes with the same weights, the parameters and the initial
// values of transformers, and refusals that name the key.
#include "../../e2e/SafeTensors.h"
#include "ConfigTesting.h"
#include "hyc/Import/HuggingFace/Decoder.h"
#include "hyc/Pipelines/Pipelines.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "test/Places.h"
#include <cmath>
#include <fstream>
#include <map>

using namespace hyc;
using namespace hyc::onnx;

namespace {

std::string configOf(int64_t layers, int64_t heads, int64_t width, int64_t positions, const std::string &more = "") {
  return "{\"model_type\": \"gpt2\", \"n_layer\": " + std::to_string(layers) +
         ", \"n_head\": " + std::to_string(heads) + ", \"n_embd\": " + std::to_string(width) +
         ", \"n_positions\": " + std::to_string(positions) +
         ", \"vocab_size\": 257, \"attn_pdrop\": 0, \"embd_pdrop\": 0, \"resid_pdrop\": 0" + more + "}";
}

mlir::Attribute initOf(mlir::ModuleOp module, llvm::StringRef name) {
  auto param = module.lookupSymbol<ParamOp>(name);
  return param ? param.getInit() : mlir::Attribute();
}

//===----------------------------------------------------------------------===//
// The graph
//===----------------------------------------------------------------------===//

interpreter::Tensor getInputs(const hyc_e2e::HostTensor &tokens, int64_t samples) {
  int64_t window = tokens.shape[2];
  std::vector<int64_t> ids;
  for (int64_t sample = 0; sample < samples; ++sample)
    for (int64_t i = 0; i + 1 < window; ++i)
      ids.push_back(static_cast<int64_t>(tokens.values[sample * window + i]));
  return interpreter::Tensor::fromIntegers(interpreter::ElementKind::I64, {samples, window - 1}, ids);
}

struct Fixture {
  const char *name;
  int64_t layers, heads, width, positions;
};
class Gpt2 : public testing::TestWithParam<Fixture> {};
std::ostream &operator<<(std::ostream &stream, const Fixture &fixture) { return stream << fixture.name; }

TEST_P(Gpt2, logits_are_those_of_pytorch_and_of_the_exported_graph) {
  const Fixture &fixture = GetParam();
  std::string base = hyc::places::model(fixture.name);
  auto reference = hyc_e2e::readSafeTensors(base + ".reference.safetensors");
  const hyc_e2e::HostTensor &expected = reference.at("logits");
  int64_t samples = expected.shape[0];
  ImportOptions options;
  options.batch = samples;
  Imported exported = importFile(base + ".onnx", options);
  ASSERT_TRUE(exported) << exported.allErrors();

  Imported own;
  own.context = std::make_unique<mlir::MLIRContext>();
  own.context->loadDialect<HycDialect>();
  auto config = readDecoder(*own.context, configOf(fixture.layers, fixture.heads, fixture.width, fixture.positions),
                            "config.json");
  ASSERT_TRUE(succeeded(config));
  own.module = buildDecoder(*own.context, *config, samples, fixture.positions);
  ASSERT_TRUE(succeeded(mlir::verify(*own.module)));
  // The same files; the exporter calls the tied embedding by its other name.
  for (ParamOp param : own.module->getOps<ParamOp>()) {
    llvm::StringRef name = param.getSymName();
    auto file = llvm::dyn_cast_or_null<FileAttr>(
        initOf(*exported.module, name == "transformer.wte.weight" ? "lm_head.weight" : name));
    ASSERT_TRUE(file) << name.str();
    param.setInitAttr(FileAttr::get(own.context.get(), file.getPath(), file.getOffset()));
  }

  interpreter::Tensor inputs = getInputs(reference.at("tokens"), samples);
  auto results = execute(own, {inputs}, hyc::places::model("")),
       theirs = execute(exported, {inputs}, hyc::places::model(""));
  ASSERT_EQ(results.size(), 1u);
  ASSERT_EQ(theirs.size(), 1u);
  double largest = 0, difference = 0, fromExported = 0;
  for (size_t i = 0; i < expected.values.size(); ++i) {
    double value = results[0].getDouble(static_cast<int64_t>(i));
    largest = std::max(largest, std::fabs(expected.values[i]));
    difference = std::max(difference, std::fabs(value - expected.values[i]));
    fromExported = std::max(fromExported, std::fabs(value - theirs[0].getDouble(static_cast<int64_t>(i))));
  }
  EXPECT_GT(largest, 0.1);
  EXPECT_LT(difference, 1e-5 * largest);
  EXPECT_LT(fromExported, 1e-5 * largest);
}

INSTANTIATE_TEST_SUITE_P(Models, Gpt2,
                         testing::Values(Fixture{"gpt2-tiny", 8, 8, 64, 64}, Fixture{"gpt2-5layer", 5, 4, 32, 16},
                                         Fixture{"gpt2-3heads", 2, 3, 48, 16}));

TEST(Gpt2Config, a_shorter_sequence_reads_the_first_positions) {
  Built built = build(configOf(1, 2, 8, 64), 16);
  ASSERT_TRUE(built.module) << built.messages;
  EXPECT_TRUE(succeeded(mlir::verify(*built.module)));
  EXPECT_EQ(built.module->lookupSymbol<ParamOp>("transformer.wpe.weight").getTensorType().getDimSize(0), 64);
  auto train = built.module->lookupSymbol<FuncOp>("train");
  EXPECT_EQ(llvm::cast<mlir::RankedTensorType>(train.getArgumentTypes()[0]).getShape(),
            llvm::ArrayRef<int64_t>({2, 16}));
}

TEST(Gpt2Config, untied_embeddings_are_two_parameters) {
  Built built = build(configOf(1, 2, 8, 16, ", \"tie_word_embeddings\": false"));
  ASSERT_TRUE(built.module) << built.messages;
  EXPECT_TRUE(built.module->lookupSymbol<ParamOp>("lm_head.weight"));
  EXPECT_FALSE(build(configOf(1, 2, 8, 16)).module->lookupSymbol<ParamOp>("lm_head.weight"));
}

//===----------------------------------------------------------------------===//
// Initial values: GPT2PreTrainedModel._init_weights
//===----------------------------------------------------------------------===//

TEST(Gpt2Config, initial_values_follow_the_rule_of_transformers) {
  Built built = build(configOf(8, 2, 8, 16, ", \"initializer_range\": 0.04"));
  ASSERT_TRUE(built.module) << built.messages;
  auto stddev = [&](llvm::StringRef name) {
    auto normal = llvm::dyn_cast_or_null<NormalAttr>(initOf(*built.module, name));
    return normal ? normal.getStddev().getValueAsDouble() : -1;
  };
  auto fill = [&](llvm::StringRef name) {
    auto value = llvm::dyn_cast_or_null<FillAttr>(initOf(*built.module, name));
    return value ? value.getValue().getValueAsDouble() : -1;
  };
  EXPECT_DOUBLE_EQ(stddev("transformer.wte.weight"), 0.04);
  EXPECT_DOUBLE_EQ(stddev("transformer.wpe.weight"), 0.04);
  EXPECT_DOUBLE_EQ(stddev("transformer.h.7.attn.c_attn.weight"), 0.04);
  EXPECT_DOUBLE_EQ(stddev("transformer.h.7.mlp.c_fc.weight"), 0.04);
  EXPECT_DOUBLE_EQ(stddev("transformer.h.0.attn.c_proj.weight"), 0.01); // 0.04 / sqrt(2 · 8)
  EXPECT_DOUBLE_EQ(stddev("transformer.h.7.mlp.c_proj.weight"), 0.01);
  EXPECT_EQ(fill("transformer.h.3.attn.c_attn.bias"), 0);
  EXPECT_EQ(fill("transformer.h.3.ln_1.weight"), 1);
  EXPECT_EQ(fill("transformer.h.3.ln_1.bias"), 0);
  EXPECT_EQ(fill("transformer.ln_f.weight"), 1);
}

//===----------------------------------------------------------------------===//
// What is refused
//===----------------------------------------------------------------------===//

struct Refusal {
  const char *text, *message;
};
class RefusedConfig : public testing::TestWithParam<Refusal> {};
std::ostream &operator<<(std::ostream &stream, const Refusal &refusal) { return stream << refusal.message; }

TEST_P(RefusedConfig, names_the_key_and_what_was_expected) {
  Built built = build(GetParam().text);
  EXPECT_FALSE(built.module);
  EXPECT_NE(built.messages.find(GetParam().message), std::string::npos) << built.messages;
}

INSTANTIATE_TEST_SUITE_P(
    Keys, RefusedConfig,
    testing::Values(
        Refusal{"{\"n_layer\": 2}", "has no \"model_type\", expected one of the"},
        Refusal{"{\"model_type\": \"mamba\"}", "\"model_type\" is \"mamba\", expected one of the"},
        Refusal{"{\"model_type\": \"mistrall\"}",
                "\"model_type\" is \"mistrall\", expected \"mistral\" or another of the"},
        Refusal{"{\"model_type\": \"gpt2\", \"n_layer\": 0}", "\"n_layer\" is 0, expected an integer from 1"},
        Refusal{"{\"model_type\": \"gpt2\", \"n_layer\": \"2\"}", "\"n_layer\" is \"2\", expected an integer"},
        Refusal{"{\"model_type\": \"gpt2\", \"n_embd\": 1e30}", "\"n_embd\" is"},
        Refusal{"{\"model_type\": \"gpt2\", \"n_head\": 5}", "expected a multiple of \"n_head\", which is 5"},
        Refusal{"{\"model_type\": \"gpt2\", \"activation_function\": \"swoosh\"}",
                "\"activation_function\" is \"swoosh\""},
        Refusal{"{\"model_type\": \"gpt2\", \"layer_norm_epsilon\": 0}",
                "\"layer_norm_epsilon\" is 0, expected a number"},
        Refusal{"{\"model_type\": \"gpt2\", \"add_cross_attention\": true}", "\"add_cross_attention\" is true"},
        Refusal{"{\"model_type\": \"gpt2\", \"n_positions\": 2147483648, \"vocab_size\": 2147483648}", "2^50 elements"},
        Refusal{"[1]", "is no JSON object"}, Refusal{"{", "expected a key in quotes"},
        Refusal{"", "expected a value"}));

TEST(RefusedConfig, brackets_by_the_thousands_are_too_deep) {
  std::string text = "{\"model_type\": ";
  for (int i = 0; i < 100000; ++i)
    text += '[';
  Built built = build(text);
  EXPECT_FALSE(built.module);
  EXPECT_NE(built.messages.find("nested deeper than 32 brackets"), std::string::npos) << built.messages;
}

TEST(RefusedConfig, a_sequence_beyond_the_positions) {
  Built built = build(configOf(1, 2, 8, 16), 17);
  EXPECT_FALSE(built.module);
  EXPECT_NE(built.messages.find("seq is 17, expected at most \"n_positions\", which is 16"), std::string::npos)
      << built.messages;
}

TEST(Gpt2Config, dropout_is_where_transformers_has_it) {
  auto ratesOf = [](Built &built) {
    std::map<std::string, double> rates;
    built.module->walk([&](mlir::Operation *op) {
      if (auto dropout = llvm::dyn_cast<DropoutOp>(op))
        rates[getId(op).str()] = dropout.getRate().convertToDouble();
      else if (auto attention = llvm::dyn_cast<AttentionOp>(op); attention && attention.getDropout())
        rates[getId(op).str()] = attention.getDropout()->convertToDouble();
    });
    return rates;
  };
  Built built = build("{\"model_type\": \"gpt2\", \"n_layer\": 1, \"attn_pdrop\": 0.2, \"resid_pdrop\": 0.3}");
  ASSERT_TRUE(built.module) << built.messages;
  EXPECT_EQ(ratesOf(built), (std::map<std::string, double>{{"transformer.drop.dropout", 0.1},
                                                           {"transformer.h.0.attn.attention", 0.2},
                                                           {"transformer.h.0.attn.resid_dropout.dropout", 0.3},
                                                           {"transformer.h.0.mlp.dropout.dropout", 0.3}}));
  Built none = build(configOf(1, 2, 8, 16));
  EXPECT_TRUE(ratesOf(none).empty());
  EXPECT_EQ(none.messages, "");
}

} // namespace
