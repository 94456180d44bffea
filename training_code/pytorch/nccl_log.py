"""What NCCL logs while it connects goes in; the network that it chose comes out.

aws-ofi-nccl, the plugin that brings EFA to NCCL, says which libfabric provider it selected; NCCL says which network it uses then.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_SELECTED = re.compile(r"NET/OFI Selected [Pp]rovider is (?P<provider>[\w;+-]+)")
_USING = re.compile(r"(?:Using network|Assigned NET plugin) (?P<network>AWS Libfabric|Libfabric|Socket|IB|[\w-]+)")
_FAILED = re.compile(r"NET/OFI (?:aws-ofi-nccl initialization failed|Initializing plugin failed|Could not find any optimal provider)")
_TCP = {"tcp", "sockets", "tcp;ofi_rxm", "tcp;ofi_rxd"}


@dataclass(frozen=True)
class Fabric:
    """What the ranks of this job talk over."""

    provider: str
    """efa, tcp, infiniband, loopback (CPUs of one host), or unknown: NCCL logged nothing that says it."""
    evidence: str
    """The log line that says so, or why there is none."""

    @property
    def is_efa(self) -> bool:
        return self.provider == "efa"


def parse(log: str) -> Fabric:
    """The provider that a log of NCCL says was chosen. The last word counts: a plugin may select EFA, fail, and leave NCCL to TCP."""
    provider, evidence = "unknown", "NCCL has logged no network"
    selected = "unknown"
    for line in log.splitlines():
        if match := _SELECTED.search(line):
            selected = provider = "tcp" if match["provider"] in _TCP else match["provider"]
            evidence = line.strip()
        elif _FAILED.search(line):
            selected, provider, evidence = "unknown", "unknown", line.strip()
        elif match := _USING.search(line):
            networks = {"Socket": "tcp", "IB": "infiniband", "AWS Libfabric": selected, "Libfabric": selected}
            provider = networks.get(match["network"], "unknown")
            evidence = evidence if provider == selected and selected != "unknown" else line.strip()
    return Fabric(provider, evidence)
