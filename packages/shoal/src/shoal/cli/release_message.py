"""The message of the commit that pins a release, which is also the text of its pull request."""

from __future__ import annotations

import re

from shoal.settings.parsing.errors import one_line
from shoal.settings.sections.release import Release


def message_of(release: Release, source: str, destination: str) -> str:
    """Return a title, an empty line, and Markdown."""
    group, _, version = release.version.rpartition("/")
    version_id = release.model_data_version_id
    metrics = ", ".join(f"{name} {value:g}" for name, value in release.metrics.items()) or "none"
    rows = {
        "model package": release.model_package_arn,
        "evaluation": metrics,
        "approved by": f"{release.approved_by} at {release.approved_at}",
        "model data": release.model_data_url + (f" (version {version_id})" if version_id else ""),
        "sha256 of the model data": release.model_data_sha256,
        "image": f"{release.image_uri}@{release.image_digest}",
        "sha256 of the pipeline definition": release.definition_sha256,
        "code": release.code_commit,
    }
    read = (
        f"A deployment of {destination} brings the archive into its own bucket, if it has these"
        " bytes; `git revert` takes the release back."
    )
    table = "\n".join(f"| {what} | {_cell(value)} |" for what, value in rows.items())
    return f"""Promote {group} version {version} from {source} to {destination}

| | |
| --- | --- |
{table}

`shoal promote` looked at each of these when it made this commit. {read}"""


def _cell(value: str) -> str:
    """Return text from outside as one cell: no line, column, mention or tag of its own."""
    text = one_line(value).replace("|", "\\|").replace("<", "&lt;")
    return re.sub(r"@(?=[A-Za-z])", "@\u200b", text)
