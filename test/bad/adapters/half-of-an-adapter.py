# An adapter's folder: half of an adapter.
import sys

import adapter_folder

adapter_folder.write(sys.argv[1], shapes={"base_model.model.h.fc.lora_A.weight": [2, 16]})
