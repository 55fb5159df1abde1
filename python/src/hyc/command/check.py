"""hyc check: what is installed, and what it can do on this machine."""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib.metadata
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence

from .. import tools
from ..errors import HycError
from .arguments import Parser

_PROGRAM = """#include <cstdio>
#include <omp.h>
int main() {
  int threads = 0;
#pragma omp parallel reduction(+ : threads)
  threads += 1;
  std::printf("%d", threads);
}
"""
_SETS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")
_PACKAGES = ("torch", "transformers", "tokenizers", "datasets")


def _say(what: str, found: str) -> None:
    print(f"{what:<16}{found}")


def _first_line(command: Sequence[str]) -> str | None:
    """What a program says of itself; None where it does not run."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = done.stdout.strip().splitlines()
    return lines[0] if done.returncode == 0 and lines else None


def _compiler() -> str | None:
    """As hyc-compile looks for one."""
    for name in ("/usr/bin/c++", "c++", "g++", "clang++"):
        found = shutil.which(name)
        if found:
            return found
    return None


def _openmp(compiler: str) -> str | None:
    """Compiles and runs a parallel loop: the threads that it had, or None where that does not go."""
    with tempfile.TemporaryDirectory(prefix="hyc-check-") as folder:
        source, program = pathlib.Path(folder) / "check.cpp", pathlib.Path(folder) / "check"
        source.write_text(_PROGRAM)
        command = [compiler, "-std=c++17", "-fopenmp", str(source), "-o", str(program)]
        try:
            made = subprocess.run(command, capture_output=True, timeout=60, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return None
        return _first_line([str(program)]) if made.returncode == 0 else None


def _memory() -> str:
    values: dict[str, int] = {}
    for line in pathlib.Path("/proc/meminfo").read_text().splitlines():
        name, _, rest = line.partition(":")
        values[name] = int(rest.split()[0]) * 1024
    total, free = values["MemTotal"], values.get("MemAvailable", 0)
    return f"{total / 2**30:.1f} GiB, {free / 2**30:.1f} GiB of it available"


def _instructions() -> str:
    flags: set[str] = set()
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith(("flags", "Features")):
            flags = set(line.partition(":")[2].split())
            break
    return ", ".join(name for name in _SETS if name in flags) or "no AVX2: kernels run in their portable versions"


def _loads(name: str) -> bool:
    """Whether a shared library is there and loads."""
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


def _tool(name: str) -> str | None:
    try:
        return tools.find(name)
    except HycError:
        return None


def _check_tools() -> bool:
    whole = True
    for name in ("hyc-compile", "hyc-run", "hyc-checkpoint"):
        path = _tool(name)
        runs = path is not None and _first_line([path, "--help"]) is not None
        whole = whole and runs
        _say(name, f"{path}" if runs else ("not found" if path is None else f"{path} does not run here"))
    return whole


def _check_gpu() -> bool:
    devices = _first_line(["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader"])
    nvcc = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
    _say("GPU", devices or ("a driver, and no device that it tells" if _loads("libcuda.so.1") else "none"))
    _say("CUDA", nvcc or "no nvcc")
    _say("NCCL", "there" if _loads("libnccl.so.2") else "not found: GPUs exchange by way of the host (--comm shm)")
    return bool(devices and nvcc)


def main(words: Sequence[str] | None = None) -> int:
    """The command; also the console's hyc-check."""
    try:
        Parser("hyc check", __doc__ or "").parse_args(sys.argv[1:] if words is None else words)
    except HycError as error:
        print(f"hyc check: error: {error}", file=sys.stderr)
        return error.exit_status
    whole = _check_tools()
    compiler = _compiler()
    threads = _openmp(compiler) if compiler else None
    _say(
        "C++ compiler",
        (compiler and (_first_line([compiler, "--version"]) or compiler)) or "none: install g++ (12 or newer)",
    )
    _say("OpenMP", f"{threads} threads" if threads else "does not compile and run")
    _say("cores", str(len(os.sched_getaffinity(0))))
    _say("memory", _memory())
    _say("instructions", _instructions())
    has_gpu = _check_gpu()
    ssh, mpi = shutil.which("ssh"), shutil.which("mpirun")
    _say("ssh", ssh or "none: hyc-run --hostfile needs it")
    _say("MPI", mpi or "none; hyc needs it only where it starts the ranks")
    for package in _PACKAGES:
        found = importlib.util.find_spec(package) is not None
        _say(package, importlib.metadata.version(package) if found else "not installed")
    able = whole and threads is not None
    print()
    print("trains on CPUs: " + ("yes" if able else "no: see what is missing above"))
    print("trains on GPUs: " + ("yes, --target cuda" if able and has_gpu else "no"))
    print(
        "trains on several hosts: "
        + ("yes, by ssh" if able and ssh else "only under another launcher" if able else "no")
    )
    return 0 if able else 69
