"""The page of a run that has ended, kept in the environment's artifact bucket.

Whoever follows a run to its end puts it there, or who asks for it later
(`docs/decisions/run-page.md` says why no function does).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from config.names import RUNS
from shoal.verbs.execution import TERMINAL
from shoal.verbs.runs.history import json_of, with_others
from shoal.verbs.runs.page import page
from shoal.verbs.workspace import Session


def keep(session: Session, run: Mapping[str, Any]) -> str:
    """Put run.html and run.json of a run, which has its `others`, and return the page's URI.

    Raises ClientError if the caller may not write there.
    """
    s3, bucket, folder = session.target.client("s3"), *_place(session, run)
    for name, kind, text in (
        ("run.json", "application/json", json_of(run)),
        ("run.html", "text/html; charset=utf-8", page(run, session.workspace.root)),
    ):
        key = f"{folder}/{name}"
        s3.put_object(Bucket=bucket, Key=key, Body=text.encode(), ContentType=kind)
    return f"s3://{bucket}/{key}"


def keep_missing(session: Session, runs: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Keep the pages of those runs that have ended and have none, and yield the URI of each.

    Raises ClientError if the caller may not look or write there.
    """
    s3 = session.target.client("s3")
    for run in (each for each in runs if each["run"]["status"] in TERMINAL):
        bucket, folder = _place(session, run)
        listed = s3.list_objects_v2(Bucket=bucket, Prefix=f"{folder}/run.html")
        if not listed["KeyCount"]:
            yield keep(session, with_others(session, run["run"]["arn"]))


def _place(session: Session, run: Mapping[str, Any]) -> tuple[str, str]:
    """Return the bucket, and the folder in it, where the page of a run lies."""
    names = session.names
    return names.bucket("artifacts"), f"{names.folder(RUNS)}/{run['run']['id']}"
