"""Stand-ins for what starts ranks elsewhere: mpirun and srun as commands that set the variables which Open MPI 4.1 and Slurm 22.05
document, and start the ranks on this machine; scontrol, which only notes what it is asked.

    launchers.py mpirun|srun|scontrol ARGUMENTS…        slots a host: STAND_IN_SLOTS, what is noted: STAND_IN_NOTES
"""
import os
import pathlib
import subprocess
import sys


def start(program, variables):
    """All of them; the highest status."""
    ranks = [subprocess.Popen(program, env={**os.environ, **each}) for each in variables]
    return max(rank.wait() for rank in ranks)


def mpirun(words):
    slots, size, passed = int(os.environ["STAND_IN_SLOTS"]), None, {}
    while words[0].startswith("-"):
        option, value = words.pop(0), words.pop(0)
        if option == "-n":
            size = int(value)
        elif option == "-x":
            name, _, text = value.partition("=")
            passed[name] = text
        elif (option, value) != ("--bind-to", "none"):
            sys.exit(f"mpirun: {option} {value} is nothing that this stand-in knows")
    return start(words, [{**passed, "OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": str(size),
                          "OMPI_COMM_WORLD_LOCAL_RANK": str(rank % slots), "OMPI_COMM_WORLD_LOCAL_SIZE": str(slots),
                          "OMPI_COMM_WORLD_NODE_RANK": str(rank % slots)} for rank in range(size)])


def srun(words):
    nodes, slots = int(os.environ["SLURM_NNODES"]), int(os.environ["STAND_IN_SLOTS"])
    while words[0].startswith("-"):
        if words.pop(0) not in ("--kill-on-bad-exit=1", "--cpu-bind=none"):
            sys.exit("srun: an option that this stand-in does not know")
    step = {"SLURM_STEP_NODELIST": ",".join(["localhost"] * nodes), "SLURM_STEP_TASKS_PER_NODE": f"{slots}(x{nodes})",
            "SLURM_NTASKS": str(nodes * slots)}
    return start(words, [{**step, "SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank % slots),
                          "SLURM_NODEID": str(rank // slots)} for rank in range(nodes * slots)])


def scontrol(words):
    with pathlib.Path(os.environ["STAND_IN_NOTES"]).open("a") as notes:
        notes.write(" ".join(words) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit({"mpirun": mpirun, "srun": srun, "scontrol": scontrol}[sys.argv[1]](sys.argv[2:]))
