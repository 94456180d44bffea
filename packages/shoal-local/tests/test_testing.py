"""What users' tests have of `shoal_local`: emulators that are one block long and leave nothing, the
fixture `sagemaker_local` by a pytest of its own that finds it by its entry point, and faults: none
without the option, exactly the file's with it, and each is recorded.
"""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from shoal_local import pytest_plugin, testing
from shoal_local.errors import EmulatorError
from shoal_local.faults import Faults, Rule
from shoal_local.testing import LocalAccount, emulator, in_process, listener


def test_after_the_block_nobody_listens_and_no_process_is_left(tmp_path: Path) -> None:
    with emulator(tmp_path / "state") as local:
        assert listener(local.account.endpoint) != []
        assert local.account.client("sts") is local.account.client("sts")
    assert (local.process.returncode, local.leftovers()) == (0, [])


def test_what_is_left_is_an_error_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(testing, "LEFTOVERS_LIMIT_S", 0.0)
    state_dir = tmp_path / "state"
    with pytest.raises(EmulatorError, match=r"left behind: process \d+ sleep 60"):  # noqa: SIM117
        with emulator(state_dir):
            left = subprocess.Popen(["sleep", "60"], env=os.environ | {"FOLDER": str(state_dir)})
    left.kill()
    left.wait()


def test_a_folder_whose_name_begins_like_the_state_directory_is_none_of_its_business(
    tmp_path: Path,
) -> None:
    with emulator(tmp_path / "state10"), emulator(tmp_path / "state1"):
        pass


def test_a_block_may_kill_its_emulator(tmp_path: Path) -> None:
    with emulator(tmp_path / "state") as local:
        local.kill()
    assert not (tmp_path / "state").exists()


def test_an_emulator_that_does_not_start_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EmulatorError, match="exit code 2 at its start"):  # noqa: SIM117
        with emulator(tmp_path / "state", "--port", "none"):
            pass


def test_one_in_this_process_can_be_looked_into(tmp_path: Path) -> None:
    with in_process(tmp_path / "state") as inside:
        LocalAccount.of(inside).client("s3").create_bucket(Bucket="seen-from-inside")
        assert inside.home.number == testing.ACCOUNT_ID
        with pytest.raises(EmulatorError, match="already"), in_process(tmp_path / "second"):
            pass
    assert listener(inside.endpoint_url()) == []


def test_one_in_this_process_knows_nothing_of_the_one_before(tmp_path: Path) -> None:
    for state in ("first", "second", "third"):
        with in_process(tmp_path / state) as inside:
            s3 = LocalAccount.of(inside).client("s3")
            assert s3.list_buckets()["Buckets"] == []
            s3.create_bucket(Bucket="of-each")


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


def faults(folder: Path, *rules: dict[str, Any]) -> Faults:
    file = folder / "faults"
    file.write_text("".join(json.dumps(rule) + "\n" for rule in rules))
    return Faults(file, folder / "faults.jsonl")


def test_without_a_file_nothing_ever_goes_wrong() -> None:
    assert Faults().take("operation", "CreateModel", {}) is None


def test_a_rule_hits_after_those_it_spares_and_as_often_as_it_says(tmp_path: Path) -> None:
    rules = faults(
        tmp_path, {"seam": "operation", "do": "refuse", "name": "Create*", "skip": 1, "times": 2}
    )
    hit = [rules.take("operation", "CreateModel", {}) is not None for _ in range(5)]
    assert hit == [False, True, True, False, False]
    assert rules.take("operation", "DescribeModel", {}) is None


def test_a_rule_of_an_execution_hits_only_what_carries_its_id(tmp_path: Path) -> None:
    rules = faults(tmp_path, {"seam": "operation", "do": "refuse", "execution": "mine"})
    assert rules.take("operation", "CreateModel", {"ModelName": "pipelines-abc-x"}) is None
    rules.began("mine", "abc")
    assert rules.take("operation", "CreateModel", {"ModelName": "pipelines-xyz-x"}) is None
    assert rules.take("operation", "CreateModel", {"ModelName": "pipelines-abc-x"}) is not None


def test_rules_that_come_later_count_once_their_line_is_whole(tmp_path: Path) -> None:
    rules = faults(tmp_path)
    with (tmp_path / "faults").open("a") as stream:
        stream.write('{"seam": "event", ')
        stream.flush()
        assert rules.take("event", "x", {}) is None
        stream.write('"do": "lose"}\n')
    assert rules.take("event", "x", {}) is not None


def test_what_happened_is_written_down(tmp_path: Path) -> None:
    rules = faults(tmp_path, {"seam": "event", "do": "lose", "execution": "mine"})
    rules.happened(Rule("event", "lose", execution="mine"), "x")
    entry = json.loads((tmp_path / "faults.jsonl").read_text())
    assert (
        entry.items() >= {"execution": "mine", "seam": "event", "do": "lose", "name": "x"}.items()
    )


@pytest.mark.parametrize("rule", [("event", "kill"), ("nowhere", "lose")])
def test_what_is_no_fault_is_refused_by_name(rule: tuple[str, str]) -> None:
    with pytest.raises(EmulatorError, match="--faults: "):
        Rule(*rule)
