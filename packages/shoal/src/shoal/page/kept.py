"""Pages of runs in the artifact bucket: `runs/<execution id>/run.html`, and run.json next to it.

The function behind the terminal status keeps one of each run
(packages/shoal/src/shoal/functions/pages).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from shoal.errors import error_code
from shoal.page.history import json_of
from shoal.page.page import page
from shoal.page.place import Place

_DATA, _PAGE = "run.json", "run.html"


def keep(place: Place, run: Mapping[str, Any], root: Path) -> str:
    """Put run.html and run.json of a run, which has its `others`, and return the page's URI.

    `root` has the library that draws curves. Raises ClientError if the caller may not write there.
    """
    for name, kind, text in (
        (_DATA, "application/json", json_of(run)),
        (_PAGE, "text/html; charset=utf-8", page(run, root)),
    ):
        key = _key(place, run["run"]["id"], name)
        place.target.client("s3").put_object(
            Bucket=place.bucket, Key=key, Body=text.encode(), ContentType=kind
        )
    return f"s3://{place.bucket}/{key}"


def kept_commit(place: Place, run_id: str, code_uri: str) -> str | None:
    """Return the commit that a page which is there names for this code archive; None if there is
    no such page, or it names none.

    Raises ClientError if the page cannot be read.
    """
    key = _key(place, run_id, _DATA)
    try:
        kept = place.target.client("s3").get_object(Bucket=place.bucket, Key=key)["Body"].read()
    except ClientError as error:
        # who may not list the bucket is refused what is not there (S3 API reference, GetObject)
        if error_code(error) in ("NoSuchKey", "AccessDenied"):
            return None
        raise
    links = {each["what"]: each for each in json.loads(kept)["lineage"]}
    if links.get("code", {}).get("value") != code_uri or not links["commit"]["holds"]:
        return None
    return str(links["commit"]["value"])


def _key(place: Place, run_id: str, name: str) -> str:
    return f"{place.folder}/{run_id}/{name}"
