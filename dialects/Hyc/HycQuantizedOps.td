// Weights that are kept as codes of a few bits.

#ifndef HYC_QUANTIZED_OPS_TD
#define HYC_QUANTIZED_OPS_TD

include "dialects/Hyc/HycShapeOps.td"

def Hyc_DequantizeOp : Hyc_Op<"dequantize", [Pure, CostOpInterface, Hyc_OwnSharding, Hyc_OwnPlace]> {
  let summary = "a frozen weight of its codes, as bitsandbytes has them";
  let description = [{
    The weight is a matrix of outputs × inputs. Element (i…) of the result is number p = offset + Σ i·strides of it, counted
    row-major, whatever order and whatever part of it the result has; so all of the scales are read by place in the whole
    matrix, and no split of it changes a bit. Codes are bytes.

    `int8` (Dettmers et al. 2022, LLM.int8): a code c a byte in two's complement, absmax a row (`block` = inputs):
    w = (c · absmax[p / block]) · (1 / 127). Where it was made: c = round(w · (127 / absmax)).

    `nf4` (Dettmers et al. 2023, QLoRA): two codes a byte, that of the even element in its upper half, absmax a `block` of 64:
    w = table[c] · absmax[p / 64], with the 16 numbers of NormalFloat. absmax itself is a byte a and the numbers
    of 256 of them: absmax[b] = map[a[b]] · scale[b / 256] + mean, with the 256 numbers of the dynamic map.

    16-bit results are rounded once, in the end. It has no gradient: what is kept so is trained by nobody. It is free, as a
    constant is: whoever uses it makes it anew, so that the whole is there for that use only.

    1. `dequantize.codes`: bytes (ui8) in the shape of the result, of which nf4 halves the last dimension.
    2. `dequantize.scales`: of int8 f32 (rows); of nf4 ui8 (blocks), f32 (blocks / 256, rounded up) and f32 ().
    3. `dequantize.place`: a number of `strides` for each dimension; the offset, where given, is an i64 scalar (phase 4).
    ```mlir
    %w = hyc.dequantize int8 %c, %absmax block 64 strides [64, 1] : (tensor<256x64xui8>, tensor<256xf32>) -> tensor<256x64xf32>
    ```
  }];
  let arguments = (ins Hyc_CodeKindAttr:$kind, AnyRankedTensor:$codes, Variadic<AnyRankedTensor>:$scales, I64Attr:$block,
                       DenseI64ArrayAttr:$strides);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{$kind $codes `,` $scales `block` $block `strides` $strides attr-dict `:`
                         functional-type(operands, results)}];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    unsigned getNumScales() { return getKind() == CodeKind::int8 ? 1 : 3; }
    /// How many numbers nf4 has for the bytes of so many blocks: one for 256.
    static int64_t scaleGroupsOf(int64_t blocks) { return (blocks + 255) / 256; }
    static constexpr int64_t kNf4Block = 64;
    /// Where this rank's part begins; null where it holds the whole.
    ::mlir::Value getOffset() {
      return getScales().size() > getNumScales() ? getScales().back() : ::mlir::Value();
    }
  }];
}

#endif // HYC_QUANTIZED_OPS_TD
