# An adapter's folder: trained biases.
import sys

import adapter_folder

adapter_folder.write(sys.argv[1], {"bias": "lora_only"})
