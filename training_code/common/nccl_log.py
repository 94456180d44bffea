"""Reads from NCCL's log which network it chose.

aws-ofi-nccl, the plugin that brings EFA to NCCL, says which libfabric provider it selected; NCCL
then says which network it uses. Only both together are a proof.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_SELECTED = re.compile(r"NET/OFI Selected [Pp]rovider is (?P<provider>[\w;+-]+)")
_USING = re.compile(
    r"(?:Using network|Assigned NET plugin) (?P<network>AWS Libfabric|Libfabric|Socket|IB|[\w-]+)"
)
_FAILED = re.compile(
    r"NET/OFI (?:aws-ofi-nccl initialization failed|Initializing plugin failed|Could not find any"
    r" optimal provider)"
)
_TCP = {"tcp", "sockets", "tcp;ofi_rxm", "tcp;ofi_rxd"}


@dataclass(frozen=True)
class Fabric:
    """The network between the ranks of this job."""

    provider: str
    """efa, tcp, infiniband, loopback (CPUs of one host), or unknown: NCCL logged nothing that
    says it.
    """
    evidence: str
    """The log line that says so, or why there is none."""

    @property
    def is_efa(self) -> bool:
        return self.provider == "efa"


def parse(log: str) -> Fabric:
    """Return the provider that a log of NCCL says is used.

    The last word counts: a plugin may select EFA, fail, and leave NCCL to TCP.
    """
    provider, evidence = "unknown", "NCCL has logged no network"
    selected, selected_by = "unknown", ""
    for line in map(str.strip, log.splitlines()):
        if match := _SELECTED.search(line):
            selected, selected_by = "tcp" if match["provider"] in _TCP else match["provider"], line
            if selected != provider:  # selected is not yet used
                provider, evidence = "unknown", line
        elif _FAILED.search(line):
            selected, provider, evidence = "unknown", "unknown", line
        elif match := _USING.search(line):
            over_plugin = match["network"].endswith("Libfabric") and selected != "unknown"
            provider = (
                selected
                if over_plugin
                else {"Socket": "tcp", "IB": "infiniband"}.get(match["network"], "unknown")
            )
            evidence = selected_by if over_plugin else line
    return Fabric(provider, evidence)


def read(pattern: str, host: str, pid: int) -> str:
    """Return what the process `pid` on `host` has logged to NCCL_DEBUG_FILE.

    Return nothing where that is no file, such as /dev/stdout. For %h NCCL writes only the part of
    the host's name before the first dot.
    """
    for name in (host.split(".")[0], host):
        log = Path(pattern.replace("%h", name).replace("%p", str(pid)))
        if log.is_file():
            return log.read_text(errors="replace")
    return ""
