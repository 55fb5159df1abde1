# Numbers of elements of which the first is 9, where there are 9.
import samples

samples.write(ids=("I64", [4, 5], [9] + [1] * 19), x=("F32", [4, 4], [1.0]), labels=("F32", [4, 5], [1.0]))
