"""One HTML file that shows a run, opened from disk without a network; and those that are kept in
the artifact bucket: `runs/<execution id>/run.html`, and run.json next to it.

Its policy lets nothing run but its own script, by digest, and nothing load. Text from outside is in
a block of JSON, in which no `<` stands.
"""

import base64
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from shoal.errors import ToolMissingError, error_code
from shoal.page.history import json_of
from shoal.page.look import Place
from shoal.page.record import json_text

_FILES = Path(__file__).with_name("page_files")
_CURVES = Path("node_modules/uplot/dist")
_LANGUAGE = """try { new Intl.NumberFormat(navigator.language) } catch {
  Object.defineProperty(navigator, "language", { value: "en-US" });
}"""
"""Chromium without a locale says en-US@posix, with which uPlot would not load."""


def page(record: Mapping[str, Any], root: Path) -> str:
    """Return the page of a run; raise ToolMissingError if `root` lacks what draws its curves."""
    try:
        script = (root / _CURVES / "uPlot.iife.min.js").read_text(encoding="utf-8")
        style = (root / _CURVES / "uPlot.min.css").read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ToolMissingError(f"{error.filename} is missing: run `make install`") from error
    script = f"{_LANGUAGE}\n{script}\n" + (_FILES / "page.js").read_text(encoding="utf-8")
    style += (_FILES / "page.css").read_text(encoding="utf-8")
    policy = f"default-src 'none'; script-src {_digest(script)}; style-src {_digest(style)}"
    data = json_text(record, separators=(",", ":")).replace("<", "\\u003c")
    body = f'<script type="application/json" id="run">{data}</script>\n<script>{script}</script>'
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>run</title>\n<style>{style}</style>\n</head>\n"
        f"<body>\n<main></main>\n{body}\n</body>\n</html>\n"
    )


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


_DATA, _PAGE = "run.json", "run.html"


def keep(place: Place, run: Mapping[str, Any], root: Path) -> str:
    """Put run.html and run.json of a run, which has its `others`, and return the page's URI.

    The function behind the terminal status does so for each run.

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
    """Return the commit that a kept page names for this code archive; None if none does.

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
