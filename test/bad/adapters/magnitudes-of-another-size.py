# An adapter's folder: more magnitudes than outputs.
import sys

import adapter_folder

adapter_folder.write(sys.argv[1], {"use_dora": True}, {**adapter_folder.SHAPES, "base_model.model.h.fc.lora_magnitude_vector": [9]})
