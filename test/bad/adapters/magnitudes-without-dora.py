# An adapter's folder: magnitudes of which the config says nothing.
import sys

import adapter_folder

adapter_folder.write(sys.argv[1], {}, {**adapter_folder.SHAPES, "base_model.model.h.fc.lora_magnitude_vector": [8]})
