# An affine map of 50,000 negations, which nest without brackets.
print('module attributes {a = affine_map<(d0) -> (' + '-' * 50000 + 'd0)>} {}')
