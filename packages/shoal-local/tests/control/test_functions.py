"""Lambda functions that really run, in Python and Node.js: what they answer, what they may see, how
they fail.
"""

import base64
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import pytest
from botocore.exceptions import ClientError

from local_kit.control import Account, allow, eventually, zipped
from local_kit.tables import rows, table
from shoal_local.control.functions import model
from shoal_local.control.functions.sandbox import Sandbox
from shoal_local.control.functions.service import Functions
from shoal_local.control.http.protocol import ApiCall
from shoal_local.errors import AwsError
from shoal_local.processes import ProcessRegistry, started_at

ECHO = "def handler(event, context):\n    print('got', event)\n    return {'event': event}\n"


def test_a_function_answers_and_what_it_prints_is_in_its_log_and_in_the_answers_tail(
    account: Account,
) -> None:
    """The report counts the function's own memory only."""
    name = account.function(ECHO)
    answer = account.invoke(name, {"number": 7})
    assert (answer["StatusCode"], answer["payload"]) == (200, {"event": {"number": 7}})
    tail = base64.b64decode(answer["LogResult"]).decode()
    assert "got {'number': 7}\n" in tail
    assert 5 < int(tail.rpartition("Max Memory Used: ")[2].split()[0]) < 40
    assert any(line.startswith("REPORT RequestId:") for line in account.log(name))


BODY = "def handler(event, context):\n    "


@pytest.mark.parametrize(
    ("file", "source", "kind", "message"),
    [tuple(row.values()) for row in table(__file__, "cases.yaml")["functions"]],
)
def test_a_function_that_fails_answers_with_type_and_message(
    account: Account, file: str, source: str, kind: str, message: str
) -> None:
    answer = account.invoke(account.function(source, file, Timeout=1))
    assert (answer["FunctionError"], answer["payload"]["errorType"]) == ("Unhandled", kind)
    assert message in answer["payload"]["errorMessage"]


def test_an_answer_that_is_too_large_is_refused(account: Account) -> None:
    source = f"{BODY}return 'x' * event\n"
    name = account.function(source, Timeout=60)
    answer = account.invoke(name, 20_000_000)
    assert answer["payload"]["errorType"] == "Function.ResponseSizeTooLarge"
    assert account.invoke(name, 1_000_000)["payload"] == "x" * 1_000_000


def test_an_exception_has_the_functions_own_stack(account: Account) -> None:
    answer = account.invoke(account.function(f"{BODY}raise ValueError\n"))
    assert "line 2, in handler" in answer["payload"]["stackTrace"][0]


def test_a_function_calls_aws_as_its_role(account: Account) -> None:
    role = account.role()
    source = (
        "import boto3\ndef handler(event, context):\n    return"
        " boto3.client('sts').get_caller_identity()['Arn']\n"
    )
    name, role_name = account.function(source, Role=role), role.rpartition("/")[2]
    arn = f"arn:aws:sts::111122223333:assumed-role/{role_name}/{name}"
    assert account.invoke(name)["payload"] == arn


def test_a_function_sees_its_variables_and_its_context_but_not_the_emulators_environment(
    account: Account,
) -> None:
    source = (
        "import os\ndef handler(event, context):\n    seen = [os.environ['DIGITS'],"
        " os.environ.get('MOTO_ACCOUNT_ID'), context.function_name]\n    assert"
        " os.environ['AWS_LAMBDA_LOG_STREAM_NAME'] != 'mine'\n    return [*seen,"
        " context.get_remaining_time_in_millis()]\n"
    )
    variables = {"DIGITS": "ten", "AWS_LAMBDA_LOG_STREAM_NAME": "mine"}
    name = account.function(source, Environment={"Variables": variables}, Timeout=5)
    digits, leaked, function_name, remaining_ms = account.invoke(name)["payload"]
    assert (digits, leaked, function_name) == ("ten", None, name)
    assert 3000 < remaining_ms <= 5000


def test_an_asynchronous_invocation_is_accepted_and_tried_three_times(account: Account) -> None:
    name = account.function("def handler(event, context):\n    raise ValueError('again')\n")
    asynchronous = {"FunctionName": name, "InvocationType": "Event", "Payload": b"{}"}
    assert account.client("lambda").invoke(**asynchronous)["StatusCode"] == 202
    assert eventually(lambda: sum("START" in line for line in account.log(name)) == 3)


def test_a_dry_run_invokes_nothing(account: Account) -> None:
    name = account.function("def handler(event, context):\n    raise ValueError\n")
    answer = account.client("lambda").invoke(FunctionName=name, InvocationType="DryRun")
    assert (answer["StatusCode"], answer.get("FunctionError")) == (204, None)


def test_an_update_of_the_code_is_what_the_next_invocation_runs(account: Account) -> None:
    name = account.function("def handler(event, context):\n    return 'old'\n")
    account.invoke(name)
    code = zipped("def handler(event, context):\n    return 'new'\n")
    account.client("lambda").update_function_code(FunctionName=name, ZipFile=code)
    assert account.invoke(name)["payload"] == "new"


def test_code_in_s3_that_is_larger_than_any_function_may_be_is_refused_unread(
    tmp_path: Path,
) -> None:
    unused: Any = None
    s3 = SimpleNamespace(get_object=lambda **_: {"ContentLength": 262_144_001, "Body": None})
    clients: Any = lambda _service: s3  # noqa: E731 (its body must not be read)
    large = model.Function("large", "arn", model.Code("", 0, tmp_path), {})
    functions = Functions(unused, clients, unused, tmp_path, {"large": large})
    request = {"FunctionName": "large", "S3Bucket": "code", "S3Key": "large.zip"}
    call = ApiCall("lambda", "UpdateFunctionCode", "us-east-1", "arn", request)
    reason = r"must be smaller than 262144000 bytes \(the zip itself has 262144001"
    with pytest.raises(AwsError, match=reason) as refusal:
        functions.operations["UpdateFunctionCode"](call)
    assert refusal.value.code == "InvalidParameterValueException"


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        *rows(__file__, "cases.yaml", "refused_functions"),
        # recorded by LocalStack: test_large_environment_variables_fails
        ({"Environment": {"Variables": {"LARGE": "x" * 4096}}}, "exceeded the 4KB limit"),
    ],
)
def test_what_cannot_run_is_refused_by_name(
    account: Account, settings: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ClientError, match=f"InvalidParameterValueException.*{reason}"):
        account.function(ECHO, **settings)


def test_a_role_that_lambda_may_not_assume_is_refused(account: Account) -> None:
    role = account.role({"Service": "sagemaker.amazonaws.com"})
    with pytest.raises(ClientError, match="its trust policy does not allow this principal"):
        account.function(ECHO, Role=role)


def test_a_deleted_function_is_not_found(account: Account) -> None:
    name = account.function(ECHO)
    account.client("lambda").delete_function(FunctionName=name)
    with pytest.raises(ClientError, match="Function not found"):
        account.invoke(name)


def test_a_zip_that_reaches_outside_its_folder_is_refused_and_leaves_nothing(
    account: Account,
) -> None:
    reason = r"Could not unzip uploaded file: '\.\./main\.py' would be written outside"
    with pytest.raises(ClientError, match=reason):
        account.function(ECHO, "../main.py", FunctionName="slip")
    assert not list((account.state_dir / "lambda" / "slip").glob("*"))


def test_a_zip_whose_unpacking_breaks_off_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_off(_archive: IO[bytes], target: Path, _most_bytes: int) -> None:
        (target / "main.py").touch()
        raise MemoryError

    monkeypatch.setattr(model, "unpack_zip", break_off)
    with pytest.raises(MemoryError):
        model.unpack(zipped(ECHO), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_function_whose_process_cannot_be_started_leaves_no_folder(account: Account) -> None:
    name = account.function(ECHO)
    code = account.state_dir / "lambda" / name
    code.rename(code.with_suffix(".away"))
    with pytest.raises(ClientError, match="No such file"):
        account.invoke(name)
    assert not list((account.state_dir / "lambda" / "tmp").glob(f"{name}-*"))


def test_a_process_that_cannot_be_started_leaves_no_file_open(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(FileNotFoundError):
        Sandbox(tmp_path / "missing", {}, ProcessRegistry(tmp_path / "processes"), "lambda")
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.parametrize("name", ["f", "1", "_", "x" * 64])
def test_a_function_of_any_name_that_lambda_takes_is_invoked(account: Account, name: str) -> None:
    account.function(ECHO, FunctionName=name)
    assert account.invoke(name, 7)["payload"] == {"event": 7}
    account.client("lambda").delete_function(FunctionName=name)


WRITTEN = {
    "an answer": '\'{"payload": "7", "max_memory_kib": 1}\\n\'',
    "no JSON": "'x\\n'",
    "another kind of JSON": "'7\\n'",
    "the beginning of a line": "'x'",
}


@pytest.mark.parametrize("text", WRITTEN.values(), ids=WRITTEN)
def test_what_a_function_writes_beside_its_answer_is_an_error_and_no_later_answer(
    account: Account, text: str
) -> None:
    source = (
        "import os, sys\ndef handler(event, context):\n    if event:\n"
        f"        os.write(int(sys.argv[2]), {text.encode()!r})\n"
        "    return context.aws_request_id\n"
    )
    name = account.function(source)
    spoilt = account.invoke(name, True)["payload"]
    assert spoilt["errorType"] == "Runtime.UnknownAnswer"
    assert "wrote to the descriptor" in spoilt["errorMessage"]
    assert len({str(account.invoke(name, False)["payload"]) for _ in range(3)}) == 3


def test_what_a_function_starts_in_a_session_of_its_own_ends_with_the_function(
    account: Account,
) -> None:
    source = (
        "import subprocess\ndef handler(event, context):\n    return subprocess.Popen(['sleep',"
        " '600'], start_new_session=True).pid\n"
    )
    name = account.function(source)
    pid = account.invoke(name)["payload"]
    assert started_at(pid) is not None
    account.client("lambda").delete_function(FunctionName=name)
    assert eventually(lambda: started_at(pid) is None)


ANSWER = "(event, context) => ({ event, name: context.functionName })"
CALLBACK = (
    "(event, context, done) => setTimeout(() => done(null, { event, name: context.functionName }))"
)


@pytest.mark.parametrize("runtime", ["nodejs20.x", "nodejs22.x", "nodejs24.x"])
@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("main.js", f"exports.handler = async {ANSWER};"),
        ("main.js", f"exports.handler = {CALLBACK};"),
        ("main.cjs", f"module.exports = {{ handler: async {ANSWER} }};"),
        ("main.mjs", f"await null; export const handler = async {ANSWER};"),
        ("main.js", f"export const handler = async {ANSWER};"),
    ],
)
def test_a_node_function_answers(account: Account, runtime: str, name: str, source: str) -> None:
    created = account.function(f"console.log('loaded'); {source}", name, Runtime=runtime)
    for event in ({"number": 7}, None):
        answer = account.invoke(created, event)
        assert answer["payload"] == {"event": event, "name": created}
    assert any("loaded" in line for line in account.log(created))


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("main.js", "const { S3 } = require('@aws-sdk/client-s3'); exports.handler"),
        ("main.mjs", "import { S3 } from '@aws-sdk/client-s3'; export const handler"),
    ],
)
def test_the_aws_sdk_calls_as_the_functions_role(account: Account, name: str, head: str) -> None:
    bucket = account.bucket()
    request = f"{{ Bucket: '{bucket}', Key: 'a/b', Body: 'c' }}"
    source = f"{head} = async () => (await new S3().putObject({request})).ETag;"
    role = account.role(None, allow("s3:*"))
    assert account.invoke(account.function(source, name, Role=role))["payload"]
    assert account.client("s3").get_object(Bucket=bucket, Key="a/b")["Body"].read() == b"c"


@pytest.mark.parametrize(
    "source",
    [
        "require('@aws-sdk/client-none');",
        "import a from '@aws-sdk/client-none';",
        "await import('@aws-sdk/client-none');",
    ],
)
def test_a_package_that_is_not_there_says_how_to_install_it(account: Account, source: str) -> None:
    name = "main.js" if source.startswith("require") else "main.mjs"
    error = account.invoke(account.function(source, name))["payload"]
    assert error["errorType"] == "Runtime.ImportModuleError"
    assert f"npm install --prefix {sys.prefix} @aws-sdk/client-none" in error["errorMessage"]
