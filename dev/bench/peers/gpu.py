"""What both programs of `make bench-gpu` share: command line, clock and report."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

try:
    import torch
except ModuleNotFoundError as error:
    raise SystemExit(
        f"bench-gpu: this Python ({sys.executable}) lacks {error.name}; name one that has PyTorch"
        " for CUDA: make bench-gpu BENCH_PYTHON=/path/to/python"
    ) from None


def parser(description: str) -> argparse.ArgumentParser:
    """Return a parser with the options of both programs."""
    options = argparse.ArgumentParser(description=description)
    options.add_argument("--out", type=Path, required=True)
    options.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    return options


def device_of(options: argparse.Namespace) -> torch.device:
    """Return the device; end the program where it is not there."""
    if options.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit(
            f"bench-gpu: this Python ({sys.executable}) finds no CUDA device; torch is"
            f" {torch.__version__}"
        )
    return torch.device(options.device)


def now(device: torch.device) -> float:
    """Return the seconds of a clock, when the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def write(out: Path, device: torch.device, **content: Any) -> None:
    """Write the report, with the names of the device and of torch's build."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    out.parent.mkdir(parents=True, exist_ok=True)
    report = {"device": name, "torch": torch.__version__, **content}
    out.write_text(json.dumps(report, indent=1) + "\n")
