# An adapter's folder: dora.
import sys

import adapter_folder

adapter_folder.write(sys.argv[1], {"use_dora": True})
