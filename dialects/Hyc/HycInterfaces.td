// What a pass may ask any op: its gradient, its sharding rule and what goes with it, how it becomes local, its precision,
// its cost, its decomposition. Each op answers in its definition or in the file of its topic; no pass lists ops.

#ifndef HYC_INTERFACES_TD
#define HYC_INTERFACES_TD

include "mlir/IR/OpBase.td"

def DifferentiableOpInterface : OpInterface<"DifferentiableOpInterface"> {
  let cppNamespace = "::hyc";
  let description = [{
    The reverse-mode gradient of one op. The differentiation pass walks backwards and asks each op on the path from
    a trainable parameter to the loss.
  }];
  let methods = [
    InterfaceMethod<[{
      Builds, at `builder`, the cotangent of every operand i with `wanted[i]` from the cotangents of the results. A
      null entry of `resultCotangents` means zero. `operandCotangents` has one entry an operand; it stays null where
      it is unwanted or zero. Ops that are built get ids derived from this op's: `<id>.grad` and the like.
      Returns failure, after a diagnostic, where no gradient exists.
    }],
    "::llvm::LogicalResult", "buildGradient",
    (ins "::mlir::OpBuilder &":$builder, "::llvm::ArrayRef<::mlir::Value>":$resultCotangents,
         "::llvm::ArrayRef<bool>":$wanted, "::llvm::SmallVectorImpl<::mlir::Value> &":$operandCotangents)>
  ];
}

def ShardingRuleOpInterface : OpInterface<"ShardingRuleOpInterface"> {
  let cppNamespace = "::hyc";
  let description = [{
    How splitting a dimension of one tensor splits the others: a factor mapping such as `(i,k),(k,j)->(i,j)`, declared
    once per op and read by propagation, partitioning and the cost model alike. See ShardingRule.h.
  }];
  let methods = [
    InterfaceMethod<"The factor mapping at this op's present shapes. Where an op states none, all its tensors have one shape.",
                    "::hyc::ShardingRule", "getShardingRule", (ins), "",
                    "return ::hyc::sameShapeRule($_op.getOperation());">,
    InterfaceMethod<[{
      Whether zeros at the end of a dimension of factor `factor` stay zeros, or change no other element, so that the
      dimension may be padded: f(0,…) = 0 element by element, linear in every operand that has the index, or aware of
      padding. Ops of which that is always so have the trait PreservesZeros.
    }],
    "bool", "preservesZeros", (ins "const ::hyc::ShardingRule &":$rule, "int":$factor), "",
    "return $_op->template hasTrait<::hyc::PreservesZeros>();">,
    InterfaceMethod<[{
      How many of the first operands may be partial sums over the same axes, all of them, whose sum the op then passes on:
      it is linear in them together. 0: sums are closed before the op. Trait PassesPartialSums: all operands.
    }],
    "unsigned", "getNumPartialOperands", (ins), "",
    "return $_op->template hasTrait<::hyc::PassesPartialSums>() ? $_op->getNumOperands() : 0;">,
  ];
}

def LocalFormOpInterface : OpInterface<"LocalFormOpInterface"> {
  let cppNamespace = "::hyc";
  let description = [{
    How an op becomes local where its own form over local tensors is not all: it must know which part it works on, or
    something else stands in its place. Partitioning asks both methods with the operands that are local already.
  }];
  let methods = [
    InterfaceMethod<"Appends operands and sets attributes that tell the op which part of the whole it works on.", "void",
    "addPlace", (ins "::hyc::LocalPart &":$part, "::llvm::SmallVectorImpl<::mlir::Value> &":$operands,
                     "::mlir::NamedAttrList &":$attributes), "", "">,
    InterfaceMethod<"Builds what stands in the op's place, one value a result; fills nothing where the op keeps its form.",
    "void", "buildLocal", (ins "::hyc::LocalPart &":$part, "::mlir::ValueRange":$operands,
                               "::llvm::SmallVectorImpl<::mlir::Value> &":$results), "", "">,
  ];
}

def PrecisionOpInterface : OpInterface<"PrecisionOpInterface"> {
  let cppNamespace = "::hyc";
  let description = [{
    What becomes of the op's types where the model computes in bf16 or f16: see PrecisionRule.h. An op without this
    interface stays f32.
  }];
  let methods = [
    InterfaceMethod<[{
      As its operands are, if it states nothing else; ops whose results are far off where the argument is a little off, or
      beyond the range of f16, have the trait ComputesInF32.
    }],
    "::hyc::PrecisionRule", "getPrecisionRule", (ins), "", [{
      return $_op->template hasTrait<::hyc::ComputesInF32>() ? ::hyc::PrecisionRule::wide()
                                                             : ::hyc::PrecisionRule::following();
    }]>,
  ];
}

def ScalarFunctionOpInterface : OpInterface<"ScalarFunctionOpInterface"> {
  let cppNamespace = "::hyc";
  let description = [{
    A function of the elements at one place: clusters compute it in registers, by the name that the rank dialect knows it
    by (dialects/Rank/ScalarFunctions.h).
  }];
  let methods = [
    InterfaceMethod<"That name: the op's own, if it states nothing else.", "::std::string", "getScalarFunction", (ins), "",
                    "return $_op->getName().stripDialect().str();">,
  ];
}

def SymbolAccessOpInterface : OpInterface<"SymbolAccessOpInterface"> {
  let cppNamespace = "::hyc";
  let description = "An op that moves one whole value from or to a parameter or a state.";
  let methods = [
    InterfaceMethod<"The parameter or state.", "::mlir::FlatSymbolRefAttr", "getAccessedSymbol">,
    InterfaceMethod<"The value that is read from it, or written or added to it.", "::mlir::Value", "getAccessedValue">,
  ];
}

def CostOpInterface : OpInterface<"CostOpInterface"> {
  let cppNamespace = "::hyc";
  let description = "What executing the op once costs; bytes moved follow from the operand and result types.";
  let methods = [
    InterfaceMethod<"Floating-point operations, a fused multiply-add counted as two.", "int64_t", "getFlops", (ins),
                    "", "return ::hyc::elementwiseFlops($_op.getOperation());">,
  ];
}

def DecomposableOpInterface : OpInterface<"DecomposableOpInterface"> {
  let cppNamespace = "::hyc";
  let description = "Composite ops stay whole until somebody asks for their definition in terms of smaller ops.";
  let methods = [
    InterfaceMethod<"Builds the decomposition at `builder`; fills one value a result, or fails if it has none.",
    "::llvm::LogicalResult", "decompose",
    (ins "::mlir::OpBuilder &":$builder, "::llvm::SmallVectorImpl<::mlir::Value> &":$results)>
  ];
}

def UpdateOpInterface : OpInterface<"UpdateOpInterface"> {
  let cppNamespace = "::hyc";
  let description = [{
    A step of an optimizer on one parameter: works in place and element by element on the parameter, its gradient and
    the states that the optimizer keeps of it, all of one shape. A rank that holds a part of each works on that part
    alone; what an update needs of the whole tensor, such as a norm, is an operand.
  }];
  let methods = [
    InterfaceMethod<"The parameter.", "::mlir::FlatSymbolRefAttr", "getParamAttr">,
    InterfaceMethod<"The state that holds its gradient.", "::mlir::FlatSymbolRefAttr", "getGradientAttr">,
    InterfaceMethod<"Parameter, gradient, then the optimizer's states.",
                    "::llvm::SmallVector<::mlir::FlatSymbolRefAttr>", "getSymbols">,
    InterfaceMethod<"Whether it changes the parameter, or only prepares that.", "bool", "changesParam", (ins), "",
                    "return true;">,
    InterfaceMethod<"Whether it changes the gradient. The optimizer's states it always changes.", "bool",
                    "changesGradient", (ins), "", "return false;">,
    InterfaceMethod<"A boolean: where it is false, every symbol keeps its bits. Null: the step is always taken.",
                    "::mlir::Value", "getPredicate">,
    InterfaceMethod<"The kernel that takes the step: called by the op's own name, if it states nothing else.",
                    "::std::string", "getKernel", (ins), "", "return $_op->getName().stripDialect().str();">,
    InterfaceMethod<"What the kernel takes of the op's attributes, under the same names: the numbers and flags among them.",
                    "::llvm::SmallVector<::mlir::NamedAttribute>", "getNumbers", (ins), "",
                    "return ::hyc::numbersOf($_op.getOperation());">,
    InterfaceMethod<"This step's decay of the first moment, where it cycles, else null.", "::mlir::Value",
                    "getCycledMomentum", (ins), "", "return {};">,
  ];
}

// What an op answers itself, in the file of its topic.
defvar Hyc_OwnSharding = DeclareOpInterfaceMethods<ShardingRuleOpInterface, ["getShardingRule"]>;
defvar Hyc_OwnPrecision = DeclareOpInterfaceMethods<PrecisionOpInterface, ["getPrecisionRule"]>;
defvar Hyc_OwnPlace = DeclareOpInterfaceMethods<LocalFormOpInterface, ["addPlace"]>;
defvar Hyc_OwnLocalForm = DeclareOpInterfaceMethods<LocalFormOpInterface, ["buildLocal"]>;
defvar Hyc_OwnScalarFunction = DeclareOpInterfaceMethods<ScalarFunctionOpInterface, ["getScalarFunction"]>;

#endif // HYC_INTERFACES_TD
