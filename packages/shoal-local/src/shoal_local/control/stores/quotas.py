"""Service Quotas for SageMaker: one quota per instance type and use, under AWS's names.

No quota limits a job: this machine does. Every quota is 20 at first; a request for another value is
granted at once. The codes are derived from the names and differ from AWS's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import botocore.session

from shoal_local.control.http.protocol import ApiCall
from shoal_local.control.identity.identity import Identity
from shoal_local.errors import AwsError

SERVICE = "sagemaker"
DEFAULT_VALUE = 20.0
USES = (
    ("TrainingInstanceType", "training job usage"),
    ("TrainingInstanceType", "spot training job usage"),
    ("ProcessingInstanceType", "processing job usage"),
    ("ProductionVariantInstanceType", "endpoint usage"),
)


@cache
def quota_names() -> tuple[str, ...]:
    """Return `ml.p4d.24xlarge for training job usage` and so on, for every instance type in the API
    model.
    """
    model = botocore.session.Session().get_service_model(SERVICE)
    return tuple(
        f"{kind} for {use}"
        for shape, use in USES
        for kind in getattr(model.shape_for(shape), "enum", [])
    )


def code(name: str) -> str:
    return "L-" + hashlib.sha256(name.encode()).hexdigest()[:8].upper()


@dataclass
class Quotas:
    """The account's quotas in this region."""

    identity: Identity
    _values: dict[str, float] = field(default_factory=dict)

    @property
    def operations(self) -> dict[str, Callable[[ApiCall], Mapping[str, Any]]]:
        """Return the handlers by operation; every other operation is refused."""
        return {"ListServiceQuotas": self._list, "RequestServiceQuotaIncrease": self._request}

    def _list(self, call: ApiCall) -> Mapping[str, Any]:
        _check_service(call)
        if call.parameters.get("NextToken"):  # there is one page
            message = "Invalid input was provided for NextToken."
            raise AwsError("InvalidPaginationTokenException", message)
        return {"Quotas": [self._quota(name) for name in quota_names()]}

    def _request(self, call: ApiCall) -> Mapping[str, Any]:
        _check_service(call)
        code_, value = call.parameters["QuotaCode"], float(call.parameters["DesiredValue"])
        for name in quota_names():
            if code(name) == code_:
                self._values[name] = value
                answer = {"QuotaName": name, "QuotaCode": code_, "DesiredValue": value}
                return {"RequestedQuota": {**answer, "Status": "APPROVED"}}
        raise AwsError("NoSuchResourceException", f"There is no quota {code_}")

    def _quota(self, name: str) -> dict[str, Any]:
        where = f"{self.identity.region}:{self.identity.account}"
        return {
            "ServiceCode": SERVICE,
            "ServiceName": "Amazon SageMaker",
            "QuotaName": name,
            "QuotaCode": code(name),
            "QuotaArn": f"arn:aws:servicequotas:{where}:{SERVICE}/{code(name)}",
            "Value": self._values.get(name, DEFAULT_VALUE),
            "Unit": "None",
            "Adjustable": True,
            "GlobalQuota": False,
        }


def _check_service(call: ApiCall) -> None:
    service = call.parameters["ServiceCode"]
    if service != SERVICE:
        message = f"Shoal's emulator has quotas of {SERVICE} only, not {service}"
        raise AwsError("NoSuchResourceException", message)
