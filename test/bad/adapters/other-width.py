# An adapter's folder: other width.
import sys

import adapter_folder

adapter_folder.write(sys.argv[1], shapes={"base_model.model.h.fc.lora_A.weight": [2, 32], "base_model.model.h.fc.lora_B.weight": [8, 2]})
