# An adapter's folder: ranks by layer.
import sys

import adapter_folder

adapter_folder.write(sys.argv[1], {"rank_pattern": {"fc": 4}})
