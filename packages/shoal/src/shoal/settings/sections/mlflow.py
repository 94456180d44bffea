"""The section `mlflow` of an environment file: where trainings track while they run."""

from collections.abc import Iterator
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import Field

from shoal.settings.parsing.base import Settings
from shoal.settings.parsing.errors import Problem
from shoal.settings.sections.network import InterfaceEndpoint, Network

# botocore, sagemaker MlFlowResourceArn, of the partition that this project knows
MlflowArn = Annotated[
    str,
    Field(
        pattern=r"^arn:aws:sagemaker:[a-z0-9-]+:[0-9]{12}:mlflow-(app|tracking-server)/[A-Za-z0-9-]+$"
    ),
]
TrackingUri = Annotated[
    str, Field(pattern=r"^https?://[A-Za-z0-9._-]+(:[0-9]{1,5})?(/[^\s?#@]*)?$")
]


class Mlflow(Settings):
    """Where trainings track: one key says it."""

    arn: MlflowArn | None = None
    """An App's of SageMaker's, or a tracking server's."""
    tracking_uri: TrackingUri | None = None
    """A server of yours; one on loopback is for this machine only."""
    create: bool = False
    """Make a serverless App; its files are in the artifact bucket."""

    @property
    def is_app(self) -> bool:
        """Whether it is a serverless App, there already or to be made."""
        return self.create or bool(self.arn and ":mlflow-app/" in self.arn)

    @property
    def is_local(self) -> bool:
        """Whether it is a server on this machine's loopback, which shoal-local's jobs reach."""
        return urlsplit(self.tracking_uri or "").hostname in ("127.0.0.1", "localhost")

    @property
    def services(self) -> tuple[InterfaceEndpoint, ...]:
        """Return what a VPC without another way needs an endpoint for."""
        return (InterfaceEndpoint.EXPERIMENTS,) if self.arn and not self.is_app else ()


def problems(mlflow: Mlflow | None, network: Network, *place: str) -> Iterator[Problem]:
    """Yield what is wrong with the section of an environment in `place`, region and account."""
    if mlflow is None or not mlflow.model_fields_set:  # or its only key is wrong, which is told
        return
    named = [key for key in ("arn", "tracking_uri", "create") if getattr(mlflow, key)]
    if len(named) != 1:
        message = f"has {' and '.join(named)}" if named else "names no server"
        advice = "write one of arn, tracking_uri and `create: true`"
        yield Problem("mlflow", message, advice)
        return
    if mlflow.arn and mlflow.arn.split(":")[3:5] != [*place]:
        message = f"is not in {' of account '.join(place)}, where the trainings run"
        yield Problem("mlflow.arn", message, "name one that is there, or write `create: true`")
    if mlflow.is_app and not network.has_way:
        message = "is out of reach: AWS documents no interface endpoint for MLflow Apps"
        advice = "set network.nat: true, or name a tracking server's ARN"
        yield Problem(f"mlflow.{named[0]}", message, advice, related=("network",))
    uri, existing = urlsplit(mlflow.tracking_uri or ""), network.existing
    is_open = uri.scheme == "https" and uri.netloc.partition(":")[2] in ("", "443")
    is_open = is_open or bool(existing and existing.training_security_group_id)
    if mlflow.tracking_uri and not mlflow.is_local and not (network.has_way and is_open):
        message = "is out of reach: training nodes have a way to port 443, and only with a NAT"
        advice = (
            "serve it at https:// and set network.nat, or name a network of yours and its group"
        )
        yield Problem("mlflow.tracking_uri", message, advice, related=("network",))
