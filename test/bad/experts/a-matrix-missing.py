# An expert without its second matrix.
import sys

import expert_folder

expert_folder.write(sys.argv[1], lambda tensors: tensors.pop(f"{expert_folder.EXPERTS}0.w2.weight"))
