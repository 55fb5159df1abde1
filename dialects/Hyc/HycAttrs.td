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

def Hyc_PartAttr : Hyc_Attr<"Part", "part"> {
  let summary = "one of the tensors of files that a parameter's values are made of";
  let description = [{
    `name` and `shape` are those that the file has.
    ```mlir
    #hyc.part<"mlp.experts.0.up_proj.weight"[24, 16] at <"model.safetensors", offset = 128>>
    ```
  }];
  let parameters = (ins StringRefParameter<"name in the file">:$name, ArrayRefParameter<"int64_t">:$shape,
                        "::hyc::FileAttr":$file);
  let assemblyFormat = "`<` $name `` `[` $shape `]` `at` $file `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = "int64_t getNumElements() const;";
}

def Hyc_PartsAttr : Hyc_Attr<"Parts", "parts"> {
  let summary = "values that several tensors of files have, one after another in the parameter's row-major order";
  let description = [{
    Matrices of experts that are stored one by one, and are one parameter [experts, outputs, inputs] to the model, are such
    parts; so are weights of which the first rows are one tensor's and the others another's.
    ```mlir
    #hyc.parts<<"experts.0.gate_proj.weight"[24, 16] at <"model.safetensors", offset = 128>>,
               <"experts.0.up_proj.weight"[24, 16] at <"model.safetensors", offset = 1664>>>
    ```
  }];
  let parameters = (ins ArrayRefParameter<"::hyc::PartAttr">:$parts);
  let assemblyFormat = "`<` $parts `>`";
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

def Hyc_SinusoidsAttr : Hyc_Attr<"Sinusoids", "sinusoids"> {
  let summary = "rows of sines and cosines of their numbers, as positions have them that nobody trains";
  let description = [{
    Elements, row-major, are rows of `width`. Of row r element k in the first half is sin(r · ratio^k), and element k of
    the second half cos(r · ratio^k). The ratio lies in (0, 1]; the width is even.
    ```mlir
    #hyc.sinusoids<width = 16, ratio = 2.682695e-01>
    ```
  }];
  let parameters = (ins "int64_t":$width, "::mlir::FloatAttr":$ratio);
  let assemblyFormat = "`<` `width` `=` $width `,` `ratio` `=` $ratio `>`";
  let genVerifyDecl = 1;
}

// In the order of the runtime's hycrt::WeightPart.
def Hyc_Int8Codes : I32EnumAttrCase<"int8_codes", 0>;
def Hyc_Int8Absmax : I32EnumAttrCase<"int8_absmax", 1>;
def Hyc_Nf4Codes : I32EnumAttrCase<"nf4_codes", 2>;
def Hyc_Nf4Absmax : I32EnumAttrCase<"nf4_absmax", 3>;
def Hyc_Nf4Scale : I32EnumAttrCase<"nf4_scale", 4>;
def Hyc_Nf4Mean : I32EnumAttrCase<"nf4_mean", 5>;
def Hyc_RowNorms : I32EnumAttrCase<"row_norms", 6>;
def Hyc_Int8RowNorms : I32EnumAttrCase<"int8_row_norms", 7>;
def Hyc_Nf4RowNorms : I32EnumAttrCase<"nf4_row_norms", 8>;
def Hyc_WeightPart : I32EnumAttr<"WeightPart", "what is made of a linear layer's weight before training starts",
    [Hyc_Int8Codes, Hyc_Int8Absmax, Hyc_Nf4Codes, Hyc_Nf4Absmax, Hyc_Nf4Scale, Hyc_Nf4Mean,
     Hyc_RowNorms, Hyc_Int8RowNorms, Hyc_Nf4RowNorms]> {
  let cppNamespace = "::hyc";
}

def Hyc_OfWeightAttr : Hyc_Attr<"OfWeight", "of_weight"> {
  let summary = "made of a linear layer's weight, before training starts";
  let description = [{
    `values` are those of the weight, the parameter `parameter`, by any of the other initializers. The weight is a matrix
    of `outputs` × `inputs`, row-major; with `inputs_first` its transpose is what is stored. hyc.dequantize says what codes
    and scales are; `row_norms` are each output's √Σ w², which a parameter may start from, `int8_row_norms` and
    `nf4_row_norms` those of what its codes mean.
    ```mlir
    #hyc.of_weight<int8_codes of "fc1.weight" from #hyc.file<"model.safetensors", offset = 128>, outputs = 256, inputs = 64, inputs_first = false>
    ```
  }];
  let parameters = (ins EnumParameter<Hyc_WeightPart>:$part, StringRefParameter<"name of the parameter">:$parameter,
                        "::mlir::Attribute":$values, "int64_t":$outputs, "int64_t":$inputs, "bool":$inputsFirst);
  let assemblyFormat = [{`<` $part `of` $parameter `from` $values `,` `outputs` `=` $outputs `,` `inputs` `=` $inputs `,`
                         `inputs_first` `=` $inputsFirst `>`}];
  let genVerifyDecl = 1;
}

def Hyc_CodeInt8 : I32EnumAttrCase<"int8", 0>;
def Hyc_CodeNf4 : I32EnumAttrCase<"nf4", 1>;
def Hyc_CodeKind : I32EnumAttr<"CodeKind", "what the codes of a quantised weight mean", [Hyc_CodeInt8, Hyc_CodeNf4]> {
  let cppNamespace = "::hyc";
  let genSpecializedAttr = 0;
}
def Hyc_CodeKindAttr : EnumAttr<Hyc_Dialect, Hyc_CodeKind, "codes">;

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
