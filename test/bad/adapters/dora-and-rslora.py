# An adapter's folder: dora, and scaled by the rank's root.
import sys

import adapter_folder

adapter_folder.write(sys.argv[1], {"use_dora": True, "use_rslora": True})
