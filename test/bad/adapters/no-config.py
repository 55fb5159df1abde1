# An adapter's folder: no config.
import pathlib
import sys

import adapter_folder

adapter_folder.write(sys.argv[1])
(pathlib.Path(sys.argv[1]) / "adapter_config.json").unlink()
