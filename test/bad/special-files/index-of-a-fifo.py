# A folder whose index of weights is a FIFO.
import os
import pathlib
import shutil
import sys

folder = pathlib.Path(sys.argv[1])
folder.mkdir()
shutil.copy(pathlib.Path(__file__).parents[2] / "models/llama/config.json", folder)
os.mkfifo(folder / "model.safetensors.index.json")
