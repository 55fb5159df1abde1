# An adapter's folder: of an embedding.
import sys

import adapter_folder

adapter_folder.write(sys.argv[1], shapes={"base_model.model.wte.lora_A.weight": [2, 16], "base_model.model.wte.lora_B.weight": [11, 2]})
