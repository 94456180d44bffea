"""The message of the commit that pins a release, which is also the text of its pull request."""

from __future__ import annotations

import re

from config.errors import one_line
from config.release import Release


def message_of(release: Release, source: str, destination: str, first: str | None = None) -> str:
    """Return a title, an empty line, and Markdown.

    `first` is the environment to deploy before the destination, if there is one.
    """
    group, _, version = release.origin.partition("model-package/")[2].rpartition("/")
    metrics = ", ".join(f"{name} {value:g}" for name, value in release.metrics.items()) or "none"
    rows = {
        "model package": release.model_package_arn,
        **({"copied from": release.copied_from} if release.copied_from else {}),
        "evaluation": metrics,
        "approved by": f"{release.approved_by} at {release.approved_at}",
        "model data": f"{release.model_data_url} (version {release.model_data_version_id})",
        "sha256 of the model data": release.model_data_sha256,
        "image": f"{release.image_uri}@{release.image_digest}",
        "sha256 of the pipeline definition": release.definition_sha256,
        "code": release.code_commit,
        **({"replaces": release.replaces[0].model_package_arn} if release.replaces else {}),
    }
    order = (
        f"\n\nDeploy {first} before {destination}: only then may {destination}'s account read this"
        " version."
        if first
        else ""
    )
    read = f"A deployment of {destination} reads it; `git revert` takes it back.{order}"
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
