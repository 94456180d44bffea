"""moto's state, as `serve --keep` keeps it: the backends of the accounts, by service and region."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from moto import backends
from moto.core.base_backend import BackendDict
from moto.s3.models import s3_backends

NOT_KEPT = frozenset({"sts", "moto_api", "instance_metadata"})
"""STS has sessions only, whose credentials end with the emulator."""
Backends = dict[tuple[str, str, str], Any]


def backends_of(accounts: Collection[str]) -> dict[str, Any]:
    """Return the backends by service, account and region, and the owners of buckets by name."""
    kept: Backends = {}
    for service in BackendDict._instances:  # type: ignore[misc]
        for account, region, backend in service.iter_backends():
            if account in accounts and service.service_name not in NOT_KEPT:
                kept[service.service_name, account, region] = backend
    return {"backends": kept, "buckets": dict(s3_backends.bucket_accounts)}


def restore_backends(saved: Mapping[str, Any]) -> None:
    """Let moto answer with the backends of an earlier emulator."""
    for (service, account, region), backend in saved["backends"].items():
        backends.get_backend(service)[account][region] = backend
    s3_backends.bucket_accounts.update(saved["buckets"])


def counted(saved: Mapping[str, Any]) -> dict[str, int]:
    """Return how many of the main things a snapshot has, for people."""
    counts: dict[str, int] = {"bucket": len(saved["moto"]["buckets"])}
    for (service, _, _), backend in saved["moto"]["backends"].items():
        if service == "iam":
            counts["role"] = counts.get("role", 0) + len(backend.roles)
    for parts in saved["accounts"].values():
        counts["stack"] = counts.get("stack", 0) + len(parts["cloudformation"]["stacks"])
        counts["function"] = counts.get("function", 0) + len(parts["functions"]["functions"])
        for kind, documents in parts["sagemaker"]["documents"].items():
            counts[kind] = counts.get(kind, 0) + len(documents)
    return {name: count for name, count in counts.items() if count}
