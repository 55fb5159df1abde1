// A computation that is repeated a number of times known when compiling: what recurrent layers are made of. Rolled, it is
// one op to every pass, however many steps it takes.

#ifndef HYC_LOOP_OPS_TD
#define HYC_LOOP_OPS_TD

include "dialects/Hyc/HycShapeOps.td"

def Hyc_ScanOp : Hyc_Op<"scan", [Pure, IsolatedFromAbove, AttrSizedOperandSegments,
    SingleBlockImplicitTerminator<"YieldOp">, DeclareOpInterfaceMethods<ShardingRuleOpInterface, ["getShardingRule", "preservesZeros"]>, Hyc_OwnLocalForm,
    DeclareOpInterfaceMethods<CostOpInterface, ["getFlops"]>,
    DeclareOpInterfaceMethods<DecomposableOpInterface>]> {
  let summary = "the same step again and again: each takes what the one before carries on, and its own part of sequences";
  let description = [{
    Step t of `steps` takes the carried values, element t along dimension 0 of each sequence (which the body sees without
    that dimension), and the invariants. It gives the values that the next step carries, and then values of its own, which
    are stacked along a new dimension 0 at t. Results are the values carried by the last step, then the stacks. In `reverse`
    the last element is the first step's: t goes from `steps` - 1 to 0.

    The body sees nothing from outside but its arguments, and changes no state. Differentiation makes a scan of a scan, which
    goes the other way (lib/Transforms/Train/ScanGradient.cpp).

    1. `scan.steps`: at least one; dimension 0 of every sequence and every stack.
    2. `scan.body`: its arguments are the carried values, the elements of the sequences and the invariants, in their types; it
       yields the carried values in the same types, then what is stacked.
    ```mlir
    %last, %sums = hyc.scan 16 init(%zero) over(%x) with(%w) : (tensor<2xf32>, tensor<16x2xf32>, tensor<2xf32>) -> (tensor<2xf32>, tensor<16x2xf32>) {
    ^bb0(%sum: tensor<2xf32>, %each: tensor<2xf32>, %weight: tensor<2xf32>):
      %0 = hyc.mul %each, %weight : tensor<2xf32>
      %1 = hyc.add %sum, %0 : tensor<2xf32>
      hyc.yield %1, %1 : tensor<2xf32>, tensor<2xf32>
    }
    ```
  }];
  let arguments = (ins I64Attr:$steps, UnitAttr:$reverse, Variadic<AnyRankedTensor>:$init,
                       Variadic<AnyRankedTensor>:$sequences, Variadic<AnyRankedTensor>:$invariants);
  let results = (outs Variadic<AnyRankedTensor>:$outs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{$steps (`reverse` $reverse^)? (`init` `(` $init^ `)`)? (`over` `(` $sequences^ `)`)?
                         (`with` `(` $invariants^ `)`)? attr-dict-with-keyword `:` functional-type(operands, results)
                         $body}];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::Block &getStep() { return getBody().front(); }
    unsigned countCarried() { return getInit().size(); }
    /// What a step sees of each.
    ::llvm::ArrayRef<::mlir::BlockArgument> getCarriedArguments();
    ::llvm::ArrayRef<::mlir::BlockArgument> getElementArguments();
    ::llvm::ArrayRef<::mlir::BlockArgument> getInvariantArguments();
    /// The values that the last step carries on, and the stacks.
    ::mlir::ResultRange getLast() { return getOuts().take_front(countCarried()); }
    ::mlir::ResultRange getStacks() { return getOuts().drop_front(countCarried()); }
    /// What the body gives at its end.
    ::mlir::OperandRange getYielded() { return getStep().getTerminator()->getOperands(); }

    /// Makes the op of a step whose body has been built in `step`, which it takes over.
    static ScanOp ofStep(::mlir::OpBuilder &builder, ::mlir::Location loc, int64_t steps, bool isReverse,
                         ::mlir::ValueRange init, ::mlir::ValueRange sequences, ::mlir::ValueRange invariants,
                         std::unique_ptr<::mlir::Block> step);
  }];
}

def Hyc_YieldOp : Hyc_Op<"yield", [Pure, Terminator, HasParent<"ScanOp">]> {
  let summary = "what a step gives: the values that it carries on, then what is stacked";
  let arguments = (ins Variadic<AnyRankedTensor>:$values);
  let assemblyFormat = "attr-dict ($values^ `:` type($values))?";
  let builders = [OpBuilder<(ins), "build($_builder, $_state, ::mlir::ValueRange());">];
}

#endif // HYC_LOOP_OPS_TD
