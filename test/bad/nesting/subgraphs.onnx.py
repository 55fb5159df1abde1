# 5000 graphs as attributes of nodes in graphs.
import sys

import onnx_text

graph = onnx_text.text(2, "g")
for _ in range(5000):
    attribute = onnx_text.text(1, "body") + onnx_text.block(6, graph) + onnx_text.number(20, 5)
    graph = onnx_text.block(1, onnx_text.text(4, "If") + onnx_text.block(5, attribute))
sys.stdout.buffer.write(onnx_text.number(1, 8) + onnx_text.block(7, graph))
