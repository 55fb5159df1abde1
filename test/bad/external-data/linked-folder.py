# A folder whose weights are in a folder that is a link to another.
import pathlib
import sys

import onnx_text

folder = pathlib.Path(sys.argv[1])
folder.mkdir()
text = "input x float[2, 4]\nvalue w float[4, 3] external location=in/passwd\ny = MatMul(x, w)\noutput y\n"
(folder / "model.onnx").write_bytes(onnx_text.model(text))
(folder / "in").symlink_to("/etc")
