# A tensor for each expert, but none for the third of the second layer.
import sys

import expert_folder


def change(tensors):
    for matrix in ("w1", "w2", "w3"):
        del tensors[f"{expert_folder.EXPERTS}2.{matrix}.weight"]


expert_folder.write(sys.argv[1], change)
