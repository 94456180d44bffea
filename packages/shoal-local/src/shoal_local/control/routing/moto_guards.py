"""Refuse what real clients send and moto answers with a 500 or with a success that is none.

Codes: the API references of the operations.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

from moto.backends import get_backend
from moto.ecr.models import ecr_backends

from shoal_local.control.http.protocol import ApiCall
from shoal_local.errors import AwsError

Guard = Callable[[ApiCall], None]


def _nat_gateway(call: ApiCall) -> None:
    id_ = call.parameters["NatGatewayId"]
    if id_ not in get_backend("ec2")[call.account][call.region].nat_gateways:
        raise AwsError("NatGatewayNotFound", f"The Nat Gateway {id_} was not found")


def _image(call: ApiCall) -> None:
    name = call.parameters["repositoryName"]
    if name not in ecr_backends[call.account][call.region].repositories:
        where = f"in the registry with id '{call.account}'"
        raise AwsError(
            "RepositoryNotFoundException",
            f"The repository with name '{name}' does not exist {where}",
        )
    manifest = call.parameters["imageManifest"].encode(errors="surrogatepass")
    digest = f"sha256:{hashlib.sha256(manifest).hexdigest()}"
    if call.parameters.get("imageDigest") not in {None, digest}:
        raise AwsError(
            "ImageDigestDoesNotMatchException",
            "The specified image digest does not match the digest that Amazon ECR calculated for"
            " the image.",
        )


def _alarm(call: ApiCall) -> None:
    """Refuse an alarm that lacks what it is evaluated by; kept, it would break DescribeAlarms."""
    alarm = call.parameters
    _require(alarm, *(("Namespace", "Period") if "MetricName" in alarm else ("Metrics",)))
    for query in alarm.get("Metrics") or []:
        if "MetricStat" in query:
            _require(query["MetricStat"].get("Metric", {}), "Namespace", "MetricName")
    if "ThresholdMetricId" not in alarm:
        _require(alarm, "Threshold")


def _require(parameters: Mapping[str, Any], *names: str) -> None:
    for name in names:
        if parameters.get(name) is None:
            raise AwsError("ValidationError", f"The parameter {name} is required.")


GUARDS: Mapping[str, Mapping[str, Guard]] = {
    "ec2": {"DeleteNatGateway": _nat_gateway},
    "ecr": {"PutImage": _image},
    "cloudwatch": {"PutMetricAlarm": _alarm},
}
