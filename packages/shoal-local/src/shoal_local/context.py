"""What a service inside the emulator gets from the control plane.

Everything that a service does to another goes through here, over the AWS API.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shoal_local.faults import Faults
from shoal_local.processes import ProcessRegistry


@dataclass(frozen=True)
class Measurement:
    """A value measured now; `unit` as CloudWatch writes it: Count, Milliseconds, None ..."""

    namespace: str
    name: str
    value: float
    unit: str = "None"
    dimensions: Mapping[str, str] = field(default_factory=dict)

    def datum(self) -> dict[str, Any]:
        """Return the measurement as a member of PutMetricData's MetricData."""
        return {
            "MetricName": self.name,
            "Value": self.value,
            "Unit": self.unit,
            "Dimensions": [
                {"Name": name, "Value": value} for name, value in self.dimensions.items()
            ],
        }


Measure = Callable[[Iterable[Measurement]], None]


@dataclass(frozen=True)
class RoleCredentials:
    """Temporary credentials of an assumed role; the emulator knows its session by them."""

    access_key_id: str
    secret_access_key: str
    session_token: str


@dataclass(frozen=True)
class ServiceContext:
    """The control plane as a service sees it.

    - `clients(service_name, credentials)`: a boto3 client; None means the account's root.
    - `role_credentials(role_arn, session_name)`: AssumeRole as sagemaker.amazonaws.com.
    - `emit_event(entry)`: put an event on the default bus; returns before delivery.
    - `mount(file_system_id, directory, subnet_ids)`: the folder that shows a directory of FSx.
    - `model_package(arn)`: DescribeModelPackage in any account, without asking IAM.
    - `on_behalf(kind, name, request, credentials)`: what AWS does with a role's credentials for the
      resource `name` that `request` created (`training-job`, `model`, ...).
    - `quota(name)`: the account's quota of SageMaker's with this name; None if none was set.

    Each raises AwsError for what may not or cannot be.
    """

    account: str
    region: str
    state_dir: Path
    processes: ProcessRegistry
    endpoint_url: Callable[[], str]
    clients: Callable[[str, RoleCredentials | None], Any]
    emit_event: Callable[[Mapping[str, Any]], None]
    role_credentials: Callable[[str, str], RoleCredentials]
    measure: Measure
    mount: Callable[[str, str, Sequence[str]], Path]
    on_behalf: Callable[[str, str, Mapping[str, Any], RoleCredentials], None]
    model_package: Callable[[str], Mapping[str, Any]]
    quota: Callable[[str], float | None]
    faults: Faults = field(default_factory=Faults)
