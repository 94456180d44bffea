"""Lambda functions in Node.js: what they answer, what they find, how they fail."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from local_kit.control import Account, allow, refused, unique, zipped


def function(account: Account, source: str, name: str = "main.js", **settings: Any) -> str:
    """Create a function of one file in Node.js, and return its name."""
    request = {"Runtime": "nodejs24.x", "Handler": "main.handler", "Timeout": 10, **settings}
    request["Role"] = settings.get("Role") or account.role()
    request["FunctionName"] = unique("node")
    account.client("lambda").create_function(Code={"ZipFile": zipped(source, name)}, **request)
    return str(request["FunctionName"])


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
def test_a_function_answers(account: Account, runtime: str, name: str, source: str) -> None:
    created = function(account, source, name, Runtime=runtime)
    for event in ({"number": 7}, None):
        assert account.invoke(created, event)["payload"] == {"event": event, "name": created}


def test_what_it_prints_is_in_its_log(account: Account) -> None:
    created = function(account, "exports.handler = async () => console.log('hello from here');")
    answer = account.invoke(created)
    tail = base64.b64decode(answer["LogResult"]).decode()
    assert (answer["payload"], "hello from here\n" in tail) == (None, True)


@pytest.mark.parametrize(
    ("source", "kind", "message"),
    [
        (
            "exports.handler = async () => { throw new TypeError('no digit') }",
            "TypeError",
            "no digit",
        ),
        ("exports.handler = (event, context, done) => done(new Error('no'))", "Error", "no"),
        ("exports.handler = () => { throw 'text' }", "string", "text"),
        ("exports.handler = () => process.exit(3)", "Runtime.ExitError", "exit status 3"),
        ("exports.handler = () => new Promise(() => {})", "Sandbox.Timedout", "1.00 seconds"),
        ("require('nothing')", "Runtime.ImportModuleError", "Cannot find module 'nothing'"),
        ("exports.other = 1", "Runtime.HandlerNotFound", "main.handler is undefined"),
        ("exports.handler = async () => 10n", "TypeError", "BigInt"),
    ],
)
def test_a_function_that_fails_answers_with_type_and_message(
    account: Account, source: str, kind: str, message: str
) -> None:
    answer = account.invoke(function(account, source, Timeout=1))
    assert (answer["FunctionError"], answer["payload"]["errorType"]) == ("Unhandled", kind)
    assert message in answer["payload"]["errorMessage"]


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("main.js", "const { S3 } = require('@aws-sdk/client-s3'); exports.handler"),
        ("main.mjs", "import { S3 } from '@aws-sdk/client-s3'; export const handler"),
    ],
)
def test_the_aws_sdk_calls_as_the_functions_role(account: Account, name: str, head: str) -> None:
    bucket = unique("of-node")
    account.client("s3").create_bucket(Bucket=bucket)
    request = f"{{ Bucket: '{bucket}', Key: 'a/b', Body: 'c' }}"
    source = f"{head} = async () => (await new S3().putObject({request})).ETag;"
    role = account.role(None, allow("s3:*"))
    assert account.invoke(function(account, source, name, Role=role))["payload"]
    assert account.client("s3").get_object(Bucket=bucket, Key="a/b")["Body"].read() == b"c"


@pytest.mark.parametrize(
    "source",
    [
        'const a = require("@aws-sdk/client-none");',
        "import a from '@aws-sdk/client-none';",
        'import"@aws-sdk/client-none"',
        "const a = await import( '@aws-sdk/client-none' );",
    ],
)
def test_a_package_that_is_not_there_is_refused_at_the_deployment(
    account: Account, source: str
) -> None:
    request = {"Runtime": "nodejs24.x", "Handler": "main.handler", "Role": account.role()}
    code = {"ZipFile": zipped(source, "main.js")}
    create = account.client("lambda").create_function
    error, message = refused(create, FunctionName=unique("node"), Code=code, **request)
    assert error == "InvalidParameterValueException"
    assert "needs @aws-sdk/client-none" in message
    assert "npm install --prefix" in message
    created = function(account, "exports.handler = async () => 1")
    change = account.client("lambda").update_function_code
    assert refused(change, FunctionName=created, ZipFile=code["ZipFile"])[1] == message
    assert account.invoke(created)["payload"] == 1
