"""What shoal-local is said to do with each operation is what it does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from botocore import xform_name
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from dev.tools.coverage import REFUSED, RUNS, Coverage, coverage
from shoal_local.testing import LocalAccount, in_process

QUICK = Config(retries={"total_max_attempts": 1}, parameter_validation=False, read_timeout=20)
NAMED = "refused by name"
NAMES = {"Bucket": "probe", "Key": "x"}
"""What requests name, because moto takes some that it does not know for those that it knows."""


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[tuple[Any, Coverage]]]:
    """The emulated services, each with a client, and the bucket and the object of NAMES."""
    with in_process(tmp_path_factory.mktemp("coverage") / "state") as emulator:
        account = LocalAccount.of(emulator)
        account.client("s3").create_bucket(Bucket=NAMES["Bucket"])
        account.client("s3").put_object(**NAMES, Body=b"content")
        yield [(account.client(each.service, QUICK), each) for each in coverage(emulator)]


@pytest.mark.nightly
def test_what_is_called_refused_never_succeeds_and_what_runs_is_not_refused(
    services: list[tuple[Any, Coverage]],
) -> None:
    impossible = {(REFUSED, "success"), (RUNS, NAMED)}
    outcomes = [
        (each.service, operation, effect, outcome(client, operation))
        for client, each in services
        for operation, effect in sorted(each.effects.items(), key=lambda item: item[1] != REFUSED)
    ]
    assert [each for each in outcomes if each[2:] in impossible] == []
    refused = [each for each in outcomes if each[3] in {REFUSED, NAMED}]
    assert len(refused) > 0.9 * len([each for each in outcomes if each[2] == REFUSED])


def outcome(client: Any, operation: str) -> str:
    """Send the smallest request that has the documented shape, and return `success`, a refusal
    (NAMED where it names the operation), or the code of another error.
    """
    shape = client.meta.service_model.operation_model(operation).input_shape
    try:
        getattr(client, xform_name(operation))(**(smallest(shape) if shape else {}))
    except ClientError as error:
        code, message = (str(error.response["Error"].get(key)) for key in ("Code", "Message"))
        refusal = NAMED if re.search(rf"\b{operation}\b", message) else REFUSED
        return refusal if code == "UnknownOperationException" else code
    except BotoCoreError as error:  # the answer cannot be read, or the request not be written
        return type(error).__name__
    return "success"


def smallest(shape: Any) -> Any:
    """Return the smallest value of a botocore shape."""
    if shape.type_name == "structure":
        return {
            name: NAMES.get(name) or smallest(shape.members[name])
            for name in shape.required_members
        }
    if shape.type_name == "list":
        return [smallest(shape.member)] * shape.metadata.get("min", 0)
    if shape.type_name == "string":
        return (shape.enum or ["x" * max(1, shape.metadata.get("min", 1))])[0]
    if shape.type_name in {"integer", "long", "float", "double"}:
        return shape.metadata.get("min", 1)
    return {"map": {}, "boolean": False, "blob": b"x", "timestamp": 0}[shape.type_name]
