"""`shoal destroy --leftovers` with the shipped sweeper: dry run, deletion, and the exit code for
what it cannot delete.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from typing import Any

import pytest

from local_kit.control import trust
from shoal.settings.loading.loader import load_environment
from shoal.settings.names import Names
from tests.cli.trained import IMAGE, Checkout, Registry
from tests.functions.invocation import FUNCTIONS
from tests.repository import ROOT
from tests.verbs.conftest import ACCOUNT, REGION

NAMES = Names(load_environment("dev", ROOT))
FUNCTION, EXECUTION = NAMES.function("sweep"), "abcdefghijkl"
MODEL = f"{NAMES.pipeline}-{EXECUTION}"
BUSY = (
    "def handler(event, context):\n    return {**dict.fromkeys(('kept', 'past_ttl', 'deleted'),"
    " []), 'dry_run': False, "
    + "'endpoints': 1, 'endpoints_past_ttl': 1, 'complete': True, 'pending': ['abcdefghijkl']}\n"
)


def archive(files: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive_file:
        for name, content in files.items():
            archive_file.writestr(name, content)
    return buffer.getvalue()


@pytest.fixture
def account(registry: Registry) -> Iterator[Any]:
    """Return an account with a model of an unknown execution, older than any limit."""
    target = registry.target
    trusted = trust({"Service": ["lambda.amazonaws.com", "sagemaker.amazonaws.com"]})
    answer = target.client("iam").create_role(RoleName="sweeps", AssumeRolePolicyDocument=trusted)
    role = answer["Role"]["Arn"]
    shipped = {path.name: path.read_text() for path in (FUNCTIONS / "teardown").glob("*.py")}
    arn = f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:pipeline/{NAMES.pipeline}"
    variables = {"PIPELINE_NAME": NAMES.pipeline, "PIPELINE_ARN": arn, "TTL_MINUTES": "0"}
    tags = {"shoal:pipeline": NAMES.pipeline, "shoal:execution": EXECUTION}
    target.client("lambda").create_function(
        FunctionName=FUNCTION,
        Runtime="python3.12",
        Handler="sweep.handler",
        Role=role,
        Timeout=30,
        Code={"ZipFile": archive(shipped)},
        Environment={"Variables": variables},
    )
    target.client("sagemaker").create_model(
        ModelName=MODEL,
        ExecutionRoleArn=role,
        PrimaryContainer={"Image": IMAGE, "Environment": {}},
        Tags=[{"Key": key, "Value": value} for key, value in tags.items()],
    )
    yield target
    target.client("lambda").delete_function(FunctionName=FUNCTION)
    target.client("iam").delete_role(RoleName="sweeps")


def models(account: Any) -> list[str]:
    answer = account.client("sagemaker").list_models(NameContains=MODEL)
    return [each["ModelName"] for each in answer["Models"]]


def test_it_says_what_it_would_delete_then_deletes_it_and_then_there_is_nothing(
    released: Checkout, account: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert released.shoal("destroy", "dev", "--leftovers", "--dry-run") == 0
    assert models(account) == [MODEL]
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"would be removed: what executions {EXECUTION} left"
    assert (released.shoal("destroy", "dev", "--leftovers"), models(account)) == (0, [])
    assert capsys.readouterr().out.splitlines() == [
        "endpoints: 0, of which 0 older than 60 minutes",
        f"deleted: model/{MODEL}",
    ]
    assert released.shoal("destroy", "dev", "--leftovers") == 0
    assert capsys.readouterr().out.splitlines()[-1] == "deleted: nothing"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (BUSY, f"not deleted yet: what executions {EXECUTION} left; sweep again in a few minutes"),
        (
            "def handler(event, context):\n    raise RuntimeError('no')\n",
            f"{FUNCTION} failed: RuntimeError: no",
        ),
    ],
)
def test_what_is_not_deleted_yet_and_a_sweeper_that_fails_are_exit_code_1(
    released: Checkout, account: Any, capsys: pytest.CaptureFixture[str], code: str, message: str
) -> None:
    account.client("lambda").update_function_code(
        FunctionName=FUNCTION, ZipFile=archive({"sweep.py": code})
    )
    assert released.shoal("destroy", "dev", "--leftovers") == 1
    assert capsys.readouterr().err == f"shoal: {message}\n"
    account.client("sagemaker").delete_model(ModelName=MODEL)
