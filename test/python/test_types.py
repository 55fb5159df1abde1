"""The package's types: mypy is content with it, and finds what a caller gets wrong by them alone."""

import shutil
import subprocess
import sys

import pytest
from conftest import ROOT

pytest.importorskip("mypy")
PYTHON = ROOT / "python"

USE = """\
import hyc

job = hyc.compile("folder", tp=2)
losses: list[float] = job.train("tokens.bin", on_step=lambda step: print(step.loss)).losses
stages: int = len(job.memory.stages)
"""
MISUSE = """\
import hyc

hyc.compile("folder", loss=3)
hyc.compile("folder").train("tokens.bin", steps="many")
hyc.compile("folder").plan.tq
"""


def mypy(*arguments, **more):
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "--cache-dir=/dev/null", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, **more)


def test_the_package_is_typed_throughout(tmp_path):
    shutil.copytree(PYTHON, tmp_path / "python", ignore=shutil.ignore_patterns("__pycache__"))
    done = mypy("--config-file", "pyproject.toml", cwd=tmp_path / "python")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_caller_is_checked(tmp_path):
    (tmp_path / "use.py").write_text(USE)
    (tmp_path / "misuse.py").write_text(MISUSE)
    (tmp_path / "mypy.ini").write_text(
        f"[mypy]\nmypy_path = {PYTHON / 'src'}\n[mypy-torch.*,numpy.*,safetensors.*,transformers.*,tokenizers.*]\n"
        "ignore_missing_imports = True\nfollow_imports = skip\n"
    )
    done = mypy("use.py", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    found = mypy("misuse.py", cwd=tmp_path).stdout
    for line, says in ((3, '"loss"'), (4, '"steps"'), (5, '"tq"')):
        assert any(each.startswith(f"misuse.py:{line}:") and says in each for each in found.splitlines()), found
