"""The page of a run that has ended, kept in the environment's artifact bucket.

Whoever follows a run to its end puts it there (`docs/decisions/run-page.md` says why no function
does).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from config.names import RUNS
from shoal.verbs.runs.history import json_of
from shoal.verbs.runs.page import page
from shoal.verbs.workspace import Session


def keep(session: Session, run: Mapping[str, Any]) -> str:
    """Put run.html and run.json of a run, which has its `others`, and return the page's URI.

    Raises ClientError if the caller may not write there.
    """
    names, s3 = session.names, session.target.client("s3")
    bucket, folder = names.bucket("artifacts"), f"{names.folder(RUNS)}/{run['run']['id']}"
    for name, kind, text in (
        ("run.json", "application/json", json_of(run)),
        ("run.html", "text/html; charset=utf-8", page(run, session.workspace.root)),
    ):
        key = f"{folder}/{name}"
        s3.put_object(Bucket=bucket, Key=key, Body=text.encode(), ContentType=kind)
    return f"s3://{bucket}/{key}"
