"""One rank of two that choose a precision, with times that the test makes up.

`torchrun ... choose_precision.py CODE FOLDER` writes FOLDER/RANK.json: case -> choice.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from unittest import mock

sys.path.insert(0, sys.argv[1])

import torch
from common import precision
from common.ranks import joined
from model import new_network, prepare

SECONDS = {
    "bf16 is faster on the second rank, and in sum": ((1.0, 1.1), (3.0, 1.0)),
    "bf16 is slower on the second rank, and in sum": ((1.1, 1.0), (1.0, 3.0)),
    "bf16 is 2 % faster": ((1.02, 1.0), (1.02, 1.0)),
}
"""Case -> for each rank, seconds in fp32 and in bf16."""

with joined("gloo", os.environ) as ranks:
    network = new_network(ranks.device)
    images = torch.zeros(8, 28, 28, dtype=torch.uint8)

    def loss() -> torch.Tensor:
        return network(prepare(images)).square().mean()  # type: ignore[no-any-return, unused-ignore]

    def choose(has_bf16: bool, seconds: tuple[float, float] | None = None) -> str:
        """Return the choice, with these times if they are given."""
        times = dict(zip(("fp32", "bf16"), seconds or (), strict=False))
        with mock.patch("common.cpu.computes_bf16", return_value=has_bf16):
            if not times:
                return precision.choose("auto", None, ranks, loss)[0]
            with mock.patch("common.precision._seconds", return_value=times):
                return precision.choose("auto", None, ranks, loss)[0]

    answers = {case: choose(True, times[ranks.rank]) for case, times in SECONDS.items()}
    before = [weight.clone() for weight in network.parameters()]
    answers["the second rank has no bf16"] = choose(ranks.rank == 0)
    untouched = all(
        torch.equal(weight, was) for weight, was in zip(network.parameters(), before, strict=True)
    )
    answers["untouched"] = "yes" if untouched else "no"
    Path(sys.argv[2], f"{ranks.rank}.json").write_text(json.dumps(answers))
