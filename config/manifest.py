"""The setting `data.on_manifest` of an environment file: a manifest that arrives in the data bucket
starts an execution.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from config.base import Settings

MANIFEST_PARAMETER = "DataManifest"
"""The pipeline parameter that gets the manifest's URI."""

FileName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]


class OnManifest(Settings):
    """Start the pipeline when `datasets/NAME/<file>` arrives.

    While an execution runs, it starts nothing and says so.
    """

    file: FileName = "manifest.json"
    """Name of the manifest: JSON with `files`, the paths of a dataset's files beside it. Upload
    it last: it says that they are complete.
    """
    parameters: dict[str, str | int | float | bool] = Field(default_factory=dict)
    """Pipeline parameters of the executions it starts, as in `Epochs: 10`; the others have their
    defaults.
    """
