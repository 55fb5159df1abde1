// What a pass may ask any op: its gradient, its sharding rule, its cost, its decomposition.

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
    InterfaceMethod<"The factor mapping at this op's present shapes.", "::hyc::ShardingRule", "getShardingRule">,
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
  ];
}

#endif // HYC_INTERFACES_TD
