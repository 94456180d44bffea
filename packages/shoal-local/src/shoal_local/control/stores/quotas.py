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
PAGE_SIZE = 100
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
        return {
            "ListServiceQuotas": self._list,
            "GetServiceQuota": self._get,
            "RequestServiceQuotaIncrease": self._request,
        }

    def _list(self, call: ApiCall) -> Mapping[str, Any]:
        self._check_service(call)
        token = call.parameters.get("NextToken") or "0"
        if not token.isdecimal():
            raise AwsError(
                "InvalidPaginationTokenException", "Invalid input was provided for NextToken."
            )
        names, start = quota_names(), int(token)
        size = int(call.parameters.get("MaxResults") or PAGE_SIZE)
        next_page = {"NextToken": str(start + size)} if start + size < len(names) else {}
        return {"Quotas": [self._quota(name) for name in names[start : start + size]], **next_page}

    def _get(self, call: ApiCall) -> Mapping[str, Any]:
        return {"Quota": self._quota(self._name(call))}

    def _request(self, call: ApiCall) -> Mapping[str, Any]:
        name, value = self._name(call), float(call.parameters["DesiredValue"])
        self._values[name] = value
        return {
            "RequestedQuota": {
                "QuotaName": name,
                "QuotaCode": code(name),
                "DesiredValue": value,
                "Status": "APPROVED",
            }
        }

    def _quota(self, name: str) -> dict[str, Any]:
        arn = f"arn:aws:servicequotas:{self.identity.region}:{self.identity.account}:{SERVICE}/{code(name)}"  # noqa: E501
        value = self._values.get(name, DEFAULT_VALUE)
        described = {
            "ServiceCode": SERVICE,
            "ServiceName": "Amazon SageMaker",
            "QuotaName": name,
            "QuotaCode": code(name),
        }
        return described | {
            "QuotaArn": arn,
            "Value": value,
            "Unit": "None",
            "Adjustable": True,
            "GlobalQuota": False,
        }

    def _name(self, call: ApiCall) -> str:
        self._check_service(call)
        for name in quota_names():
            if code(name) == call.parameters["QuotaCode"]:
                return name
        raise AwsError(
            "NoSuchResourceException", f"There is no quota {call.parameters['QuotaCode']}"
        )

    def _check_service(self, call: ApiCall) -> None:
        asked = call.parameters["ServiceCode"]
        if asked != SERVICE:
            raise AwsError(
                "NoSuchResourceException",
                f"Shoal's emulator has quotas of {SERVICE} only, not"
                f" {call.parameters['ServiceCode']}",
            )
