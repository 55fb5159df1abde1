# An adapter's folder: no adapters.
import sys

import adapter_folder

adapter_folder.write(sys.argv[1], shapes={"base_model.model.h.norm.weight": [8]})
