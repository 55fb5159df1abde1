# Pairs of a row and a column, of which the first has column 9 of 9, which is none.
import samples

samples.write(ids=("I64", [4, 5, 2], [0, 9] + [1] * 38), labels=("F32", [4, 5], [1.0]))
