# An adapter's folder: prompt tuning.
import sys

import adapter_folder

adapter_folder.write(sys.argv[1], {"peft_type": "PROMPT_TUNING"})
