# An expert of integers.
import sys

import expert_folder

expert_folder.write(sys.argv[1], lambda tensors: None, {f"{expert_folder.EXPERTS}1.w2.weight": "I32"})
