"""The emulators of `shoal_local.testing`: one block long, and nothing is left of them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from shoal_local import testing
from shoal_local.errors import EmulatorError
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


def test_its_options_are_those_of_serve(tmp_path: Path) -> None:
    accounts = ("--account", "222233334444", "--account", "333344445555")
    with emulator(tmp_path / "state", *accounts) as local:
        other = local.account.other("333344445555")
        assert local.account.number == "222233334444"
        assert other.client("sts").get_caller_identity()["Account"] == "333344445555"


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
