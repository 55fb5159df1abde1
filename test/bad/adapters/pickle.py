# An adapter's folder: pickle.
import pathlib
import sys

import adapter_folder

adapter_folder.write(sys.argv[1])
(pathlib.Path(sys.argv[1]) / "adapter_model.safetensors").rename(pathlib.Path(sys.argv[1]) / "adapter_model.bin")
