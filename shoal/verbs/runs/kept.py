"""Pages of runs in the artifact bucket: `runs/<execution id>/run.html`, and run.json next to it.

The function behind the terminal status keeps one of each run (stacks/functions/pages); who follows
a run replaces it with theirs, which knows the commit.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from shoal.verbs.errors import error_code
from shoal.verbs.runs.history import json_of
from shoal.verbs.runs.page import page
from shoal.verbs.runs.place import Place


def keep(place: Place, run: Mapping[str, Any], root: Path, *, replace: bool = True) -> str:
    """Put run.html and run.json of a run, which has its `others`, and return the page's URI.

    `root` has the library that draws curves. Without `replace`, what is there stays. Raises
    ClientError if the caller may not write there.
    """
    s3, folder = place.target.client("s3"), f"{place.folder}/{run['run']['id']}"
    unless_there = {} if replace else {"IfNoneMatch": "*"}
    for name, kind, text in (
        ("run.json", "application/json", json_of(run)),
        ("run.html", "text/html; charset=utf-8", page(run, root)),
    ):
        key, body = f"{folder}/{name}", text.encode()
        try:
            s3.put_object(Bucket=place.bucket, Key=key, Body=body, ContentType=kind, **unless_there)
        except ClientError as error:
            if replace or error_code(error) != "PreconditionFailed":
                raise
    return f"s3://{place.bucket}/{key}"
