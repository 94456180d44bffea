"""Recordings of `shoal prove`, replayed: what was asked before anything was made is answered here
with the same status, the same error code and the same form.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore import xform_name
from botocore.exceptions import ClientError

from local_kit.control import Account, running

FOLDER = Path(__file__).with_name("recorded")
BEFORE = {"account", "doctor"}
"""Lines of a proof that find an empty account."""


def records() -> Iterator[Any]:
    for file in sorted(FOLDER.glob("*.jsonl")):
        for number, text in enumerate(file.read_text().splitlines(), 1):
            record = json.loads(text)
            if record["line"] in BEFORE and "REDACTED" not in json.dumps(record["params"]):
                what = f"{file.stem}:{number} {record['service']} {record['operation']}"
                yield pytest.param(record, id=what)


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    with running(tmp_path_factory.mktemp("emulator")) as account:
        yield account


def form(value: Any) -> Any:
    """Return the keys and the kinds of what is in an answer, of a list those of its first item."""
    if isinstance(value, dict):
        return {key: form(each) for key, each in value.items()}
    return [form(each) for each in value[:1]] if isinstance(value, list) else None


@pytest.mark.parametrize("record", [*records()])
def test_an_empty_account_is_told_what_aws_told(empty: Account, record: dict[str, Any]) -> None:
    call = getattr(empty.client(record["service"]), xform_name(record["operation"]))
    try:
        answer = call(**record["params"])
    except ClientError as error:
        answer = error.response
    status = answer.pop("ResponseMetadata")["HTTPStatusCode"]
    code = answer.get("Error", {}).get("Code")
    assert (status, code) == (record["status"], record["error"])
    for each in ("Owner", "UserId"):  # a recording has none
        answer.pop(each, None)
    assert code or form(answer) == form(record["answer"])
