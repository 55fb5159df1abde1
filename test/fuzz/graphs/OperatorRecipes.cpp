// Rows of recipes, and what reads them.
#include "OperatorRecipes.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdlib>

using namespace hyc::fuzzing;
using llvm::SmallVector;
using llvm::StringRef;

namespace {
struct Row {
  const char *ops; // several where they are used alike
  const char *operands, *attributes;
  int64_t leastOpset = 13, mostOpset = 23;
  int outputs = 1;
};

constexpr Row kRows[] = {
    // Element by element
    {"Elu Celu ThresholdedRelu", "f[*]", "alpha=f"},
    {"LeakyRelu", "f[*]", "alpha=f", 7},
    {"Selu", "f[*]", "alpha=f gamma=f", 7},
    {"HardSigmoid", "f[*]", "alpha=f beta=f", 7},
    {"HardSwish Mish Softsign Exp Log Sqrt Reciprocal Tanh Erf Sin Cos Sigmoid Floor Ceil Round Tan Asin Acos Atan "
     "Sinh "
     "Cosh Asinh Acosh Atanh Softplus IsNaN",
     "f[*]", ""},
    {"Neg Abs Relu Sign Identity", "f[*]", "", 7},
    {"Neg Abs Sign Identity", "i[*]", ""},
    {"hyc:StopGradient", "f[*]", ""},
    {"Gelu", "f[*]", "approximate=s:none,tanh", 20},
    {"IsInf", "f[*]", "detect_positive=i:0..1 detect_negative=i:0..1"},
    {"Shrink", "f[*]", "bias=f lambd=f"},
    {"PRelu", "f[*] f[~]", "", 7},
    {"Clip", "f[*] F[]? F[]?", ""},
    {"Clip", "f[*]", "min=f max=f", 7, 10},
    {"Dropout", "f[*] F[]{share}? B[]?", "seed=i:0..9"},
    {"Add Sub Mul Div Pow Equal Less LessOrEqual Greater GreaterOrEqual", "f[*] f[~]", "", 7},
    {"Add Sub Mul Div Equal Less Greater Max Min", "i[*] i[~]", ""},
    {"Mod", "f[*] f[~]", "fmod=!i:1..1"},
    {"Mod", "i[*] I[~]{1..5}", "fmod=i:0..1"},
    {"Max Min Sum Mean", "f[*] f[~]+", "", 8},
    {"And Or Xor", "b[*] b[~]", "", 7},
    {"Equal", "b[*] b[~]", ""},
    {"Not", "b[*]", ""},
    {"BitShift", "u[*] U[~]{0..7}", "direction=!s:LEFT,RIGHT", 11},
    {"BitwiseAnd BitwiseOr BitwiseXor", "i[*] i[~]", "", 18},
    {"BitwiseAnd BitwiseOr BitwiseXor", "u[*] u[~]", "", 18},
    {"BitwiseNot", "i[*]", "", 18},
    {"BitwiseNot", "u[*]", "", 18},
    {"Where", "b[~] f[*] f[~]", "", 9},
    {"Where", "b[*] i[~] i[~]", "", 9},
    {"Cast", "f[*]", "to=!i:1,6,7,9,10,11", 9},
    {"Cast", "i[*]", "to=!i:1,6,7,9", 9},
    {"Cast", "b[*]", "to=!i:1,6,7", 9},
    {"CastLike", "f[*] i[]", "", 15},
    {"CastLike", "i[*] f[]", "", 15},
    // Shapes
    {"Constant", "", "value=!t"},
    {"Constant", "", "value_float=!f"},
    {"Constant", "", "value_floats=!F:3"},
    {"Constant", "", "value_int=!i:-3..3"},
    {"Constant", "", "value_ints=!I3:-3..3"},
    {"ConstantOfShape", "I[k]{0..3}", "value=t"},
    {"Shape", "f[*]", "start=i:-r..r end=i:-r..r", 15},
    {"Size", "f[*]", ""},
    {"Reshape", "f[*] I[k]{shape}", "allowzero=i:0..1", 5},
    {"Flatten", "f[*]", "axis=i:-r..r", 7},
    {"Squeeze", "f[a,1,*] I[1]{1..1}?", ""},
    {"Squeeze", "f[a,1,b]", "axes=I1:1..1", 7, 12},
    {"Unsqueeze", "f[*] I[1]{-r-1..r}", ""},
    {"Unsqueeze", "f[*]", "axes=!I1:0..r", 7, 12},
    {"Transpose", "f[*]", "perm=P", 7},
    {"Expand", "f[*] I[k]{broadcast}", "", 8},
    {"Concat", "f[n,c] f[n,c]+", "axis=!i:-2..1", 7},
    {"Concat", "f[n,c] f[n,d] f[n,4]", "axis=!i:1..1", 7},
    {"Concat", "f[n,c,k] f[n,d,k]", "axis=!i:-2..-2", 11},
    {"Split", "f[n,c,*] I[2]{parts}", "axis=i:0..0", 13, 23, 2},
    {"Split", "f[n,2c,*]", "axis=!i:1..1 num_outputs=!i:2..2", 18, 23, 2},
    {"Split", "f[n,2c,*]", "axis=!i:1..1", 7, 17, 2},
    {"SplitToSequence", "f[n,c] I[]{1..2}?", "axis=i:0..1 keepdims=i:0..1"},
    {"Tile", "f[*] I[k]{repeats}", ""},
    {"Pad", "f[*] I[k]{pads} F[]?", "mode=s:constant,reflect,edge"},
    {"Pad", "f[n,c] ", "pads=!I4:0..2 mode=s:constant,reflect,edge value=f", 7, 10},
    {"Pad", "f[n,c,k] I[2]{0..1} F[] I[1]{-2..-1}", "mode=s:constant,reflect,edge,wrap", 19},
    {"DepthToSpace", "f[n,4c,h,w]", "blocksize=!i:2..2 mode=s:DCR,CRD"},
    {"SpaceToDepth", "f[n,c,2h,2w]", "blocksize=!i:2..2"},
    {"EyeLike", "f[n,c]", "k=i:-2..2 dtype=i:1,7,9", 9},
    {"Trilu", "f[*] I[]{-2..2}?", "upper=i:0..1", 14},
    // Indices
    {"Slice", "f[n,c,*] I[1]{0..1} I[1]{1..9} I[1]{0..1}? I[1]{1..2}?", "", 10},
    {"Slice", "f[n,c] I[2]{-2..0} I[2]{1..5} I[2]{axes}", "", 10},
    {"Slice", "f[n,c] I[1]{9..9} I[1]{-9..-9} I[1]{1..1} I[1]{-2..-1}", "", 10},
    {"Slice", "f[n,c]", "starts=!I1:0..1 ends=!I1:1..9 axes=I1:0..1", 7, 9},
    {"Gather", "f[n,c,*] I[k]{-1..0}", "axis=i:-1..1", 7},
    {"Gather", "f[5,c] i[n,k]{0..4}", "axis=i:0..0", 7},
    {"GatherND", "f[n,c,*] I[k,2]{-1..0}", "batch_dims=i:0..0", 12},
    {"GatherND", "f[n,3,c] i[n,k,1]{0..2}", "batch_dims=!i:1..1", 12},
    {"GatherElements", "f[n,3] i[n,k]{0..2}", "axis=!i:1..1", 11},
    {"GatherElements", "f[n,c] I[n,c]{-1..0}", "axis=i:-1..1", 11},
    {"ScatterElements", "f[n,4] I[n,1]{0..3} f[n,1]", "axis=!i:1..1 reduction=s:none,add,mul,max,min", 18},
    {"ScatterElements", "f[n,c] i[n,c]{0..0} f[n,c]", "axis=i:0..1", 11},
    {"Scatter", "f[n,4] I[n,1]{0..3} f[n,1]", "axis=!i:1..1", 9, 10},
    {"ScatterND", "f[n,4] I[1,1]{0..0} f[1,4]", "reduction=s:none,add,mul,max,min", 18},
    {"ScatterND", "f[n,4] I[1,2]{0..0} f[1]", "", 11},
    {"TopK", "f[n,4] I[1]{1..4}", "axis=i:-1..1 largest=i:0..1 sorted=i:0..1", 11, 23, 2},
    {"TopK", "f[n,4]", "axis=i:-1..1 k=!i:1..3", 7, 9, 2},
    {"ArgMax ArgMin", "f[*]", "axis=i:-r..r-1 keepdims=i:0..1 select_last_index=i:0..1", 12},
    {"OneHot", "i[n,k]{0..4} I[]{5..5} F[2]", "axis=i:-1..2", 11},
    {"Range", "I[]{0..1} I[]{2..9} I[]{1..2}", "", 11},
    {"CumSum", "f[*] I[]{-r..r-1}", "exclusive=i:0..1 reverse=i:0..1"},
    {"ReverseSequence", "f[n,k,*] I[n]{1..1}", "batch_axis=!i:0..0 time_axis=!i:1..1", 10},
    {"ReverseSequence", "f[k,n,*] I[n]{1..1}", "batch_axis=i:1..1 time_axis=i:0..0", 10},
    {"Compress", "f[n,3] B[3]", "axis=!i:1..1", 9},
    {"Compress", "f[n,c] B[3]", "", 9},
    {"NonZero", "I[a,3]{0..1}", "", 9},
    {"Unique", "F[a,3]", "sorted=i:0..1 axis=i:0..1", 11},
    {"NonMaxSuppression", "F[1,4,4] F[1,2,4] I[1]{1..3} F[1]? F[1]?", "center_point_box=i:0..1", 11},
    // Drawn
    {"RandomUniform RandomNormal", "", "shape=!I2:1..3", 7},
    {"RandomUniformLike RandomNormalLike", "f[*]", "", 7},
    {"Bernoulli", "f[*]", "", 15},
    // Images at computed places
    {"GridSample", "f[n,2,4,3] f[n,2,3,2]",
     "mode=s:bilinear,nearest,bicubic padding_mode=s:zeros,border,reflection align_corners=i:0..1", 16, 19},
    {"GridSample", "f[n,2,4,3] f[n,2,3,2]",
     "mode=s:linear,nearest,cubic padding_mode=s:zeros,border,reflection align_corners=i:0..1", 20},
    {"GridSample", "f[n,2,2,4,3] f[n,2,1,3,3]", "mode=s:linear,nearest padding_mode=s:zeros,border,reflection", 20},
    {"RoiAlign", "f[n,2,6,5] F[3,4]{0..4} I[3]{0..0}",
     "output_height=i:1..3 output_width=i:1..3 sampling_ratio=!i:1..2 mode=s:avg,max spatial_scale=f", 16},
    // Contractions
    {"MatMul", "f[n,k] f[k,m]", "", 7},
    {"MatMul", "f[n,a,k] f[k,m]", "", 7},
    {"MatMul", "f[n,a,b,k] f[n,a,k,m]", "", 7},
    {"MatMul", "f[n,k] f[k]", "", 7},
    {"Gemm", "f[n,k] f[k,m] f[m]?", "alpha=f beta=f transA=i:0..0 transB=i:0..0", 7},
    {"Gemm", "f[n,k] f[m,k] f[n,m]?", "alpha=f beta=f transB=!i:1..1", 11},
    {"Gemm", "f[k,n] f[k,m] f[]?", "alpha=f transA=!i:1..1", 11},
    {"Einsum", "f[n,k] f[k,m]", "equation=!s:ij+jk->ik", 12},
    {"Einsum", "f[n,a,k] f[n,b,k]", "equation=!s:bik+bjk->bij", 12},
    {"Einsum", "f[n,k]", "equation=!s:ij->i,ij->ji,ij->,...j->...", 12},
    {"Einsum", "f[n,k,k]", "equation=!s:bii->bi,bii->b", 12},
    {"Det", "f[n,3,3]", "", 11},
    // Reductions
    {"ReduceSum", "f[*] I[1]{-r..r-1}?", "keepdims=i:0..1 noop_with_empty_axes=i:0..1", 13},
    {"ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSum ReduceLogSumExp",
     "f[*] I[1]{-r..r-1}?", "keepdims=i:0..1 noop_with_empty_axes=i:0..1", 18},
    {"ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSum ReduceLogSumExp", "f[*]",
     "axes=I1:0..r-1 keepdims=i:0..1", 7, 17},
    {"Softmax LogSoftmax Hardmax", "f[*]", "axis=i:-r..r-1", 7},
    // Normalizations
    {"LayerNormalization", "f[n,a,c] f[c] f[c]?", "axis=i:-1..-1 epsilon=f", 17, 23, 3},
    {"LayerNormalization", "f[n,a,c] f[a,c] f[a,c]?", "axis=!i:1..1 epsilon=f", 17},
    {"BatchNormalization", "f[n,c,*] f[c] f[c] F[c] F[c]{1..2}", "epsilon=f momentum=f"},
    {"BatchNormalization", "f[n,c,*] f[c] f[c] f[c] f[c]", "epsilon=f momentum=f training_mode=!i:1..1", 14, 23, 3},
    {"InstanceNormalization", "f[n,c,h,w] f[c] f[c]", "epsilon=f", 7},
    {"GroupNormalization", "f[n,4,h,*] f[4] f[4]", "num_groups=!i:1,2,4 epsilon=f", 21},
    {"GroupNormalization", "f[n,4,h] f[2] f[2]", "num_groups=!i:2..2 epsilon=f", 18, 20},
    {"MeanVarianceNormalization", "f[n,c,h,w]", "axes=I2:0..3", 9},
    {"LRN", "f[n,c,h,w]", "size=!i:1,3,5 alpha=f beta=f bias=f"},
    {"LpNormalization", "f[*]", "axis=i:-r..r-1 p=i:1..2"},
    // Windows
    {"Conv", "f[n,c,6,6] f[o,c,k,l] f[o]?", "pads=I4:0..2 strides=I2:1..3 dilations=I2:1..2"},
    {"Conv", "f[n,4,6,6] f[4,2,3,3] f[4]?",
     "group=!i:2..2 auto_pad=!s:NOTSET,VALID,SAME_UPPER,SAME_LOWER kernel_shape=I2:3..3"},
    {"Conv", "f[n,c,6] f[o,c,k] f[o]?", "pads=I2:0..1 strides=I1:1..2"},
    {"Conv", "f[n,c,4,4,4] f[o,c,k,2,1]", "pads=I6:0..1"},
    {"ConvTranspose", "f[n,c,4,4] f[c,o,k,l] f[o]?", "pads=I4:0..1 strides=I2:1..2 dilations=I2:1..2"},
    {"ConvTranspose", "f[n,c,4,4] f[c,o,3,3] f[o]?", "strides=!I2:2..2 output_padding=I2:0..1 group=i:1..1"},
    {"ConvTranspose", "f[n,4,4] f[4,2,3]", "group=!i:2..2 strides=I1:1..2 auto_pad=s:SAME_UPPER,VALID"},
    {"MaxPool", "f[n,c,6,6]", "kernel_shape=!I2:1..3 pads=I4:0..0 strides=I2:1..3 ceil_mode=i:0..1 dilations=I2:1..2",
     10},
    {"MaxPool", "f[n,c,6,6]", "kernel_shape=!I2:2..3 auto_pad=s:VALID,SAME_UPPER,SAME_LOWER storage_order=i:0..1", 8,
     23, 2},
    {"MaxPool", "f[n,c,6]", "kernel_shape=!I1:1..3 strides=I1:1..2", 8},
    {"AveragePool", "f[n,c,6,6]",
     "kernel_shape=!I2:2..3 pads=I4:0..1 strides=I2:1..3 ceil_mode=i:0..1 count_include_pad=i:0..1", 10},
    {"AveragePool", "f[n,c,6]", "kernel_shape=!I1:2..3 auto_pad=s:VALID,SAME_UPPER"},
    {"LpPool", "f[n,c,6,6]", "kernel_shape=!I2:2..3 p=i:1..3 strides=I2:1..2 pads=I4:0..1"},
    {"GlobalAveragePool GlobalMaxPool", "f[n,c,h,*]", "", 7},
    {"Col2Im", "f[n,4,4] I[2]{3..3} I[2]{2..2}", "", 18},
    {"MaxUnpool", "f[n,1,2,2] I[n,1,2,2]{0..3}", "kernel_shape=!I2:2..2 strides=!I2:2..2", 11},
    {"Resize", "f[n,c,4,4] F[0]? F[4]{scales}",
     "mode=s:nearest,linear,cubic coordinate_transformation_mode=s:half_pixel,align_corners,"
     "asymmetric,pytorch_half_pixel nearest_mode=s:floor,ceil,round_prefer_floor cubic_coeff_a=f "
     "exclude_outside=i:0..1"},
    {"Resize", "f[n,c,h,w] F[0]? F[0]? I[4]{sizes}", "mode=s:nearest,linear antialias=i:0..1", 18},
    {"Upsample", "f[n,c,h,w] F[4]{scales}", "mode=s:nearest,linear", 9, 9},
    // Quantization
    {"QuantizeLinear", "f[*] F[]{1..2} U[]{0..9}?", "axis=i:0..0"},
    {"QuantizeLinear", "f[n,c] F[c]{1..2} U[c]{0..9}", "axis=i:1..1"},
    {"DequantizeLinear", "u[*] F[] U[]{0..9}?", ""},
    {"DequantizeLinear", "u[n,c,*] F[c] U[c]{0..9}?", "axis=i:1..1"},
    {"DynamicQuantizeLinear", "f[*]", "", 11, 23, 3},
    {"MatMulInteger", "u[n,k] u[k,m] U[]? U[]?", "", 10},
    {"QLinearMatMul", "u[n,k] F[] U[] u[k,m] F[] U[] F[]{1..2} U[]", "", 10},
    {"ConvInteger", "u[n,c,4,4] u[o,c,2,2] U[]?", "pads=I4:0..1 strides=I2:1..2", 10},
    {"QLinearConv", "u[n,c,4,4] F[] U[] u[o,c,2,2] F[] U[] F[]{1..2} U[] W[o]?", "pads=I4:0..1 strides=I2:1..2", 10},
    // Recurrence
    {"RNN", "f[t,n,i] f[1,h,i] f[1,h,h] f[1,2h]? I[n]{1..1}? f[1,n,h]?",
     "hidden_size=i:2..2 direction=s:forward,reverse "
     "activations=s:Tanh,Relu,Sigmoid",
     14, 23, 2},
    {"GRU", "f[t,n,i] f[1,3h,i] f[1,3h,h] f[1,6h]?", "direction=s:forward,reverse linear_before_reset=i:0..1 clip=f",
     14, 23, 2},
    {"GRU", "f[t,n,i] f[2,3h,i] f[2,3h,h] f[2,6h]?", "direction=!s:bidirectional", 14, 23, 2},
    {"LSTM", "f[t,n,i] f[1,4h,i] f[1,4h,h] f[1,8h]?", "direction=s:forward,reverse clip=f input_forget=i:0..0", 14, 23,
     3},
    {"LSTM", "f[n,t,i] f[1,4h,i] f[1,4h,h] f[1,8h]?", "layout=!i:1..1", 14, 23, 3},
    // Losses
    {"NegativeLogLikelihoodLoss", "f[n,5] i[n]{0..4} f[5]?", "reduction=s:mean,sum,none ignore_index=i:-1..2", 12},
    {"SoftmaxCrossEntropyLoss", "f[n,5] i[n]{0..4} f[5]?", "reduction=s:mean,sum,none ignore_index=i:-1..2", 12, 23, 2},
    {"SoftmaxCrossEntropyLoss", "f[n,5,k] i[n,k]{0..4}", "reduction=s:mean,none", 12},
    // Signals
    {"HannWindow HammingWindow BlackmanWindow", "I[]{1..6}", "periodic=i:0..1", 17},
    {"MelWeightMatrix", "I[]{2..8} I[]{8..16} I[]{8000..8192} F[]{0..10} F[]{100..4000}", "", 17},
    {"DFT", "f[n,4,1]", "axis=i:1..1 inverse=i:0..0 onesided=i:0..1", 17, 19},
    {"DFT", "f[n,4,2] I[]{2..6}? I[]{1..1}", "inverse=i:0..1", 20},
    {"STFT", "f[n,8,1] I[]{2..2} F[4]? I[]{4..4}", "onesided=i:0..1", 17},
    // Updates
    {"ai.onnx.preview.training:Momentum", "F[] I[]{0..2} f[*] f[*] f[*]",
     "alpha=!f beta=!f norm_coefficient=!f mode=!s:standard,nesterov", 13, 23, 2},
    {"ai.onnx.preview.training:Adagrad", "F[] I[]{0..2} f[*] f[*] f[*]", "decay_factor=f epsilon=f norm_coefficient=f",
     13, 23, 2},
    {"ai.onnx.preview.training:Adam", "F[] I[]{0..2} f[*] f[*] f[*] f[*]",
     "alpha=f beta=f epsilon=f norm_coefficient=f norm_coefficient_post=f", 13, 23, 3},
};

[[noreturn]] void bad(StringRef text) {
  llvm::errs() << "a recipe cannot be read: " << text << "\n";
  std::abort();
}

OperandRecipe::Size readSize(StringRef text) {
  OperandRecipe::Size size;
  if (!text.empty() && !llvm::isDigit(text.back())) {
    size.letter = text.back();
    text = text.drop_back();
    size.number = 1;
  }
  if (!text.empty() && text.getAsInteger(10, size.number))
    bad(text);
  return size;
}

OperandRecipe readOperand(StringRef text) {
  OperandRecipe operand;
  operand.isConstant = text.front() >= 'A' && text.front() <= 'Z';
  operand.elements = llvm::toLower(text.front());
  size_t close = text.find(']');
  if (text[1] != '[' || close == StringRef::npos)
    bad(text);
  SmallVector<StringRef> sizes;
  text.slice(2, close).split(sizes, ',', -1, false);
  for (StringRef size : sizes)
    operand.shape.push_back(readSize(size));
  StringRef rest = text.drop_front(close + 1);
  if (rest.consume_front("{")) {
    auto [values, after] = rest.split('}');
    operand.values = values.str();
    rest = after;
  }
  for (char c : rest)
    if (c == '?')
      operand.isOptional = true;
    else if (c == '+')
      operand.repeats = true;
    else
      bad(text);
  return operand;
}

AttributeRecipe readAttribute(StringRef text) {
  AttributeRecipe attribute;
  auto [name, rest] = text.split('=');
  attribute.name = name.str();
  attribute.isRequired = rest.consume_front("!");
  if (rest.empty() || !StringRef("iIfFsPt").contains(rest.front()))
    bad(text);
  attribute.kind = rest.front();
  auto [count, values] = rest.drop_front().split(':');
  attribute.count = count.str();
  attribute.values = values.str();
  return attribute;
}
} // namespace

const std::vector<OperatorRecipe> &hyc::fuzzing::allRecipes() {
  static const std::vector<OperatorRecipe> recipes = [] {
    std::vector<OperatorRecipe> result;
    for (const Row &row : kRows) {
      OperatorRecipe recipe;
      recipe.leastOpset = row.leastOpset, recipe.mostOpset = row.mostOpset, recipe.outputs = row.outputs;
      SmallVector<StringRef> words;
      StringRef(row.operands).split(words, ' ', -1, false);
      for (StringRef word : words)
        recipe.operands.push_back(readOperand(word));
      words.clear();
      StringRef(row.attributes).split(words, ' ', -1, false);
      for (StringRef word : words)
        recipe.attributes.push_back(readAttribute(word));
      words.clear();
      StringRef(row.ops).split(words, ' ', -1, false);
      for (StringRef op : words) {
        recipe.op = op.str();
        result.push_back(recipe);
      }
    }
    return result;
  }();
  return recipes;
}
