"""Trains on while a checkpoint is written: `write_slowly.py FOLDER FILE`.

FILE gets, as JSON, what was seen before the writer was let go on, and after it.
"""

from __future__ import annotations

import importlib
import json
import sys
import threading
from pathlib import Path
from typing import Any

CODE = Path(__file__).parents[6] / "training_code" / "language" / "pytorch"
sys.path.insert(0, str(CODE))
import torch  # noqa: E402

checkpoint, ranks_of = map(importlib.import_module, ("checkpoint", "common.ranks"))


def main(folder: Path, file: Path) -> None:
    """Write two checkpoints, of which the first one's writer waits, and read the first."""
    let_go_on = hold_writer()
    with ranks_of.joined("gloo", {}) as ranks:
        file.write_text(json.dumps(observe(folder, ranks, let_go_on)))


def hold_writer() -> threading.Event:
    """Let each writer wait for the event that is returned."""
    event, write_data = threading.Event(), checkpoint.FileSystemWriter.write_data

    def wait_and_write(*arguments: Any) -> Any:
        event.wait()
        return write_data(*arguments)

    checkpoint.FileSystemWriter.write_data = wait_and_write
    return event


def observe(folder: Path, ranks: Any, let_go_on: threading.Event) -> dict[str, Any]:
    """Return the folder's content and the weight, at each moment."""
    model = torch.nn.Linear(1, 1, bias=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    store = checkpoint.Store(folder, ranks, {}, model, optimizer)

    def set_weight(value: float) -> None:
        model(torch.zeros(1)).sum().backward()
        optimizer.step()
        with torch.no_grad():
            model.weight.fill_(value)

    set_weight(1)
    store.write(checkpoint.Position(1))
    set_weight(2)
    seen = {"while it waits": content(folder), "written while it waits": store.is_written}
    let_go_on.set()
    store.write(checkpoint.Position(2))
    seen["when the second one begins"] = content(folder)
    store.finish()
    seen["at the end"] = content(folder)
    (folder / "step-00000002" / "checkpoint.json").unlink()
    seen["step"] = store.read().step
    return seen | {"weight": float(model.weight)}


def content(folder: Path) -> list[str]:
    """Return the names of the checkpoints."""
    return sorted(each.name for each in folder.iterdir())


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
