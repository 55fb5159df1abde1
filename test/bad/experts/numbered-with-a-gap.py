# Experts 0, 1, 2 and 4.
import sys

import expert_folder


def change(tensors):
    for matrix in ("w1", "w2", "w3"):
        tensors[f"{expert_folder.EXPERTS}4.{matrix}.weight"] = tensors.pop(f"{expert_folder.EXPERTS}3.{matrix}.weight")


expert_folder.write(sys.argv[1], change)
