# Ids of which the first is 2^40.
import samples

samples.write(ids=("I64", [4, 5], [1 << 40] + [1] * 19), labels=("I64", [4, 5], [1]))
