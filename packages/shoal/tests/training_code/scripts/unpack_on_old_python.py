"""Unpacks archives with evaluate.py's `unpack` on a Python that acts like AWS's older images.

The arguments are the folder of the code and the archives. Prints the result for each.
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
sys.path.insert(0, sys.argv[1])

from evaluate import unpack  # type: ignore[import-not-found, unused-ignore]  # noqa: E402 - of the folder that was given

for archive in map(Path, sys.argv[2:]):
    with tempfile.TemporaryDirectory() as folder:
        try:
            unpack(archive, Path(folder))
            print(
                f"{archive.name}: unpacked {sorted(path.name for path in Path(folder).iterdir())}"
            )
        except ValueError as error:
            print(f"{archive.name}: {str(error).partition('unpacked: ')[2]}")
