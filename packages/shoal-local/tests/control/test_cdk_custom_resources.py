"""The CDK's own custom resources: a stack with them is deployed, and leaves nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from local_kit.control import running
from tests.control.test_cdk import APP, Cdk, contents, node

pytestmark = pytest.mark.nightly


@pytest.mark.parametrize("options", [(), ("--enforce-iam",)])
def test_a_stack_with_them_is_deployed_and_destroyed(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    with running(tmp_path / "state", *options) as account:
        cdk = Cdk(account, str(tmp_path / "cdk.out"))
        environment = {**account.environment(), "CDK_OUTDIR": cdk.assembly, "JSII_NODE": node()}
        program = [sys.executable, str(APP.with_name("custom_resources.py"))]
        subprocess.run(program, env=environment, check=True, timeout=120)
        cdk("bootstrap", "aws://111122223333/us-east-1")
        before = contents(account)
        cdk("deploy", "--method=direct", "--require-approval", "never", "custom")
        outputs = account.settled("custom")["Outputs"]
        values = {each["OutputKey"]: each["OutputValue"] for each in outputs}
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
