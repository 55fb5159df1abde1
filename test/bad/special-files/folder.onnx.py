# A folder where a file should be.
import os
import sys

os.mkdir(sys.argv[1])
