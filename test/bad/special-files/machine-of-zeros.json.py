# A device without an end.
import os
import sys

os.symlink("/dev/zero", sys.argv[1])
