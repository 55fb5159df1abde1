# A folder whose weights are a symbolic link to a file elsewhere.
import pathlib
import sys

import onnx_text

folder = pathlib.Path(sys.argv[1])
folder.mkdir()
text = "input x float[2, 4]\nvalue w float[4, 3] external location=w.bin\ny = MatMul(x, w)\noutput y\n"
(folder / "model.onnx").write_bytes(onnx_text.model(text))
(folder / "w.bin").symlink_to("/etc/passwd")
