# An adapter's folder: other rank.
import sys

import adapter_folder

adapter_folder.write(sys.argv[1], {"r": 4})
