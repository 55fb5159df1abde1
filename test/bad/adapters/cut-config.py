# An adapter's folder: cut config.
import pathlib
import sys

import adapter_folder

adapter_folder.write(sys.argv[1])
(pathlib.Path(sys.argv[1]) / "adapter_config.json").write_text('{"peft_type": "LO')
