// Where a parameter's first values come from. The values themselves never enter the IR.

#ifndef HYC_ATTRS_TD
#define HYC_ATTRS_TD

include "dialects/Hyc/HycBase.td"
include "mlir/IR/EnumAttr.td"

def Hyc_FileAttr : Hyc_Attr<"File", "file"> {
  let summary = "values stored row-major, little-endian, in a file";
  let description = [{
    `path` is as the model names it, relative to the model's folder or absolute; `offset` counts bytes.
    ```mlir
    #hyc.file<"gpt2.onnx", offset = 128>
    ```
  }];
  let parameters = (ins StringRefParameter<"path of the file">:$path, "int64_t":$offset);
  let assemblyFormat = "`<` $path `,` `offset` `=` $offset `>`";
  let genVerifyDecl = 1;
}

def Hyc_NormalAttr : Hyc_Attr<"Normal", "normal"> {
  let summary = "independent normal values, Philox keyed by (seed, parameter name), indexed by global element";
  let parameters = (ins "::mlir::FloatAttr":$mean, "::mlir::FloatAttr":$stddev);
  let assemblyFormat = "`<` `mean` `=` $mean `,` `stddev` `=` $stddev `>`";
}

def Hyc_UniformAttr : Hyc_Attr<"Uniform", "uniform"> {
  let summary = "independent uniform values in [low, high), keyed and indexed as #hyc.normal's";
  let parameters = (ins "::mlir::FloatAttr":$low, "::mlir::FloatAttr":$high);
  let assemblyFormat = "`<` `low` `=` $low `,` `high` `=` $high `>`";
}

def Hyc_FillAttr : Hyc_Attr<"Fill", "fill"> {
  let summary = "every element has one value";
  let parameters = (ins "::mlir::FloatAttr":$value);
  let assemblyFormat = "`<` $value `>`";
}

def Hyc_ReductionSum : I32EnumAttrCase<"sum", 0>;
def Hyc_ReductionMax : I32EnumAttrCase<"max", 1>;
def Hyc_ReductionMin : I32EnumAttrCase<"min", 2>;
def Hyc_ReductionProd : I32EnumAttrCase<"prod", 3>;
def Hyc_ReductionKind : I32EnumAttr<"ReductionKind", "how elements are combined",
    [Hyc_ReductionSum, Hyc_ReductionMax, Hyc_ReductionMin, Hyc_ReductionProd]> {
  let cppNamespace = "::hyc";
  let genSpecializedAttr = 0;
}
def Hyc_ReductionKindAttr : EnumAttr<Hyc_Dialect, Hyc_ReductionKind, "reduction">;

def Hyc_CompareEq : I32EnumAttrCase<"eq", 0>;
def Hyc_CompareNe : I32EnumAttrCase<"ne", 1>;
def Hyc_CompareLt : I32EnumAttrCase<"lt", 2>;
def Hyc_CompareLe : I32EnumAttrCase<"le", 3>;
def Hyc_CompareGt : I32EnumAttrCase<"gt", 4>;
def Hyc_CompareGe : I32EnumAttrCase<"ge", 5>;
def Hyc_ComparePredicate : I32EnumAttr<"ComparePredicate", "an ordering relation (false on NaN, except ne)",
    [Hyc_CompareEq, Hyc_CompareNe, Hyc_CompareLt, Hyc_CompareLe, Hyc_CompareGt, Hyc_CompareGe]> {
  let cppNamespace = "::hyc";
  let genSpecializedAttr = 0;
}
def Hyc_ComparePredicateAttr : EnumAttr<Hyc_Dialect, Hyc_ComparePredicate, "predicate">;

#endif // HYC_ATTRS_TD
