# A file of more than its kind may have, that takes no room on the disk.
import os
import sys

open(sys.argv[1], "wb").close()
os.truncate(sys.argv[1], 5 << 40)
