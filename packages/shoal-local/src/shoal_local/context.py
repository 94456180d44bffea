"""What a service inside the emulator gets from the control plane.

Everything that a service does to another goes through here, over the AWS API.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shoal_local.faults import Faults
from shoal_local.processes import ProcessRegistry


@dataclass(frozen=True)
class Measurement:
    """A value of a metric, measured now.

    `unit` is CloudWatch's word for it: Count, Milliseconds, Microseconds, None ...
    """

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
    """Temporary credentials of an assumed role; the emulator maps them back to the role session's
    ARN.
    """

    access_key_id: str
    secret_access_key: str
    session_token: str


@dataclass(frozen=True)
class ServiceContext:
    """The control plane as a service sees it.

    - `clients(service_name, credentials)`: a boto3 client of the emulator's endpoint; None means
      the account's root.
    - `role_credentials(role_arn, session_name)`: AssumeRole as sagemaker.amazonaws.com; raises
      AwsError when the role is missing or its trust policy refuses.
    - `emit_event(entry)`: put `{"source", "detail-type", "detail", "resources"?}` on the default
      bus; returns before delivery.
    - `measure(measurements)`: values for CloudWatch, as the service itself publishes them.
    - `mount(file_system_id, directory, subnet_ids)`: the folder that shows a
      directory of an FSx file system to a host in that network; raises AwsError with the reason
      when the host could not mount it.
    - `model_package(arn)`: DescribeModelPackage of a version in any account; raises AwsError when
      it does not exist. Whether the caller may use it was checked with the request.
    - `processes`: where a service registers every process group, so that a crash leaves none.
    - `on_behalf(kind, name, request, credentials)`: what AWS does with a role's credentials for the
      resource `name` that `request` created (`training-job`, `processing-job`,
      `transform-job`, `model`); raises AwsError when the role may not.
    - `quota(name)`: the account's quota of SageMaker's with this name; None if none was set.
    - `faults`: faults on purpose; none unless the emulator was started with a file of them.
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
