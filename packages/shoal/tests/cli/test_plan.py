"""`shoal plan` as a user meets it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from shoal.cli.main import main
from tests.cli.documents import document_in
from tests.cli.test_main import checkout, shoal
from tests.repository import ROOT

__all__ = ["checkout"]


def _edit(checkout: Path, old: str, new: str) -> None:
    file = checkout / "environments" / "dev.yaml"
    file.write_text(file.read_text().replace(old, new))


@pytest.fixture
def plan(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Return what `shoal plan` prints of a checkout, or its errors."""

    def run(root: Path, *arguments: str, code: int = 0) -> str:
        assert main(["--root", str(root), "plan", *arguments]) == code
        output = capsys.readouterr()
        return output.err if code else output.out

    return run


def test_it_needs_neither_network_nor_credentials() -> None:
    assert shoal("--root", ".", "plan", "prod").returncode == 0


def test_json_has_the_same_numbers(plan: Callable[..., str]) -> None:
    output = document_in(plan(ROOT, "prod", "--json"))
    assert [stack["name"].removeprefix("shoal-mnist-prod-") for stack in output["stacks"]] == [
        "data",
        "network",
        "pipeline",
        "monitoring",
    ]
    (line,) = output["training"]["lines"]
    assert (line["quantity"], output["training"]["usd_per_hour"]) == (2, 50.5026)


def test_endpoints_and_nat_have_a_price_a_month(checkout: Path, plan: Callable[..., str]) -> None:
    _edit(checkout, "network:\n", "network:\n  nat: true\n  interface_endpoints: [sts]\n")
    rows = [line for line in plan(checkout, "dev").splitlines() if line.startswith("  ")]
    lines = {line.split("  ")[1]: line.split() for line in rows}
    assert lines["interface endpoint sts, one zone"][-1] == "~7.30"
    assert lines["NAT gateway"][-1] == "~32.85"


def test_a_file_system_has_its_price_an_hour(checkout: Path, plan: Callable[..., str]) -> None:
    _edit(checkout, "network:\n", "data: {input_mode: FSx}\nfile_system: {}\nnetwork:\n")
    lines = plan(checkout, "dev").splitlines()
    (line,) = [line for line in lines if "FSx for Lustre SCRATCH_2" in line]
    assert line.split()[-2:] == ["~0.2301", "~168.00"]


def test_an_unknown_price_is_said_to_be_unknown(checkout: Path, plan: Callable[..., str]) -> None:
    _edit(checkout, "strategy: smddp", "strategy: none\n  framework_version: 2.3.0")
    _edit(checkout, 'custom_mpi_options: "-verbose --NCCL_DEBUG VERSION"', "spot: false")
    _edit(checkout, "ml.p4d.24xlarge", "ml.p3.16xlarge")
    output = plan(checkout, "dev")
    assert "unknown: Shoal's costs/prices.yaml has no price" in output
    (line,) = [line for line in output.splitlines() if "training on ml.p3.16xlarge" in line]
    assert line.split()[-1] == "unknown"
