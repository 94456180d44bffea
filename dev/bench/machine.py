"""The machine that was measured on, for the head of every report: processor, memory, system,
commit.
"""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
TELLING_FLAGS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")


def describe() -> dict[str, Any]:
    """Return facts by name, with values that JSON has."""
    info = _cpu_info()
    return {
        "processor": info.get("model name", platform.processor() or platform.machine()),
        "cores": os.cpu_count(),
        "instructions": [flag for flag in TELLING_FLAGS if flag in info.get("flags", "").split()],
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "commit": _git("rev-parse", "--short", "HEAD")
        + (" with changes" if _git("status", "--porcelain") else ""),
    }


def _cpu_info() -> dict[str, str]:
    path = Path("/proc/cpuinfo")
    if not path.exists():
        return {}
    first = path.read_text().split("\n\n")[0]
    return {
        key.strip(): value.strip()
        for key, _, value in (line.partition(":") for line in first.splitlines())
    }


def _git(*arguments: str) -> str:
    answer = subprocess.run(
        ["git", *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    return answer.stdout.strip()
