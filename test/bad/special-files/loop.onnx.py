# A link to itself.
import os
import sys

os.symlink(os.path.basename(sys.argv[1]), sys.argv[1])
