// What makes a valid node of each operator of the ONNX importer's table: which operands it takes, how their sizes go
// together, and what attributes it has. One row is one way to use the operator; several share a name.
//
//   {"Conv", "f[n,c,h,w] f[o,c,k,l] f[o]?", "strides=I2:1..2 auto_pad=s:VALID,SAME_UPPER"}
//
// Operands, in order:
//   f i w b u s   floats, 64-bit and 32-bit integers, booleans, 8 bits without and with a sign; a capital is a constant
//   [n,2,3h,*,~]  sizes: a letter is one size wherever it stands, 3h is three times h; * is any row of sizes, the same
//                 wherever it stands, and ~ one that broadcasts to it
//   {-r..r-1}     the values of constants; r is the number of dimensions of the first operand. Or how they follow from
//                 the first operand: {shape}, {repeats}, {broadcast}, {axes}, {pads}, {parts}
//   ? +           may be left out; may be repeated
// Attributes, each of which may be left out but where ! says otherwise:
//   axis=i:-r..r-1  axes=I2:0..3 (two of them, r: one a dimension)  alpha=f  mode=s:a,b  perm=P (an order)  value=t
#ifndef HYC_TEST_FUZZ_GRAPHS_OPERATORRECIPES_H
#define HYC_TEST_FUZZ_GRAPHS_OPERATORRECIPES_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <string>
#include <vector>

namespace hyc::fuzzing {

struct OperandRecipe {
  char elements = 'f';
  bool isConstant = false, isOptional = false, repeats = false;
  struct Size {
    int64_t number = 0; ///< the size where there is no letter, else the factor
    char letter = 0;    ///< also * and ~
  };
  std::vector<Size> shape;
  std::string values; ///< "-r..r-1", "shape"; empty: anything
};

struct AttributeRecipe {
  std::string name;
  char kind = 'i'; ///< i, I, f, F, s, P or t
  bool isRequired = false;
  std::string count;  ///< of I
  std::string values; ///< "0..3" or "a,b"
};

struct OperatorRecipe {
  std::string op; ///< as the importer's table calls it
  std::vector<OperandRecipe> operands;
  std::vector<AttributeRecipe> attributes;
  int64_t leastOpset = 13, mostOpset = 23;
  int outputs = 1; ///< most of them
};

/// Every row, in the table's order. Ends the process where a row cannot be read.
const std::vector<OperatorRecipe> &allRecipes();

} // namespace hyc::fuzzing

#endif // HYC_TEST_FUZZ_GRAPHS_OPERATORRECIPES_H
