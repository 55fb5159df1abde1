# A FIFO, which would be waited for.
import os
import sys

os.mkfifo(sys.argv[1])
