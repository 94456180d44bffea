"""Unpacks archives with `common.archive` on a Python that acts like AWS's older images.

The arguments are the archives. Prints the result for each.
"""

import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

original = tarfile.TarFile.extractall


def extractall(self: tarfile.TarFile, path: Any) -> None:
    """Extract as Python 3.9.10 does: without `filter`."""
    original(self, path, filter="fully_trusted")


del tarfile.data_filter
tarfile.TarFile.extractall = extractall  # type: ignore[method-assign, assignment]

from common.archive import unpack  # noqa: E402 - on that Python

for archive in map(Path, sys.argv[1:]):
    with tempfile.TemporaryDirectory() as folder:
        try:
            unpack(archive, Path(folder))
            print(
                f"{archive.name}: unpacked {sorted(path.name for path in Path(folder).iterdir())}"
            )
        except ValueError as error:
            print(f"{archive.name}: {str(error).partition('unpacked: ')[2]}")
