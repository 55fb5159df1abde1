// The table of ops whose gradients are checked by finite differences: one row a behaviour, at least one row an op.
#ifndef HYC_TEST_UNIT_TRAIN_GRADIENTCASES_H
#define HYC_TEST_UNIT_TRAIN_GRADIENTCASES_H

#include <string>
#include <vector>

struct Operand {
  std::string name;  // read as %name
  std::string shape; // "3x4x"
  double low = -2, high = 2;
};

struct GradientCase {
  std::string name;
  std::vector<Operand> operands; // f64 parameters with values spread over [low, high]
  std::string resultShape;       // of %r, "" for a scalar
  std::string body;              // defines %r from the operands
};

/// A part of the table: functions, windows and ops by number.
std::vector<GradientCase> indexGradientCases();

const std::vector<GradientCase> &gradientCases();

#endif // HYC_TEST_UNIT_TRAIN_GRADIENTCASES_H
