// Llama and Qwen2 from a config.json: rotary frequencies that transformers computes, parameters and initial values by
// its rule, and refusals that name the key. What the graphs compute is compared with PyTorch in test/equivalence.
#include "ConfigTesting.h"
#include "mlir/IR/Verifier.h"
#include <cmath>

using namespace hyc;
using namespace hyc::onnx;

namespace {

/// With 8 tokens a sample.
Built buildOfEight(const std::string &text) { return build(text, 8); }

/// One layer of 2 heads of size 16.
std::string configOf(const std::string &type, const std::string &more) {
  return "{\"model_type\": \"" + type + "\", \"num_hidden_layers\": 1, \"num_attention_heads\": 2, " +
         "\"num_key_value_heads\": 1, \"hidden_size\": 32, \"intermediate_size\": 48, \"vocab_size\": 257" +
         (more.empty() ? "" : ", ") + more + "}";
}

//===----------------------------------------------------------------------===//
// Rotary frequencies
//===----------------------------------------------------------------------===//

struct Rope {
  const char *keys;
  std::vector<float> frequencies;
  double factor;
  friend void PrintTo(const Rope &rope, std::ostream *out) { *out << rope.keys; }
};

class RopeFrequencies : public testing::TestWithParam<Rope> {};

/// LlamaRotaryEmbedding's inv_freq and attention_scaling (transformers 5.23) under the same keys.
TEST_P(RopeFrequencies, AreThoseOfTransformers) {
  Built built = buildOfEight(configOf("llama", GetParam().keys));
  ASSERT_TRUE(built.module) << built.messages;
  int found = 0;
  built.module->walk([&](RotaryTableOp op) {
    ++found;
    ASSERT_EQ(op.getFrequencies().size(), GetParam().frequencies.size());
    for (auto [actual, expected] : llvm::zip_equal(op.getFrequencies(), GetParam().frequencies))
      EXPECT_NEAR(actual / expected, 1, 3e-7); // a unit or two in the last place
    EXPECT_NEAR(op.getFactor().convertToDouble(), GetParam().factor, 1e-7);
  });
  EXPECT_EQ(found, 1);
}

const std::vector<float> kDefault{1.0f,           0.316227764f,   0.100000001f,   0.0316227786f,
                                  0.00999999978f, 0.00316227786f, 0.00100000005f, 0.000316227786f},
    kQuarter{0.25f,          0.079056941f,    0.0250000004f,   0.00790569466f,
             0.00249999994f, 0.000790569466f, 0.000250000012f, 7.90569466e-05f};

INSTANTIATE_TEST_SUITE_P(
    Keys, RopeFrequencies,
    testing::Values(
        Rope{"", kDefault, 1}, Rope{"\"rope_scaling\": null", kDefault, 1},
        Rope{R"("rope_theta": 500000.0)",
             {1.0f, 0.193922758f, 0.0376060307f, 0.00729266508f, 0.00141421345f, 0.000274248188f, 5.31829573e-05f,
              1.03133852e-05f},
             1},
        Rope{R"("rope_parameters": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0})", kQuarter, 1},
        Rope{R"("rope_theta": 10000.0, "rope_scaling": {"type": "linear", "factor": 4.0})", kQuarter, 1},
        Rope{R"("rope_parameters": {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0})", kDefault, 1},
        Rope{R"("max_position_embeddings": 131072, "rope_parameters": {"rope_type": "llama3", "rope_theta": 500000.0,
             "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192})",
             {1.0f, 0.193922758f, 0.0376060307f, 0.00729266508f, 0.000524846022f, 3.42810235e-05f, 6.64786967e-06f,
              1.28917316e-06f},
             1},
        Rope{R"("rope_parameters": {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0,
             "original_max_position_embeddings": 1024})",
             {1.0f, 0.316227764f, 0.0812500045f, 0.0197642371f, 0.00437500002f, 0.000790569466f, 0.000250000012f,
              7.90569466e-05f},
             1.1386294361119891},
        Rope{R"("rope_parameters": {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "beta_fast": 16,
             "beta_slow": 2, "truncate": false, "attention_factor": 0.9, "original_max_position_embeddings": 1024})",
             {1.0f, 0.316227764f, 0.100000001f, 0.0187018048f, 0.00249999994f, 0.000790569466f, 0.000250000012f,
              7.90569466e-05f},
             0.9},
        Rope{R"("max_position_embeddings": 163840, "rope_parameters": {"rope_type": "yarn", "rope_theta": 10000.0,
             "mscale": 1.0, "mscale_all_dim": 0.5, "original_max_position_embeddings": 4096})",
             {1.0f, 0.316227764f, 0.100000001f, 0.0239147246f, 0.00512499968f, 0.000849862176f, 2.49999994e-05f,
              7.90569447e-06f},
             1.1557219901962608}));

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

std::vector<std::string> biases(mlir::ModuleOp module) {
  std::vector<std::string> names;
  for (ParamOp param : module.getOps<ParamOp>())
    if (param.getSymName().ends_with(".bias"))
      names.push_back(param.getSymName().drop_front(llvm::StringRef("model.layers.0.").size()).str());
  return names;
}

TEST(LlamaParameters, HaveBiasesWhereTheConfigHasThem) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(biases(*buildOfEight(configOf("llama", "")).module), Names());
  EXPECT_EQ(biases(*buildOfEight(configOf("qwen2", "")).module),
            (Names{"self_attn.q_proj.bias", "self_attn.k_proj.bias", "self_attn.v_proj.bias"}));
  EXPECT_EQ(biases(*buildOfEight(configOf("llama", "\"attention_bias\": true, \"mlp_bias\": true")).module),
            (Names{"self_attn.q_proj.bias", "self_attn.k_proj.bias", "self_attn.v_proj.bias", "self_attn.o_proj.bias",
                   "mlp.gate_proj.bias", "mlp.up_proj.bias", "mlp.down_proj.bias"}));
}

TEST(LlamaParameters, HaveTheModelsShapesAndStartByItsRule) {
  Built built = buildOfEight(configOf("llama", "\"head_dim\": 10, \"initializer_range\": 0.04"));
  ASSERT_TRUE(built.module && succeeded(mlir::verify(*built.module))) << built.messages;
  auto shapeOf = [&](llvm::StringRef name) {
    auto param = built.module->lookupSymbol<ParamOp>(name);
    return param ? llvm::to_vector(param.getLogicalShape()) : llvm::SmallVector<int64_t>();
  };
  using Shape = llvm::SmallVector<int64_t>;
  EXPECT_EQ(shapeOf("model.layers.0.self_attn.q_proj.weight"), (Shape{20, 32}));
  EXPECT_EQ(shapeOf("model.layers.0.self_attn.k_proj.weight"), (Shape{10, 32}));
  EXPECT_EQ(shapeOf("model.layers.0.self_attn.o_proj.weight"), (Shape{32, 20}));
  EXPECT_EQ(shapeOf("model.layers.0.mlp.down_proj.weight"), (Shape{32, 48}));
  EXPECT_EQ(shapeOf("lm_head.weight"), (Shape{257, 32}));
  auto normal = llvm::dyn_cast<NormalAttr>(built.module->lookupSymbol<ParamOp>("lm_head.weight").getInit());
  ASSERT_TRUE(normal);
  EXPECT_DOUBLE_EQ(normal.getStddev().getValueAsDouble(), 0.04);
  auto one = llvm::dyn_cast<FillAttr>(built.module->lookupSymbol<ParamOp>("model.norm.weight").getInit());
  ASSERT_TRUE(one);
  EXPECT_EQ(one.getValue().getValueAsDouble(), 1);
}

TEST(LlamaParameters, ShareTheEmbeddingWhereItIsTied) {
  EXPECT_FALSE(
      buildOfEight(configOf("qwen2", "\"tie_word_embeddings\": true")).module->lookupSymbol<ParamOp>("lm_head.weight"));
}

TEST(LlamaTensorPlan, IsTheModulesAttribute) {
  Built built = buildOfEight(configOf("llama", R"("base_model_tp_plan": {"layers.*.mlp.up_proj": "colwise"})"));
  ASSERT_TRUE(built.module) << built.messages;
  auto plan = (*built.module)->getAttrOfType<mlir::ArrayAttr>("hyc.tensor_plan");
  ASSERT_TRUE(plan && plan.size() == 1);
  EXPECT_EQ(llvm::cast<mlir::StringAttr>(plan[0]).getValue(), "model.layers.*.mlp.up_proj=colwise");
}

//===----------------------------------------------------------------------===//
// What is refused
//===----------------------------------------------------------------------===//

struct Refusal {
  const char *type, *keys, *message;
  friend void PrintTo(const Refusal &refusal, std::ostream *out) { *out << refusal.message; }
};
class RefusedLlama : public testing::TestWithParam<Refusal> {};

TEST_P(RefusedLlama, NamesTheKeyAndWhatWasExpected) {
  Built built = buildOfEight(configOf(GetParam().type, GetParam().keys));
  EXPECT_FALSE(built.module);
  EXPECT_NE(built.messages.find(GetParam().message), std::string::npos) << built.messages;
}

INSTANTIATE_TEST_SUITE_P(
    Keys, RefusedLlama,
    testing::Values(
        Refusal{"llama", "\"head_dim\": 7",
                "\"head_dim\" is 7, expected one by which an even number of a head's elements is turned"},
        Refusal{"llama", "\"hidden_act\": \"mish\"", "\"hidden_act\" is \"mish\", expected \"silu\""},
        Refusal{"llama", "\"rms_norm_eps\": 0", "\"rms_norm_eps\" is 0, expected a number above 0"},
        Refusal{"llama", R"("rope_parameters": {"rope_type": "proportional"})",
                "\"rope_type\" is \"proportional\", expected \"default\" or \"linear\""},
        Refusal{"phi3", R"("pad_token_id": 0, "rope_parameters": {"rope_type": "longrope", "short_factor": [1.0],
                "long_factor": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]})",
                "\"rope_parameters\" has 1 numbers in \"short_factor\", expected 8"},
        Refusal{"llama", R"("rope_scaling": {"type": "linear"})", "has no \"factor\", expected a number above 0"},
        Refusal{"llama", R"("rope_parameters": {"rope_type": "llama3", "factor": 8.0})",
                "has no \"original_max_position_embeddings\""},
        Refusal{"llama",
                R"("rope_parameters": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 4.0,
                "high_freq_factor": 1.0, "original_max_position_embeddings": 8})",
                "expected a number above \"low_freq_factor\""},
        Refusal{"llama", R"("rope_parameters": {"rope_type": "default", "partial_rotary_factor": 1.5})",
                "\"partial_rotary_factor\" is 1.5, expected at most 1"},
        Refusal{"llama", R"("rope_parameters": {"rope_type": "default", "mrope_section": 3})",
                "\"mrope_section\" is 3, expected none; the keys that are read here are \"rope_type\""},
        Refusal{"mixtral", R"("router_jitter_noise": 0.5)",
                "\"router_jitter_noise\" is 0.5, expected 0: hyc does not build"},
        Refusal{"olmoe", R"("pad_token_id": 0, "clip_qkv": 8.0)", "\"clip_qkv\" is 8.0, expected 0"},
        Refusal{"gemma", R"("use_bidirectional_attention": true)",
                "\"use_bidirectional_attention\" is true, expected false"},
        Refusal{"llama", R"("is_encoder_decoder": true)", "\"is_encoder_decoder\" is true, expected false"},
        Refusal{"phi3", "", "has no \"pad_token_id\", which is then 32000, beyond \"vocab_size\", which is 257"},
        Refusal{"gemma2", R"("layer_types": ["full_attention", "full_attention"])",
                "expected as many as there are layers, 1"},
        Refusal{"gemma2", R"("layer_types": ["linear_attention"])",
                "\"layer_types\" has \"linear_attention\", expected \"full_attention\" or \"sliding_attention\""},
        Refusal{"llama", R"("base_model_tp_plan": {"layers.*.mlp.experts": "grouped_gemm"})",
                "\"base_model_tp_plan\": \"layers.*.mlp.experts\" is \"grouped_gemm\", expected \"colwise\""},
        Refusal{"llama", "\"max_position_embeddings\": 4",
                "dimension seq is 8, expected at most "
                "\"max_position_embeddings\", which is 4"}));

TEST(UnreadKeys, AreWarnedOfByName) {
  Built built = buildOfEight(configOf("llama", R"("rotary_style": "other", "torch_dtype": "bfloat16")"));
  EXPECT_TRUE(built.module);
  EXPECT_NE(built.messages.find("\"rotary_style\", which is \"other\", is no key that hyc or transformers read"),
            std::string::npos)
      << built.messages;
  EXPECT_EQ(built.messages.find("torch_dtype"), std::string::npos) << built.messages;
}

TEST(RefusedLlama, HeadsThatNoGroupsDivide) {
  std::string text = configOf("llama", "");
  text.replace(text.find("\"num_key_value_heads\": 1"), 24, "\"num_key_value_heads\": 3");
  Built built = buildOfEight(text);
  EXPECT_FALSE(built.module);
  EXPECT_NE(
      built.messages.find("\"num_attention_heads\" is 2, expected a multiple of \"num_key_value_heads\", which is 3"),
      std::string::npos)
      << built.messages;
}

} // namespace
