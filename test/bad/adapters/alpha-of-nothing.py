# An adapter's folder: alpha of nothing.
import sys

import adapter_folder

adapter_folder.write(sys.argv[1], {"lora_alpha": -1})
