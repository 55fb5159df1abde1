# Ids of which the first is 2^32 + 3, which is 3 in 32 bits.
import samples

samples.write(ids=("I64", [4, 5], [(1 << 32) + 3] + [1] * 19), labels=("I64", [4, 5], [1]))
