# An expert that is wider than the others.
import sys

import expert_folder

expert_folder.write(sys.argv[1], lambda tensors: tensors.update({f"{expert_folder.EXPERTS}3.w1.weight": [32, 16]}))
