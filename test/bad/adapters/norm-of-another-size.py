# An adapter's folder: norm of another size.
import sys

import adapter_folder

adapter_folder.write(sys.argv[1], shapes={**adapter_folder.SHAPES, "base_model.model.h.norm.weight": [16]})
