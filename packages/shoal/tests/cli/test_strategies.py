"""`shoal plan --strategies` and what `shoal check` and `shoal demo` say of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from shoal.cli.main import main
from shoal.settings.loading.loader import strategy_names
from tests.repository import ROOT


def test_every_overlay_is_listed_with_its_launcher(capsys: pytest.CaptureFixture[str]) -> None:
    """AllGather is shown with the launcher that it really has."""
    assert main(["--root", str(ROOT), "plan", "dev", "--strategies"]) == 0
    lines = capsys.readouterr().out.splitlines()
    (allgather,) = [line for line in lines if line.startswith("smddp-allgather ")]
    assert allgather.endswith("torchrun  torchrun on every host")
    assert [line.split()[0] for line in lines[1:-2]] == strategy_names(ROOT)
    assert re.search(
        r"^horovod +pytorch 2\.0\.0 +1 x ml\.p4d\.24xlarge +mpirun +mpirun, and the script on every"
        r" rank$",
        lines[1],
    )


def test_an_overlay_that_does_not_fit_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--root", str(ROOT), "plan", "prod", "--strategies"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:-2]] == strategy_names(ROOT)
    (row,) = [line for line in lines if line.startswith("none ")]
    reason = "does not fit: training.instance_count = 2: none runs on one instance; "
    assert re.match(rf"none +- +- +- +{re.escape(reason)}", row)


def test_an_environment_that_is_not_there_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--root", str(ROOT), "plan", "nowhere", "--strategies"]) == 2
    assert 'there is no environment "nowhere"' in capsys.readouterr().err


def test_every_strategy_has_a_page() -> None:
    pages = {path.stem for path in (ROOT / "docs" / "strategies").glob("*.md")}
    assert set(strategy_names(ROOT)) - pages == set()


def test_an_unknown_strategy_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["demo", "--strategy", "ring", "--output", str(tmp_path / "out")]
    assert main(["--root", str(ROOT), *arguments]) == 2
    assert 'there is no strategy "ring"; there are: horovod, mirrored' in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_check_warns_of_images_without_patches(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--root", str(ROOT), "check"]) == 0
    assert (
        "warning (dev, prod, staging): training.framework_version: AWS's images of PyTorch 2.3.0"
        " have had no" in capsys.readouterr().out
    )
