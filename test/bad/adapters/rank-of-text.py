# An adapter's folder: rank of text.
import sys

import adapter_folder

adapter_folder.write(sys.argv[1], {"r": "two"})
