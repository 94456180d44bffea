"""The smoke test's function as it is deployed: its code with the requests of a workload."""

from __future__ import annotations

import shutil
from pathlib import Path

from shoal.constructs.pipeline.smoke_test_file import packed_files, smoke_test_file
from tests.functions.invocation import FUNCTIONS
from tests.repository import CHECKOUT


def package(folder: Path, workload: str = "mnist", root: Path = CHECKOUT) -> Path:
    """Make the package in `folder`; returns its path, which `invoke` takes."""
    packed = folder / "smoke_test"
    shutil.copytree(FUNCTIONS / "smoke_test", packed, ignore=shutil.ignore_patterns("__pycache__"))
    for name, content in packed_files(smoke_test_file(workload, root)).items():
        (packed / name).write_bytes(content)
    return packed
