# Ids of which the first is the last there is.
import samples

samples.write(ids=("I64", [4, 5], [8] + [1] * 19))
