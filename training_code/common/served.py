"""What code that serves a model has in common: it is copied into the model, and reads requests.

What reads a request raises ValueError with what is wrong, which the containers answer with.
"""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from common.archive import METADATA_FILE
from common.archive import identity_of as identity_of  # teams' scripts import it from here

JSON, NPY = "application/json", "application/x-npy"
UNREADABLE = (
    *(RuntimeError, OSError, EOFError, LookupError, AttributeError, TypeError, ValueError),
    pickle.UnpicklingError,
)
"""What torch and json raise for a file that is damaged, cut off, or something else."""
SERVED = ("__init__.py", "archive.py", "served.py")
"""The modules of this package that a server imports."""


def complete_model(
    model_dir: Path, metadata: Mapping[str, Any], source_dir: Path, names: Sequence[str]
) -> None:
    """Write where the weights in `model_dir` come from, and copy the code that serves them.

    That is the files of `source_dir`, and of this package what they need. The endpoint runs them;
    `shoal promote` compares them with the commit.
    """
    text = json.dumps(metadata, indent=2, sort_keys=True)
    (model_dir / METADATA_FILE).write_text(f"{text}\n")
    common = Path(__file__).parent
    files = {name: source_dir / name for name in names}
    for name, file in (files | {f"{common.name}/{each}": common / each for each in SERVED}).items():
        copy = model_dir / "code" / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)


def body_type(header: str | None, allowed: Sequence[str]) -> str:
    """Return the media type of the request's body."""
    kind = _media_type(header)
    if kind not in allowed:
        choices = " or ".join(allowed)
        raise ValueError(f"content type {header!r} is not supported; send {choices}")
    return kind


def answer_type(header: str | None, allowed: Sequence[str]) -> str:
    """Return the media type of the answer: the first one, where the client takes any."""
    kind = _media_type(header)
    if kind in ("", "*/*", "application/*"):
        return allowed[0]
    if kind not in allowed:
        choices = " or ".join(allowed)
        raise ValueError(f"accept {header!r} is not supported; ask for {choices}")
    return kind


def json_of(body: bytes | bytearray | str) -> Any:
    """Return what the body says."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the request is not JSON: {error}") from error


def _media_type(header: str | None) -> str:
    return (header or "").split(";")[0].strip().lower()
