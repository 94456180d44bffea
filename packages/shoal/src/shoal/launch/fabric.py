"""What EFA needs: addresses in the training subnet, and environment variables (fabric.yaml)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from shoal.launch.mpi_options import variables_in
from shoal.launch.tables import table_of
from shoal.settings.parsing.errors import Problem, Risk
from shoal.settings.settings import Training

PROVIDER = "FI_PROVIDER"
REQUIRE = "SHOAL_REQUIRE_EFA"
"""The variable by which a script knows that it has to prove EFA, or end."""
_NETWORK = "NCCL_NET"
_NETWORKS = ("AWS Libfabric", "Libfabric", "OFI")
"""Names of aws-ofi-nccl's network, over the years; NCCL compares without case."""


def efa_instance_types() -> tuple[str, ...]:
    return tuple(table_of("fabric")["instance_types"])


def has_efa(instance_type: str) -> bool:
    return instance_type in table_of("fabric")["instance_types"]


def addresses_per_node(instance_type: str) -> int:
    """Return how many private addresses to keep free for each training node of this type."""
    row = table_of("fabric")["instance_types"].get(instance_type, table_of("fabric")["without_efa"])
    return int(row["addresses"])


def variables(instance_type: str) -> dict[str, str]:
    """Return the environment variables that EFA needs in the training container.

    None without EFA.
    """
    if not has_efa(instance_type):
        return {}
    family = instance_type.split(".")[1]
    return {
        row["name"]: row["value"]
        for row in table_of("fabric")["variables"]
        if re.match(row["families"], family)
    }


def environment(training: Training) -> dict[str, str]:
    """Return the training container's environment.

    What EFA needs comes first, the environment file over it, and last what is required.
    """
    required = {REQUIRE: "1"} if training.require_efa else {}
    return variables(training.instance_type) | training.environment | required


def problems(training: Training, *, is_looked_at: bool) -> Iterator[Problem]:
    """Yield why a job that requires EFA would always fail, or why nothing would look."""
    if not training.require_efa:
        return
    key, types = "training.require_efa", efa_instance_types()
    if not has_efa(training.instance_type):
        message = (
            f"{training.instance_type} has no EFA; instance types with EFA are"
            f" {', '.join(types[:3])} and {len(types) - 3} others"
        )
        advice = "choose one of them, or leave require_efa out"
        yield Problem(key, message, advice, True, ("training.instance_type",))
    elif not is_looked_at:
        message = (
            f"nothing in the job would look which network it uses: our watch does in PyTorch's"
            f" images with Python 3.9 or later, and no script in {training.source_dir} reads"
            f" {REQUIRE}"
        )
        advice = "let a script look (`shoal docs bring-your-model`), or leave require_efa out"
        related = ("training.source_dir", "training.framework")
        yield Problem(key, message, advice, True, related)
    else:
        places = [
            (f"training.environment.{name}", name, f"= {value}")
            for name, value in _opposing(training.environment)
        ]
        places += [
            ("training.custom_mpi_options", name, f"-x {name}={value}")
            for name, value in _opposing(variables_in(training.custom_mpi_options))
        ]
        for where, name, setting in places:
            message = f"{where} {setting} keeps the traffic off EFA, so the job would always fail"
            advice = f"remove {name}, or leave require_efa out"
            yield Problem(key, message, advice, True, (where,))


def _opposing(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield name and value of each variable with which no job could prove that it uses EFA."""
    if (provider := environment.get(PROVIDER, "efa")) != "efa":
        yield PROVIDER, provider
    if (network := environment.get(_NETWORK, "OFI")).lower() not in map(str.lower, _NETWORKS):
        yield _NETWORK, network


def notices(training: Training) -> Iterator[str]:
    """Yield where the environment file contradicts what EFA needs."""
    for name, needed in variables(training.instance_type).items():
        value = training.environment.get(name, needed)
        if value != needed:
            yield Risk(
                f"training.environment.{name} = {value} replaces {needed}, which"
                f" {training.instance_type} needs for its traffic to go over EFA"
            )
    if training.environment.get(PROVIDER) == "efa" and not has_efa(training.instance_type):
        yield Risk(
            f"training.environment.{PROVIDER} = efa: {training.instance_type} has no EFA, so"
            " libfabric would find no provider"
        )
