# An adapter's folder: other model.
import sys

import adapter_folder

adapter_folder.write(sys.argv[1], shapes={"base_model.model.h.up.lora_A.weight": [2, 16], "base_model.model.h.up.lora_B.weight": [8, 2]})
