# A file of nothing.
import sys

open(sys.argv[1], "wb").close()
