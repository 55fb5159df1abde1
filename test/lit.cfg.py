# Configuration of the text tests: `.mlir` and `.test` files whose RUN lines drive the tools.
import os
import shutil

import lit.formats
from lit.llvm import llvm_config

config.name = "hyc"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs", "unit", "models", "bench", "CMakeLists.txt"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = config.hyc_test_dir

llvm_config.with_environment("PATH", config.llvm_tools_dir, append_path=True)
llvm_config.with_environment("PATH", config.hyc_tools_dir, append_path=True)
llvm_config.use_default_substitutions()
config.substitutions.append(("%models", os.path.join(config.test_source_root, "models")))
llvm_config.add_tool_substitutions(
    ["hyc-opt", "hyc-compile", "hyc-run", "not", "split-file"],
    [config.hyc_tools_dir, config.llvm_tools_dir])

# A browser, where there is one, opens pages that hyc writes.
if browser := shutil.which("chromium"):
    config.available_features.add("chromium")
    config.substitutions.append(
        ("%chromium", browser + " --headless --no-sandbox --disable-gpu --virtual-time-budget=5000"))
