"""Service Quotas of instance types by use, and of the account.

A quota is 20 at first, or what SHARED says, and limits no job. A request for another value is
granted at once, and that limits training jobs. Names are AWS's, codes of instance types are not.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import botocore.session

from shoal_local.control.http.protocol import ApiCall
from shoal_local.control.identity.identity import Identity
from shoal_local.errors import AwsError

SERVICE, VPC, BUILDS = "sagemaker", "vpc", "codebuild"
NAMES = {
    SERVICE: "Amazon SageMaker",
    VPC: "Amazon Virtual Private Cloud (Amazon VPC)",
    BUILDS: "AWS CodeBuild",
}
DEFAULT_VALUE = 20.0
USES = (
    ("TrainingInstanceType", "training job usage"),
    ("TrainingInstanceType", "spot training job usage"),
    ("TrainingInstanceType", "training warm pool usage"),
    ("ProcessingInstanceType", "processing job usage"),
    ("TransformInstanceType", "transform job usage"),
    ("ProductionVariantInstanceType", "endpoint usage"),
)


SHARED = {
    SERVICE: {
        "Number of instances across all training jobs": ("L-00C91CB5", DEFAULT_VALUE),
        "Number of instances across all spot training jobs": ("L-93958082", DEFAULT_VALUE),
        "Maximum number of instances per training job": ("L-622CFD70", DEFAULT_VALUE),
        "Maximum number of instances per spot training job": ("L-DB62C864", DEFAULT_VALUE),
        "Longest run time for a training job": ("L-33A961FD", 432_000.0),
        "Size of EBS volume for a training job instance": ("L-C5A266EB", 1024.0),
        "Number of instances across all processing jobs": ("L-F311B08F", DEFAULT_VALUE),
        "Number of instances across all transform jobs": ("L-60D2A6F0", DEFAULT_VALUE),
        "Number of instances across active endpoints": ("L-7A3DF611", DEFAULT_VALUE),
        "Maximum number of instances per endpoint": ("L-ED8DEE9B", DEFAULT_VALUE),
        "Maximum total concurrency that can be allocated across all serverless endpoints": (
            "L-96300102",
            DEFAULT_VALUE,
        ),
    },
    VPC: {"VPCs per Region": ("L-F678F1CE", DEFAULT_VALUE)},
    BUILDS: {
        "Concurrently running builds for Linux/Large environment": ("L-4DDC4A99", DEFAULT_VALUE)
    },
}
"""Quotas that a whole account shares, by service and name: AWS's code, and the first value."""


@cache
def quotas_of(service: str) -> dict[str, tuple[str, float]]:
    """Return a service's quotas: name to code and first value.

    SageMaker has `ml.p4d.24xlarge for training job usage` and so on, for every instance type in the
    API model.
    """
    if service not in SHARED:
        message = f"Shoal's emulator has quotas of {', '.join(SHARED)} only, not {service}"
        raise AwsError("NoSuchResourceException", message)
    if service != SERVICE:
        return SHARED[service]
    model = botocore.session.Session().get_service_model(SERVICE)
    names = [
        f"{kind} for {use}"
        for shape, use in USES
        for kind in getattr(model.shape_for(shape), "enum", [])
    ]
    return {name: (code(name), DEFAULT_VALUE) for name in names} | SHARED[service]


def code(name: str) -> str:
    return "L-" + hashlib.sha256(name.encode()).hexdigest()[:8].upper()


@dataclass
class Quotas:
    """The account's quotas in this region."""

    identity: Identity
    capacity: Path | None = None
    _values: dict[tuple[str, str], float] = field(default_factory=dict)
    """What was granted, by service and name."""

    @property
    def operations(self) -> dict[str, Callable[[ApiCall], Mapping[str, Any]]]:
        """Return the handlers by operation; every other operation is refused."""
        return {"ListServiceQuotas": self._list, "RequestServiceQuotaIncrease": self._request}

    def limit(self, name: str, service: str = SERVICE) -> float | None:
        """Return the quota that was granted or that the capacity file has; None without either."""
        kind, _, use = name.partition(" for ")
        if self.capacity and use == "training job usage":
            row = json.loads(self.capacity.read_text(encoding="utf-8")).get(kind, {})
            if "quota" in row:
                return float(row["quota"])
        return self._values.get((service, name))

    def _list(self, call: ApiCall) -> Mapping[str, Any]:
        service = call.parameters["ServiceCode"]
        names = quotas_of(service)
        if call.parameters.get("NextToken"):  # there is one page
            message = "Invalid input was provided for NextToken."
            raise AwsError("InvalidPaginationTokenException", message)
        return {"Quotas": [self._quota(service, name) for name in names]}

    def _request(self, call: ApiCall) -> Mapping[str, Any]:
        service = call.parameters["ServiceCode"]
        code_, value = call.parameters["QuotaCode"], float(call.parameters["DesiredValue"])
        for name, (own_code, _) in quotas_of(service).items():
            if own_code == code_:
                self._values[service, name] = value
                answer = {"QuotaName": name, "QuotaCode": code_, "DesiredValue": value}
                return {"RequestedQuota": {**answer, "Status": "APPROVED"}}
        raise AwsError("NoSuchResourceException", f"There is no quota {code_}")

    def _quota(self, service: str, name: str) -> dict[str, Any]:
        code_, value = quotas_of(service)[name]
        limit = self.limit(name, service)
        return {
            "ServiceCode": service,
            "ServiceName": NAMES[service],
            "QuotaName": name,
            "QuotaCode": code_,
            "QuotaArn": self.identity.arn("servicequotas", f"{service}/{code_}"),
            "Value": value if limit is None else limit,
            "Unit": "None",
            "Adjustable": True,
            "GlobalQuota": False,
        }
