"""The fixture `sagemaker_local`, as people use it who have installed the wheel: by a pytest of its
own, which finds the plugin by its entry point.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

import pytest

from shoal_local import pytest_plugin
from shoal_local.testing import listener

pytest_plugins = ["pytester"]

MODULE = """
import os
import boto3

seen = []

def test_it_starts_empty(sagemaker_local):
    ssm = boto3.client("ssm")
    assert ssm.describe_parameters()["Parameters"] == []
    ssm.put_parameter(Name="of-{name}", Value="1", Type="String")
    seen.append(sagemaker_local.number)

def test_it_is_the_modules(sagemaker_local):
    (parameter,) = boto3.client("ssm").describe_parameters()["Parameters"]
    assert parameter["Name"] == "of-{name}"
    assert seen == [boto3.client("sts").get_caller_identity()["Account"]]
    assert boto3.client("sqs").meta.region_name == "us-west-2"

def test_it_is_gone_after_the_test():
    assert os.environ["AWS_PROFILE"] == "theirs"
    assert not {{"AWS_ENDPOINT_URL", "SAGEMAKER_USER_CONFIG_OVERRIDE"}} & set(os.environ)
"""


def test_each_module_has_an_account_that_boto3_finds(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "theirs")
    pytester.makeini("[pytest]\nsagemaker_local_options = --region us-west-2")
    pytester.makepyfile(**{f"test_{name}": MODULE.format(name=name) for name in ("one", "two")})
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=6)


def test_a_run_that_does_not_use_it_loads_nothing() -> None:
    program = "import sys, shoal_local.pytest_plugin; print(*sys.modules)"
    process = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    ours = {name for name in process.stdout.split() if name.startswith("shoal_local")}
    assert ours == {"shoal_local", "shoal_local.pytest_plugin"}
    assert not {"boto3", "moto", "yaml"} & set(process.stdout.split())


@pytest.mark.nightly
def test_when_the_accounts_are_used_up_the_next_emulator_has_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pytest_plugin, "ACCOUNTS_PER_EMULATOR", 1)
    with contextlib.closing(pytest_plugin._unused_accounts(tmp_path, [])) as accounts:
        first, second = next(accounts), next(accounts)
        assert listener(first.endpoint) == []
        assert second.client("sts").get_caller_identity()["Account"] == second.number
    assert listener(second.endpoint) == []
