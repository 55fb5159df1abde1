#!/usr/bin/env python3
"""Holds deploy/ to what reads it: Kubernetes' manifests by their fields (kubernetes_fields.py), and by what they name among each
other; the Dockerfile by its stages; the batch script by its directives. And each rule to a copy that breaks it.

Usage: schema_test.py DEPLOY_FOLDER
"""
import copy
import pathlib
import re
import subprocess
import sys

try:
    import yaml
except ImportError:
    print("skipped: there is no PyYAML (python3-yaml)")
    sys.exit(77)

sys.dont_write_bytecode = True
from kubernetes_fields import faults_of  # noqa: E402


def pods_of(value):
    if isinstance(value, dict):
        if "containers" in value:
            yield value
        for each in value.values():
            yield from pods_of(each)
    elif isinstance(value, list):
        for each in value:
            yield from pods_of(each)


def faults_of_pod(pod):
    """What an admission that restricts pods would refuse, and names that lead nowhere."""
    volumes = {volume["name"] for volume in pod.get("volumes", [])}
    context = pod.get("securityContext", {})
    if not context.get("runAsNonRoot") or context.get("runAsUser", 0) == 0:
        yield "the pod may run as root"
    if context.get("seccompProfile", {}).get("type") != "RuntimeDefault":
        yield "the pod has no seccomp profile"
    for container in pod["containers"]:
        own = container.get("securityContext", {})
        if own.get("allowPrivilegeEscalation") is not False or own.get("capabilities", {}).get("drop") != ["ALL"]:
            yield f"container {container['name']} may gain privileges"
        mounted = {mount["name"] for mount in container.get("volumeMounts", [])}
        yield from (f"volume {name} is mounted and is none" for name in sorted(mounted - volumes))
        yield from (f"volume {name} is not mounted" for name in sorted(volumes - mounted))
        for variable in container.get("env", []):
            if variable["name"] == "HYC_TOKEN":
                yield "the token stands in the manifest"
    for volume in pod.get("volumes", []):
        if "secret" in volume and volume["secret"].get("defaultMode", 0o644) & 0o037:
            yield f"volume {volume['name']}: others may read the secret, which ranks refuse"


def faults_of_file(documents):
    found = [fault for document in documents for fault in faults_of(document)]
    if not found:
        found = [fault for document in documents for pod in pods_of(document) for fault in faults_of_pod(pod)]
    runtimes = {d["metadata"]["name"] for d in documents if d.get("kind") == "TrainingRuntime"}
    for document in documents:
        if document.get("kind") == "TrainJob" and document["spec"]["runtimeRef"]["name"] not in runtimes:
            found.append("the TrainJob's runtime is not in its file")
    return found


def breakages(documents):
    """Copies with one thing wrong each."""
    def broken(change):
        each = copy.deepcopy(documents)
        change(each)
        return each

    def pod(each):
        return next(pods_of(each))

    yield "a misspelt field", broken(lambda d: pod(d).update(terminationGracePeriodSecond=5))
    yield "a number for text", broken(lambda d: pod(d)["containers"][0].update(image=5))
    yield "a volume that is none", broken(lambda d: pod(d)["containers"][0].setdefault("volumeMounts", []).append(
        {"name": "none", "mountPath": "/none"}))
    yield "root", broken(lambda d: pod(d)["securityContext"].update(runAsUser=0))
    yield "no container", broken(lambda d: pod(d).update(containers=[{}]))
    yield "another version", broken(lambda d: d[0].update(apiVersion="v1"))


def check_manifests(folder):
    files = sorted(folder.glob("*.yaml"))
    kinds = set()
    for file in files:
        documents = list(yaml.safe_load_all(file.read_text()))
        yield from (f"{file.name}: {fault}" for fault in faults_of_file(documents))
        kinds |= {document["kind"] for document in documents}
        yield from (f"{file.name}: {what} is not noticed" for what, each in breakages(documents) if not faults_of_file(each))
    missing = {"JobSet", "TrainJob", "MPIJob"} - kinds
    if missing:
        yield f"there is no {', '.join(sorted(missing))}"


def instructions(text):
    for line in re.sub(r"\\\n", " ", re.sub(r"(?m)^\s*#.*\n", "", text)).splitlines():
        if line.strip():
            word, _, rest = line.strip().partition(" ")
            yield word, rest.strip()


KNOWN = {"FROM", "RUN", "COPY", "WORKDIR", "USER", "ENTRYPOINT", "CMD", "ENV", "ARG"}


def faults_of_dockerfile(text, root):
    stages, stage = {}, None
    for word, rest in instructions(text):
        if word not in KNOWN:
            yield f"{word} is no instruction that is known"
        elif word == "FROM":
            match = re.fullmatch(r"(\S+) AS (\S+)", rest)
            if not match:
                yield f"FROM {rest} names no stage"
                continue
            base, stage = match.groups()
            stages[stage] = {"user": stages[base]["user"] if base in stages else "root", "base": base}
        elif stage is None:
            yield f"{word} stands before FROM"
        elif word == "USER":
            stages[stage]["user"] = rest
        elif word == "COPY":
            source = re.match(r"--from=(\S+)", rest)
            if source and source[1] not in stages:
                yield f"COPY takes from {source[1]}, which is no stage before it"
            if not source:
                yield from (f"COPY: there is no {path}" for path in rest.split()[:-1] if not (root / path).exists())
    if len(stages) < 2:
        yield "there is one stage alone"
    used = {each["base"] for each in stages.values()} | set(re.findall(r"--from=(\S+)", text))
    for name, each in stages.items():
        if name not in used and not re.fullmatch(r"[1-9][0-9]*:[1-9][0-9]*", each["user"]):
            yield f"stage {name} runs as {each['user']}, expected a user by number that is not root"


def check_dockerfile(file):
    text, root = file.read_text(), file.parent.parent
    yield from (f"Dockerfile: {fault}" for fault in faults_of_dockerfile(text, root))
    for what, each in [("root", text.replace("USER 1000:1000", "USER root")), ("a stage that is none", text.replace(
            "--from=build", "--from=built")), ("a file that is none", text.replace("sshd_config /", "sshd_configs /"))]:
        if not list(faults_of_dockerfile(each, root)):
            yield f"Dockerfile: {what} is not noticed"


# Of sbatch(1), version 22.05.
DIRECTIVES = {"job-name": ".+", "nodes": "[0-9]+", "ntasks-per-node": "[0-9]+", "cpus-per-task": "[0-9]+",
              "time": r"([0-9]+-)?[0-9]+(:[0-9]{2}){0,2}", "requeue": "", "open-mode": "append|truncate"}


def faults_of_script(text):
    lines = text.splitlines()
    first = next(i for i, line in enumerate(lines) if line and not line.startswith("#"))
    for number, line in enumerate(lines, 1):
        if not line.startswith("#SBATCH"):
            continue
        match = re.fullmatch(r"#SBATCH --([a-z-]+)(?:=(\S+))?", line)
        if not match or match[1] not in DIRECTIVES or not re.fullmatch(DIRECTIVES[match[1]], match[2] or ""):
            yield f"line {number}: '{line}' is no directive that is known"
        if number > first:
            yield f"line {number}: a directive behind the first command is not read"
    checked = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True)
    if checked.returncode:
        yield checked.stderr.strip()


def check_script(file):
    text = file.read_text()
    yield from (f"{file.name}: {fault}" for fault in faults_of_script(text))
    for what, each in [("an unknown directive", text.replace("--nodes=", "--node-count=")),
                       ("a directive that is too late", text + "#SBATCH --requeue\n"),
                       ("what bash cannot read", text + "if\n")]:
        if not list(faults_of_script(each)):
            yield f"{file.name}: {what} is not noticed"


def main():
    folder = pathlib.Path(sys.argv[1])
    found = [*check_manifests(folder / "kubernetes"), *check_dockerfile(folder / "Dockerfile"),
             *check_script(folder / "slurm/train.sbatch")]
    print("\n".join(found) or "deploy/ fits")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
