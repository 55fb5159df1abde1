// The rank dialect: a mirror of the runtime's API. One op is one call; every buffer has an address (phase 5).

#ifndef RANK_DIALECT_TD
#define RANK_DIALECT_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Rank_Dialect : Dialect {
  let name = "rank";
  let cppNamespace = "::hyc::rank";
  let summary = "Buffers at fixed offsets of a few arenas, kernels, and the calls that a rank makes in order";
  let description = [{
    A `rank.program` is what all ranks of one pipeline stage run: its arenas, what lies in them (states, inputs,
    records) and its functions. Functions hold one op per runtime call; data flows through memory, never through SSA
    values. The only SSA values are addresses (`!rank.buffer`), tickets of started collectives, and table rows.

    Two forms. Before placement a function's temporaries are `rank.alloc`; after it every address is a `rank.at` with an
    arena and an offset. RATIONALE.md tells why.
  }];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let dependentDialects = ["::hyc::dist::DistDialect"];
}

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

class Rank_Type<string name, string typeMnemonic> : TypeDef<Rank_Dialect, name> { let mnemonic = typeMnemonic; }

def Rank_BufferType : Rank_Type<"Buffer", "buffer"> {
  let summary = "the address of a tensor, and how its elements lie";
  let description = [{
    Without strides the elements are dense and row-major. Strides count elements.

    With `shard` the buffer is this rank's flat shard of a dense whole that begins at the address: with c its coordinate
    along the axes and s the buffer's size, elements c·s to (c + 1)·s of the whole; what lies beyond the whole's end does
    not exist. Such types are the one place where addresses depend on coordinates.

    1. `buffer.strides`: there are none, or one non-negative stride a dimension.
    2. `buffer.shard`: a shard is dense and one-dimensional.
    ```mlir
    !rank.buffer<4x64xf32>
    !rank.buffer<2x16x8x8xf32, strides [3072, 192, 8, 1]>
    !rank.buffer<4096xf32, shard {dp} of 8192>
    ```
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$shape, "::mlir::Type":$elementType,
                        ArrayRefParameter<"int64_t">:$strides, "::hyc::dist::AxisListAttr":$shardAxes,
                        "int64_t":$wholeElements);
  let skipDefaultBuilders = 1;
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let builders = [
    TypeBuilder<(ins "::llvm::ArrayRef<int64_t>":$shape, "::mlir::Type":$elementType,
                     "::llvm::ArrayRef<int64_t>":$strides), [{
      return $_get($_ctxt, shape, elementType, strides, ::hyc::dist::AxisListAttr(), int64_t(0));
    }]>,
    TypeBuilder<(ins "::llvm::ArrayRef<int64_t>":$shape, "::mlir::Type":$elementType,
                     "::llvm::ArrayRef<int64_t>":$strides, "::hyc::dist::AxisListAttr":$shardAxes,
                     "int64_t":$wholeElements), [{
      return $_get($_ctxt, shape, elementType, strides, shardAxes, wholeElements);
    }]>,
    TypeBuilderWithInferredContext<(ins "::mlir::RankedTensorType":$tensor), [{
      return $_get(tensor.getContext(), tensor.getShape(), tensor.getElementType(), ::llvm::ArrayRef<int64_t>(),
                   ::hyc::dist::AxisListAttr(), int64_t(0));
    }]>
  ];
  let extraClassDeclaration = [{
    int64_t getNumElements() const;
    int64_t getElementBytes() const;
    /// Bytes of the elements, strides not counted.
    int64_t getBytes() const { return getNumElements() * getElementBytes(); }
    /// Bytes that it takes where it lies by itself: with what its strides leave free, also behind the last element.
    int64_t getFootprint() const;
    /// The distance in elements between rows, which are what the last dimension runs through; nothing where they are
    /// not equally far apart, or their elements not side by side.
    ::std::optional<int64_t> getRowStride() const;
    bool isDense() const { return getStrides().empty(); }
    /// One stride a dimension, dense or not.
    ::llvm::SmallVector<int64_t> getStridesOrDense() const;
    /// The same elements with other strides; dense ones are left out.
    BufferType withLayout(::llvm::ArrayRef<int64_t> shape, ::llvm::ArrayRef<int64_t> strides) const;
    bool isShard() const { return static_cast<bool>(getShardAxes()); }
    /// This rank's shard of `size` elements of this dense buffer.
    BufferType shard(::hyc::dist::AxisListAttr axes, int64_t size) const;
    /// From the address to one past the last element, in elements: of a shard, the whole's.
    int64_t getExtent() const;
  }];
}

def Rank_TicketType : Rank_Type<"Ticket", "ticket"> {
  let summary = "a started collective, to be waited for";
}

def Rank_RowType : Rank_Type<"Row", "row"> {
  let summary = "a row of one of the program's tables: a collective or a site";
}

//===----------------------------------------------------------------------===//
// Enums
//===----------------------------------------------------------------------===//

def Rank_ModeOverwrite : I32EnumAttrCase<"overwrite", 0>;
def Rank_ModeAdd : I32EnumAttrCase<"add", 1>;
def Rank_ModeFirst : I32EnumAttrCase<"first", 2>;
def Rank_WriteMode : I32EnumAttr<"WriteMode", "what a call does to the old contents of its results",
    [Rank_ModeOverwrite, Rank_ModeAdd, Rank_ModeFirst]> {
  let description = "`first` overwrites in the first micro-batch of a step and adds in every other.";
  let cppNamespace = "::hyc::rank";
  let genSpecializedAttr = 0;
}
def Rank_WriteModeAttr : EnumAttr<Rank_Dialect, Rank_WriteMode, "mode">;

def Rank_CombineSum : I32EnumAttrCase<"sum", 0>;
def Rank_CombineMax : I32EnumAttrCase<"max", 1>;
def Rank_CombineMin : I32EnumAttrCase<"min", 2>;
def Rank_CombineProd : I32EnumAttrCase<"prod", 3>;
def Rank_CombineKind : I32EnumAttr<"CombineKind", "how a kernel combines elements",
    [Rank_CombineSum, Rank_CombineMax, Rank_CombineMin, Rank_CombineProd]> {
  let cppNamespace = "::hyc::rank";
  let genSpecializedAttr = 0;
}
def Rank_CombineKindAttr : EnumAttr<Rank_Dialect, Rank_CombineKind, "combine">;

#endif // RANK_DIALECT_TD
