"""Checks of a CreateTrainingJob request: what is not emulated is refused by name before anything
starts.
"""

import re
import sys
from pathlib import Path

from shoal_local.runtimes.catalog import image
from shoal_local.sagemaker.container.launch import networks_refused
from shoal_local.sagemaker.errors import not_emulated
from shoal_local.sagemaker.jobs.base.channels import check_channel
from shoal_local.sagemaker.jobs.base.containers import MAX_HOSTS
from shoal_local.sagemaker.jobs.base.files import HostPaths
from shoal_local.sagemaker.jobs.training.capacity import candidates
from shoal_local.sagemaker.jobs.training.metrics import compile_regex
from shoal_local.sagemaker.shapes import Document

_TRACKING, _INDEX = "MLFLOW_TRACKING_URI", "PIP_INDEX_URL"
_ONLY_KEPT = (
    *("DebugHookConfig", "ProfilerConfig"),  # which SageMaker's SDK v2 sends with every job
    *("MlflowConfig", "InfraCheckConfig", "RemoteDebugConfig"),  # nothing here uses them
)

_LOOPBACK = re.compile(r"http://(?:127\.0\.0\.1|localhost)(?::([1-9]\d{0,4}))?(?:/|$)")


def check_training(request: Document) -> None:
    """Raise AwsError for what is wrong or not emulated, whether its image has a runtime or not."""
    for definition in request["AlgorithmSpecification"].get("MetricDefinitions", []):
        compile_regex(definition)
    for channel in request.get("InputDataConfig", []):
        check_channel(channel, request)
    _check_resources(request)
    if "CheckpointConfig" in request:
        path = request["CheckpointConfig"].get("LocalPath", "/opt/ml/checkpoints")
        HostPaths(Path()).path_of(path)
    _check_script(request)


def _check_script(request: Document) -> None:
    """Raise AwsError if the image would run an algorithm of its own, which is not here."""
    algorithm = request["AlgorithmSpecification"]
    entry = image(algorithm["TrainingImage"], "training")
    has_program = "sagemaker_program" in request.get("HyperParameters", {})
    if entry and entry.needs_script and not has_program and "ContainerEntrypoint" not in algorithm:
        raise not_emulated(
            f"the built-in algorithm of {algorithm['TrainingImage']}; {entry.framework} trains"
            " here with a script of yours (script mode, the hyperparameter sagemaker_program)"
        )


def kept_notice(request: Document) -> str:
    """Return the line that says which fields are described and do nothing; "" without any."""
    fields = [field for field in _ONLY_KEPT if request.get(field)]
    if request.get("ProfilerConfig", {}).get("DisableProfiler"):
        fields.remove("ProfilerConfig")
    fields += sorted(request.get("Environment", {}).keys() - variables_of(request).keys())
    return f"{' and '.join(fields)}: nothing is recorded here" if fields else ""


def variables_of(request: Document) -> Document:
    """Return the variables that the request gives to its containers; no managed MLflow is here."""
    variables = request.get("Environment", {})
    is_managed = str(variables.get(_TRACKING)).startswith("arn:")
    return {name: text for name, text in variables.items() if name != _TRACKING or not is_managed}


def named_ports(request: Document) -> list[int]:
    """Return the ports of this machine's loopback where the job tracks, and pip's index is."""
    variables = variables_of(request)
    found = (_LOOPBACK.match(variables.get(name, "")) for name in (_TRACKING, _INDEX))
    ports = (int(each[1] or 80) for each in found if each)
    return [port for port in ports if 0 < port < 65536]


def pip_variables(request: Document, home: str) -> dict[str, str]:
    """Return what lets pip install from an index on loopback into the container."""
    if not _LOOPBACK.match(request.get("Environment", {}).get(_INDEX, "")):
        return {}
    prefix, version = f"{home}/packages", "{}.{}".format(*sys.version_info)
    return {"PIP_PREFIX": prefix, "PYTHONPATH": f"{prefix}/lib/python{version}/site-packages"}


def _check_resources(request: Document) -> None:
    asked = candidates(request)
    for each in asked:
        if each.instance_type.split(".")[1].startswith(("trn", "inf")):
            raise not_emulated(f"AWS Neuron devices ({each.instance_type})")
    if any(each.count > MAX_HOSTS for each in asked):
        raise not_emulated(f"a job of more than {MAX_HOSTS} hosts")
    if any(each.count > 1 for each in asked) and (reason := networks_refused()):
        raise not_emulated(
            "several hosts on this machine: each needs its own /opt/ml and its own network, and"
            f" that is refused ({reason})"
        )
