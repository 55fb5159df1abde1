"""The fields of Kubernetes' objects that deploy/ may use, with their types. Written by hand for this test, from the published
schemas (core and batch v1 of Kubernetes 1.34, jobset.x-k8s.io/v1alpha2, trainer.kubeflow.org/v1alpha1, kubeflow.org/v2beta1): a
part of them, so that a field that is not here may exist, and has to be looked up before it is added.

A dict is an object: its keys are the fields, `!` behind one that must be there. A list of one is a list of such; a type is a
value of it; a tuple is one of several words; AnyNames is an object with whatever keys, and values of this type.
"""
import re


class AnyNames:
    def __init__(self, value):
        self.value = value


LABELS = AnyNames(str)
QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?(m|k|Ki|M|Mi|G|Gi|T|Ti)?")
NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
PATH = re.compile(r"/[^:]*")
METADATA = {"name!": NAME, "labels": LABELS, "annotations": LABELS}
TEMPLATE_METADATA = {"labels": LABELS, "annotations": LABELS}

SECURITY = {"runAsNonRoot": bool, "runAsUser": int, "runAsGroup": int, "allowPrivilegeEscalation": bool,
            "readOnlyRootFilesystem": bool, "capabilities": {"drop": [str], "add": [str]},
            "seccompProfile": {"type!": ("RuntimeDefault", "Unconfined", "Localhost")}}
RESOURCES = {"limits": AnyNames(QUANTITY), "requests": AnyNames(QUANTITY)}
ENV = {"name!": str, "value": str,
       "valueFrom": {"fieldRef": {"fieldPath!": str}, "secretKeyRef": {"name!": NAME, "key!": str}}}
CONTAINER = {"name!": NAME, "image!": str, "command": [str], "args": [str], "env": [ENV], "resources": RESOURCES,
             "securityContext": SECURITY,
             "volumeMounts": [{"name!": NAME, "mountPath!": PATH, "readOnly": bool}]}
VOLUME = {"name!": NAME, "persistentVolumeClaim": {"claimName!": NAME, "readOnly": bool}, "emptyDir": {"medium": str},
          "secret": {"secretName!": NAME, "defaultMode": int}}
POD = {"containers!": [CONTAINER], "volumes": [VOLUME], "restartPolicy": ("Never", "OnFailure", "Always"),
       "terminationGracePeriodSeconds": int, "automountServiceAccountToken": bool, "enableServiceLinks": bool,
       "securityContext": {**{k: SECURITY[k] for k in ("runAsNonRoot", "runAsUser", "runAsGroup", "seccompProfile")},
                           "fsGroup": int}}
POD_TEMPLATE = {"metadata": TEMPLATE_METADATA, "spec!": POD}
JOB_TEMPLATE = {"metadata": TEMPLATE_METADATA,
                "spec!": {"parallelism": int, "completions": int, "completionMode": ("Indexed", "NonIndexed"),
                          "backoffLimit": int, "template!": POD_TEMPLATE}}
JOBSET_SPEC = {"failurePolicy": {"maxRestarts": int}, "network": {"subdomain": NAME, "publishNotReadyAddresses": bool},
               "replicatedJobs!": [{"name!": NAME, "replicas": int, "template!": JOB_TEMPLATE}]}
REPLICA = {"replicas": int, "restartPolicy": ("Never", "OnFailure", "Always", "ExitCode"), "template!": POD_TEMPLATE}

OBJECTS = {
    ("jobset.x-k8s.io/v1alpha2", "JobSet"): {"metadata!": METADATA, "spec!": JOBSET_SPEC},
    ("trainer.kubeflow.org/v1alpha1", "TrainingRuntime"): {
        "metadata!": METADATA,
        "spec!": {"mlPolicy": {"numNodes": int, "torch": {}}, "template!": {"metadata": TEMPLATE_METADATA, "spec": JOBSET_SPEC}}},
    ("trainer.kubeflow.org/v1alpha1", "TrainJob"): {
        "metadata!": METADATA,
        "spec!": {"runtimeRef!": {"apiGroup": str, "kind": ("TrainingRuntime", "ClusterTrainingRuntime"), "name!": NAME},
                  "trainer": {"image": str, "command": [str], "args": [str], "env": [ENV], "numNodes": int,
                              "numProcPerNode": int, "resourcesPerNode": RESOURCES}}},
    ("kubeflow.org/v2beta1", "MPIJob"): {
        "metadata!": METADATA,
        "spec!": {"slotsPerWorker": int, "sshAuthMountPath": PATH, "mpiImplementation": ("OpenMPI", "Intel", "MPICH"),
                  "launcherCreationPolicy": ("AtStartup", "WaitForWorkersReady"),
                  "runPolicy": {"cleanPodPolicy": ("All", "Running", "None"), "backoffLimit": int,
                                "ttlSecondsAfterFinished": int, "activeDeadlineSeconds": int},
                  "mpiReplicaSpecs!": {"Launcher!": REPLICA, "Worker!": REPLICA}}},
}


def faults(value, schema, where=""):
    """What of a value does not fit, a line each."""
    if isinstance(schema, AnyNames):
        if not isinstance(value, dict):
            return [f"{where}: expected an object"]
        return [fault for key, each in value.items() for fault in faults(each, schema.value, f"{where}/{key}")]
    if isinstance(schema, list):
        if not isinstance(value, list):
            return [f"{where}: expected a list"]
        return [fault for i, each in enumerate(value) for fault in faults(each, schema[0], f"{where}/{i}")]
    if isinstance(schema, tuple):
        return [] if value in schema else [f"{where}: found {value!r}, expected one of {', '.join(schema)}"]
    if isinstance(schema, re.Pattern):
        fits = isinstance(value, str) and schema.fullmatch(value)
        return [] if fits else [f"{where}: found {value!r}, expected text of the form {schema.pattern}"]
    if isinstance(schema, type):
        fits = isinstance(value, schema) and not (schema is int and isinstance(value, bool))
        return [] if fits else [f"{where}: found {value!r}, expected {schema.__name__}"]
    if not isinstance(value, dict):
        return [f"{where}: expected an object"]
    known = {key.rstrip("!"): each for key, each in schema.items()}
    found = [f"{where}: lacks {key[:-1]}" for key in schema if key.endswith("!") and key[:-1] not in value]
    for key, each in value.items():
        found += faults(each, known[key], f"{where}/{key}") if key in known else [f"{where}/{key}: is no field"]
    return found


def faults_of(document):
    kind = (document.get("apiVersion"), document.get("kind"))
    if kind not in OBJECTS:
        return [f"{kind} is no object that is known"]
    return faults(document, {"apiVersion!": str, "kind!": str, **OBJECTS[kind]})
