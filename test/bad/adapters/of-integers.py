# An adapter's folder: of integers.
import sys

import adapter_folder

adapter_folder.write(sys.argv[1], dtype="I64")
