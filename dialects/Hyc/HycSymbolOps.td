// Parameters, state, functions, and the ops that touch state.

#ifndef HYC_SYMBOL_OPS_TD
#define HYC_SYMBOL_OPS_TD

include "dialects/Hyc/HycAttrs.td"
include "dialects/Hyc/HycInterfaces.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Hyc_ParamOp : Hyc_Op<"param", [Symbol, HasParent<"::mlir::ModuleOp">]> {
  let summary = "a named parameter of the model";
  let description = [{
    Holds no values, only where they come from. Tied parameters are one symbol.

    1. `param.shape`: the product of `shape`, where given, equals the number of elements of the whole tensor. `shape` is
       the parameter's shape as the model states it; `type` may split its dimensions further (row-major order is the same),
       so that every factor which sharding may split is a dimension of its own.
    2. `param.static`: the type is static and ranked.

    In phase 4 `type` is what one rank holds, and `global_type` the whole tensor's type.

    A `frozen` parameter is trained by nobody. Where a function writes it, it is a buffer of the model, such as a running
    average: a part of checkpoints that the model itself changes, once a micro-batch.

    ```mlir
    hyc.param @h.0.attn.c_attn.weight : tensor<64x3x8x8xf32> from #hyc.file<"gpt2.onnx", offset = 128> {shape = array<i64: 64, 192>}
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<AnyRankedTensor>:$type, AnyAttr:$init,
                       OptionalAttr<DenseI64ArrayAttr>:$shape, UnitAttr:$frozen,
                       OptionalAttr<TypeAttrOf<AnyRankedTensor>>:$global_type);
  let assemblyFormat = "$sym_name `:` $type `from` $init (`frozen` $frozen^)? attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::RankedTensorType getTensorType() { return ::llvm::cast<::mlir::RankedTensorType>(getType()); }
    /// The type of the whole tensor, whatever part of it one rank holds.
    ::mlir::RankedTensorType getWholeType() {
      return ::llvm::cast<::mlir::RankedTensorType>(getGlobalType().value_or(getType()));
    }
    /// The shape that the model states, which checkpoints use.
    ::llvm::SmallVector<int64_t> getLogicalShape();
  }];
}

def Hyc_StateOp : Hyc_Op<"state", [Symbol, HasParent<"::mlir::ModuleOp">]> {
  let summary = "state that training keeps beside the parameters";
  let description = [{
    Gradients, optimizer moments, the step counter, the loss sum. `param` names the parameter it belongs to, if any;
    with `role` it is what checkpoints refer to. StateRoles.h has the roles and what follows from each; a role that is not
    among them is the name that an optimizer has for what it keeps of a parameter ("adam.m").

    Role "compute" is a parameter's copy in the type that the model computes in. It starts as the parameter does, rounded
    (`init` is the parameter's, of its name and type), and follows it by `hyc.refresh`.

    Roles "fp8.scale", "fp8.inverse", "fp8.amax" and "fp8.history" belong to one tensor that is quantised
    (hyc-quantize-products): f32 scalars but the last, which `hyc.update_fp8_scale` changes. They are on the pipeline
    stages that quantise it, where other states without a parameter are on all.

    Role "codes" is what is kept of a frozen parameter in its place: bytes that hyc.dequantize reads, in its shape, or with
    two codes a byte along the last dimension. Role "codes.scale" is what they are multiplied with, whole on the stages that
    read it, or flat. Neither changes, so checkpoints have none: they are made of the model's own weights again.

    1. `state.param`: `param`, where given, names a `hyc.param` whose whole tensor has the same shape; that of nf4 codes is
       twice as long along the last dimension.

    ```mlir
    hyc.state @fc1.weight.m of @fc1.weight role "adam.m" : tensor<64x256xf32> from #hyc.fill<0.0>
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, OptionalAttr<FlatSymbolRefAttr>:$param, StrAttr:$role,
                       TypeAttrOf<AnyRankedTensor>:$type, AnyAttr:$init,
                       OptionalAttr<TypeAttrOf<AnyRankedTensor>>:$global_type);
  let assemblyFormat = "$sym_name (`of` $param^)? `role` $role `:` $type `from` $init attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::RankedTensorType getTensorType() { return ::llvm::cast<::mlir::RankedTensorType>(getType()); }
    /// The type of the whole tensor, whatever part of it one rank holds.
    ::mlir::RankedTensorType getWholeType() {
      return ::llvm::cast<::mlir::RankedTensorType>(getGlobalType().value_or(getType()));
    }
    const ::hyc::RoleFacts &getFacts() { return ::hyc::factsOfRole(getRole()); }
    bool is(::hyc::StateRole role) { return getFacts().role == role; }
  }];
}

def Hyc_FuncOp : Hyc_Op<"func", [FunctionOpInterface, IsolatedFromAbove, AutomaticAllocationScope]> {
  let summary = "a function over tensors";
  let description = [{
    Phase 1: an entry, `@train`. Phases 2 and 3: `@microbatch` and `@apply`. Phase 4: `@forward.S`, `@backward.S`,
    `@reduce.S` and `@apply.S` for each stage S. Straight-line: one block.

    Arguments and results say in their attributes what they are: `hyc.input = "input_ids"` is fed by the loader,
    `hyc.saved = "<id>"` is kept from forward to backward, `dist.channel = "<id>"` crosses to or from another stage,
    `hyc.scalar = "lr"` (or "momentum") is set by the runtime.

    An input's `hyc.source` tells the loader what it is: "token", "next_token"; "own_token", "next_own_token", the same as
    labels of a model that tells documents apart: the first token of one is not counted; "position" within its document;
    "presence", 1 for each token; "sample", which is row b of a tensor of the input's name in the data; or "random" with
    `hyc.streams`, the ids of the ops that draw: element (b, j) is mix(mix(seed, number of sample b over all steps), hash of
    id j), 64 bits each.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<FunctionType>:$function_type,
                       OptionalAttr<StrAttr>:$sym_visibility,
                       OptionalAttr<DictArrayAttr>:$arg_attrs, OptionalAttr<DictArrayAttr>:$res_attrs);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name, "::mlir::FunctionType":$type)>];
  let extraClassDeclaration = [{
    ::mlir::Region *getCallableRegion() { return &getBody(); }
    ::llvm::ArrayRef<::mlir::Type> getArgumentTypes() { return getFunctionType().getInputs(); }
    ::llvm::ArrayRef<::mlir::Type> getResultTypes() { return getFunctionType().getResults(); }
    /// The terminator of the only block.
    ::hyc::ReturnOp getReturn();
    static bool areTypesCompatible(::mlir::TypeRange, ::mlir::TypeRange) { return true; }
  }];
}

def Hyc_ReturnOp : Hyc_Op<"return", [Pure, Terminator, HasParent<"FuncOp">]> {
  let summary = "ends a function";
  let arguments = (ins Variadic<AnyType>:$operands);
  let assemblyFormat = "attr-dict ($operands^ `:` type($operands))?";
  let hasVerifier = 1;
}

def Hyc_ReadOp : Hyc_Op<"read", [MemoryEffects<[MemRead]>, DeclareOpInterfaceMethods<SymbolUserOpInterface>,
    SymbolAccessOpInterface]> {
  let summary = "the present value of a parameter or a state";
  let description = "1. `read.type`: the symbol is a `hyc.param` or `hyc.state` of this type.";
  let arguments = (ins FlatSymbolRefAttr:$source);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$source attr-dict `:` type($result)";
  let extraClassDeclaration = [{
    ::mlir::FlatSymbolRefAttr getAccessedSymbol() { return getSourceAttr(); }
    ::mlir::Value getAccessedValue() { return getResult(); }
  }];
}

def Hyc_WriteOp : Hyc_Op<"write", [MemoryEffects<[MemWrite]>, DeclareOpInterfaceMethods<SymbolUserOpInterface>,
    SymbolAccessOpInterface]> {
  let summary = "replaces the value of a parameter or a state";
  let description = [{
    In phases 1 to 3 of a frozen parameter only, by forward, at most once, and after every use of what it held before. So a
    write is never repeated: recomputed forward ops feed backward, and backward writes nothing.
  }];
  let arguments = (ins AnyRankedTensor:$value, FlatSymbolRefAttr:$target);
  let assemblyFormat = "$value `into` $target attr-dict `:` type($value)";
  let extraClassDeclaration = [{
    ::mlir::FlatSymbolRefAttr getAccessedSymbol() { return getTargetAttr(); }
    ::mlir::Value getAccessedValue() { return getValue(); }
  }];
}

def Hyc_AccumulateOp : Hyc_Op<"accumulate", [MemoryEffects<[MemRead, MemWrite]>,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>, SymbolAccessOpInterface]> {
  let summary = "adds to a state, over the micro-batches of one step";
  let description = [{
    In the first micro-batch of a step the first accumulation into a state overwrites what the step before left (NaN
    included); every other one adds. State is therefore never cleared.

    With `max` the state becomes the greater of both, NaN if either is; the step's reduction over ranks is then one of
    maxima, too. All accumulations into one state have it, or none.
    ```mlir
    hyc.accumulate max %amax into @fc1.fp8.x.amax : tensor<f32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$value, FlatSymbolRefAttr:$target, UnitAttr:$max);
  let assemblyFormat = "(`max` $max^)? $value `into` $target attr-dict `:` type($value)";
  let extraClassDeclaration = [{
    ::mlir::FlatSymbolRefAttr getAccessedSymbol() { return getTargetAttr(); }
    ::mlir::Value getAccessedValue() { return getValue(); }
  }];
}

#endif // HYC_SYMBOL_OPS_TD
