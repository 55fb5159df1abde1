#!/usr/bin/env python3
"""Runs the command lines of deploy/ as they stand there, in the environments that Kubernetes' controllers, mpirun and Slurm make,
on this machine with a small model: what is mounted is a folder here, and names of hosts are this one. The losses have to be those
of hyc-run. Neither Kubernetes nor Slurm takes part; Open MPI's own mpirun does where it is installed.

Usage: run_test.py BUILD_FOLDER MODELS_FOLDER SCRATCH_FOLDER DEPLOY_FOLDER
"""
import json
import os
import pathlib
import re
import secrets
import shutil
import socket
import subprocess
import sys
import time

try:
    import yaml
except ImportError:
    print("skipped: there is no PyYAML (python3-yaml)")
    sys.exit(77)

BUILD, MODELS, SCRATCH, DEPLOY = (pathlib.Path(word).resolve() for word in sys.argv[1:])
HERE = pathlib.Path(__file__).resolve().parent
BIN, STAND_INS, STEPS, SECONDS = BUILD / "bin", SCRATCH / "stand-ins", 5, 60


def run(words, variables=None, status=0):
    """With nothing of this test's own environment."""
    path = f"{STAND_INS}:{BIN}:/usr/local/bin:/usr/bin:/bin"
    environment = {"PATH": path, "HOME": str(SCRATCH), "OMP_WAIT_POLICY": "passive", **(variables or {})}
    done = subprocess.run([str(word) for word in words], env=environment, cwd=SCRATCH, text=True, timeout=SECONDS,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != status:
        sys.exit(f"{' '.join(map(str, words))}: status {done.returncode}, expected {status}:\n{done.stdout}")
    return done.stdout


def run_together(commands):
    """Each of (words, variables), as a pod of its own."""
    path = f"{STAND_INS}:{BIN}:/usr/local/bin:/usr/bin:/bin"
    pods = [subprocess.Popen([str(word) for word in words], cwd=SCRATCH, text=True, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, env={"PATH": path, "OMP_WAIT_POLICY": "passive", **variables})
            for words, variables in commands]
    said = [pod.communicate(timeout=SECONDS)[0] for pod in pods]
    if any(pod.returncode for pod in pods):
        sys.exit(f"status {[pod.returncode for pod in pods]}, expected 0:\n" + "\n".join(said))


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return str(one.getsockname()[1])


def losses(log):
    return [json.loads(line)["loss"] for line in log.read_text().splitlines() if '"loss"' in line]


class Job:
    """What a manifest's volumes hold: a folder for so many ranks, data, and a token."""

    def __init__(self, name, ranks):
        self.folder, self.ranks = SCRATCH / name, ranks
        self.job, self.log = self.folder / "job", self.folder / "log"
        self.job.mkdir(parents=True)
        shutil.copy(MODELS / "text.bin", self.job / "text.bin")
        (self.job / "out").symlink_to(compiled(ranks))
        self.token = self.folder / "token"
        self.token.touch(0o600)
        self.token.write_text(secrets.token_hex(32))

    def here(self, word, mounts):
        """A word of a manifest with its paths as they are here, fewer steps, and threads for a small machine."""
        for mounted, folder in mounts.items():
            word = re.sub(rf"(^|=){mounted}(?=/|$)", rf"\g<1>{folder}", word)
        return re.sub(r"^--steps=.*", f"--steps={STEPS}", word)

    def arguments(self, words, mounts):
        return [self.here(word, mounts) for word in words] + ["--threads=1", f"--log-file={self.log}"]

    def mounts(self, container, volumes):
        kinds = {volume["name"]: volume for volume in volumes}
        where = {}
        for mount in container["volumeMounts"]:
            volume = kinds[mount["name"]]
            where[mount["mountPath"]] = (self.job if "persistentVolumeClaim" in volume else
                                         self.folder if "secret" in volume else "/tmp")
        return where

    def check(self, what):
        found, expected = losses(self.log), losses(compiled(self.ranks).parent / f"log-{self.ranks}")
        if len(expected) != STEPS or found != expected:
            sys.exit(f"{what}: the losses are {found}, expected {expected}")
        steps = sorted(path.name for path in self.job.glob("checkpoints*/step-*"))
        if steps != [f"step-{STEPS}"]:
            sys.exit(f"{what}: there are checkpoints {steps}, expected one after the last step")
        print(f"{what}: {self.ranks} ranks, the losses of hyc-run")


def compiled(ranks):
    """The folder for so many ranks, and beside it the losses of hyc-run."""
    out = SCRATCH / f"out-{ranks}"
    if not out.exists():
        run([BIN / "hyc-compile", MODELS / "gpt2-tiny.onnx", "--loss", "cross_entropy", "--logits", "logits", "--labels", "labels",
             "--dp", ranks, "--micro-batch", 1, "--optimizer", "adamw", "--lr", "1e-3", "-o", out])
        run([BIN / "hyc-run", out, f"--data={MODELS / 'text.bin'}", f"--steps={STEPS}", "--threads=1",
             f"--log-file={SCRATCH / f'log-{ranks}'}"])
    return out


def load(name):
    return {document["kind"]: document for document in yaml.safe_load_all((DEPLOY / "kubernetes" / name).read_text())}


def jobset():
    document = load("jobset.yaml")["JobSet"]
    name, (replicated,) = document["metadata"]["name"], document["spec"]["replicatedJobs"]
    spec = replicated["template"]["spec"]
    (container,), volumes = spec["template"]["spec"]["containers"], spec["template"]["spec"]["volumes"]
    job = Job("jobset", spec["completions"])
    mounts, port = job.mounts(container, volumes), free_port()
    pods = []
    for index in range(spec["completions"]):
        variables = {}
        for variable in container["env"]:
            source = variable.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
            if source not in (None, "metadata.annotations['batch.kubernetes.io/job-completion-index']"):
                sys.exit(f"{source} is no field that a pod of an indexed job has")
            variables[variable["name"]] = str(index) if source else job.here(variable["value"], mounts)
        # As JobSet names pods in DNS: JOBSET-REPLICATEDJOB-JOB-POD.SUBDOMAIN, the last being the JobSet's name.
        if variables["MASTER_ADDR"] != f"{name}-{replicated['name']}-0-0.{name}":
            sys.exit(f"MASTER_ADDR is {variables['MASTER_ADDR']}, which is not the first pod")
        variables.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
        pods.append((container["command"] + job.arguments(container["args"], mounts), variables))
    run_together(pods)
    job.check("JobSet")


def trainjob():
    documents = load("trainjob.yaml")
    trainer = documents["TrainJob"]["spec"]["trainer"]
    (replicated,) = documents["TrainingRuntime"]["spec"]["template"]["spec"]["replicatedJobs"]
    pod = replicated["template"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    # The Trainer looks for these names, and gives their container the variables and the command.
    if (replicated["name"], container["name"]) != ("node", "node"):
        sys.exit("the runtime has no container 'node' in a job 'node'")
    job = Job("trainjob", trainer["numNodes"])
    mounts, port = job.mounts(container, pod["volumes"]), free_port()
    own = {variable["name"]: job.here(variable["value"], mounts) for variable in container["env"]}
    run_together([(trainer["command"] + job.arguments(trainer["args"], mounts),
                   {**own, "PET_NNODES": str(trainer["numNodes"]), "PET_NPROC_PER_NODE": "1", "PET_NODE_RANK": str(node),
                    "PET_MASTER_ADDR": "127.0.0.1", "PET_MASTER_PORT": port}) for node in range(trainer["numNodes"])])
    job.check("TrainJob")


def mpijob():
    document = load("mpijob.yaml")["MPIJob"]
    name, spec = document["metadata"]["name"], document["spec"]
    pods = {which: replica["template"]["spec"] for which, replica in spec["mpiReplicaSpecs"].items()}
    (launcher,), (worker,) = pods["Launcher"]["containers"], pods["Worker"]["containers"]
    words = launcher["command"] + launcher["args"]
    if int(words[words.index("-n") + 1]) != spec["slotsPerWorker"] * spec["mpiReplicaSpecs"]["Worker"]["replicas"]:
        sys.exit("mpirun's -n is not the number of slots")
    # As the operator names pods in DNS, of workers alone.
    if f"MASTER_ADDR={name}-worker-0.{name}" not in words:
        sys.exit("MASTER_ADDR is not the first worker")
    for real in (False, True):
        mpirun = shutil.which("mpirun.openmpi")
        if real and not mpirun:
            print("MPIJob: Open MPI's own mpirun is not installed, and was not tried")
            continue
        job = Job(f"mpijob-{real}", int(words[words.index("-n") + 1]))
        mounts, port = job.mounts(worker, pods["Worker"]["volumes"]), free_port()
        command = [job.here(word, mounts).replace("=29500", f"={port}") for word in words]
        command = [re.sub(r"^MASTER_ADDR=.*", "MASTER_ADDR=127.0.0.1", word) for word in command]
        # What Open MPI asks for where it is root's, and ranks are more than cores.
        if real:
            command[:1] = [mpirun, "--allow-run-as-root", "--oversubscribe"]
        run(command + ["--threads=1", f"--log-file={job.log}"], {"STAND_IN_SLOTS": str(spec["slotsPerWorker"])})
        job.check("MPIJob, by Open MPI's own mpirun on one host" if real else "MPIJob")


def slurm():
    script, job = DEPLOY / "slurm/train.sbatch", Job("slurm", 4)
    notes = job.folder / "notes"
    variables = {"SLURM_JOB_ID": str(os.getpid()), "SLURM_JOB_NAME": "hyc-train", "SLURM_SUBMIT_DIR": str(job.job),
                 "SLURM_NNODES": "2", "STAND_IN_SLOTS": "2", "STAND_IN_NOTES": str(notes)}
    words = ["bash", script, job.job / "out", job.job / "text.bin", "--threads=1"]
    run([*words, f"--steps={STEPS}", f"--log-file={job.log}"], variables)
    job.check("Slurm")
    # A job whose time is up is queued again, and goes on.
    ends = {**variables, "SLURM_JOB_NAME": "longer", "SLURM_JOB_END_TIME": str(int(time.time()) + 4)}
    said = run([*words, "--steps=1000000000", f"--log-file={job.folder / 'longer'}"], ends, status=75)
    if notes.read_text() != f"requeue {variables['SLURM_JOB_ID']}\n":
        sys.exit(f"the job was not queued again:\n{said}")
    first = len(losses(job.folder / "longer"))
    run([*words, f"--steps={first + 1}", f"--log-file={job.folder / 'resumed'}"], {**ends, "SLURM_JOB_END_TIME": "4000000000"})
    if len(losses(job.folder / "resumed")) != 1:
        sys.exit("the job that was queued again did not go on after its last step")
    if list(job.job.glob(".hyc-token*")):
        sys.exit("the job has left its token behind")
    print(f"Slurm: queued again after step {first}, and went on")


def main():
    shutil.rmtree(SCRATCH, ignore_errors=True)
    STAND_INS.mkdir(parents=True)
    for name in ("mpirun", "srun", "scontrol"):
        (STAND_INS / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" "{HERE}/launchers.py" {name} "$@"\n')
        (STAND_INS / name).chmod(0o755)
    for each in (jobset, trainjob, mpijob, slurm):
        each()


if __name__ == "__main__":
    main()
