# A label that is no class, and not the one that is ignored either.
import samples

samples.write(x=("F32", [4, 4], [1.0]), labels=("I64", [4], [1, -100, -1, 2]))
