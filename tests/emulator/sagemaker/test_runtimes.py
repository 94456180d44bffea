"""Local runtimes: a lock and local packages become an environment once, and one sentence says what is missing."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from emulator.errors import EmulatorError
from emulator.runtimes import build as building
from emulator.runtimes.catalog import Runtime, accelerators, image, image_patterns
from emulator.runtimes.cli import main
from emulator.sagemaker.jobs.containers import Machine


def small_runtime(folder: Path) -> Runtime:
    """A runtime with nothing locked and one local package."""
    package = folder / "greeter"
    package.mkdir()
    (package / "pyproject.toml").write_text('[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n')
    (package / "setup.py").write_text("from setuptools import setup\nsetup(name='greeter', version='1', py_modules=['greeter'])\n")
    (package / "greeter.py").write_text("WORD = 'hello'\n")
    (folder / "empty.txt").write_text("setuptools==84.2.1\n")
    return Runtime("small", folder / "empty.txt", (package,), "import greeter")


def word(runtime: Runtime, cache: Path) -> str:
    command = [str(runtime.python(cache)), "-c", "import greeter; print(greeter.WORD)"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_a_runtime_is_built_once_and_only_the_changed_local_package_again(tmp_path: Path) -> None:
    runtime, cache = small_runtime(tmp_path), tmp_path / "cache"
    lines: list[str] = []
    building.build(runtime, cache, lines.append)
    built = len(lines)
    building.build(runtime, cache, lines.append)
    assert (word(runtime, cache), len(lines) - built) == ("hello", 1)
    (runtime.local_packages[0] / "greeter.py").write_text("WORD = 'good day'\n")
    assert not runtime.is_built(cache)
    building.build(runtime, cache, lines.append)
    assert (word(runtime, cache), sum("locked packages" in line for line in lines)) == ("good day", 1)


def test_a_build_that_was_interrupted_is_begun_anew(tmp_path: Path) -> None:
    runtime, cache = small_runtime(tmp_path), tmp_path / "cache"
    leftover = runtime.folder(cache) / "lib" / "half-installed"
    leftover.mkdir(parents=True)
    building.build(runtime, cache, lambda _line: None)
    assert (runtime.is_built(cache), leftover.exists()) == (True, False)


def test_a_missing_compiler_is_one_clear_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package = tmp_path / "needs-c"
    package.mkdir()
    (package / "setup.py").write_text("raise SystemExit('error: command gcc failed')\n")
    (tmp_path / "empty.txt").write_text("setuptools==84.2.1\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EmulatorError, match="needs a C compiler, because sagemaker-training builds a small extension"):
        building.build(Runtime("needs-c", tmp_path / "empty.txt", (package,), ""), tmp_path / "cache", lambda _line: None)


def test_a_runtime_that_does_not_import_is_not_built(tmp_path: Path) -> None:
    runtime = small_runtime(tmp_path)
    broken = Runtime(runtime.name, runtime.lock, runtime.local_packages, "import nothing_of_that_name")
    with pytest.raises(EmulatorError, match="No module named 'nothing_of_that_name'"):
        building.build(broken, tmp_path / "cache", lambda _line: None)
    assert not broken.is_built(tmp_path / "cache")


def test_the_command_prints_the_interpreter_of_a_built_runtime(runtime: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["python", "pytorch"]) == 0
    assert capsys.readouterr().out == f"{runtime}\n"


def test_the_command_says_how_to_build_what_is_not_built(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["python", "pytorch", "--cache", str(tmp_path)]) == 1
    assert capsys.readouterr().err == "The runtime pytorch is not built: run `python -m emulator runtime build pytorch`.\n"


@pytest.mark.parametrize(
    ("tag", "use", "known"),
    [
        ("pytorch-training:2.3.0-gpu-py311-cu121-ubuntu20.04-sagemaker", "training", True),
        ("pytorch-training:2.3.0-cpu-py311-ubuntu20.04-sagemaker", "processing", True),
        ("pytorch-inference:2.3.0-cpu-py311-ubuntu20.04-sagemaker", "training", False),
        ("tensorflow-training:2.11.0-gpu-py39-cu112-ubuntu20.04-sagemaker", "training", False),
    ],
)
def test_an_image_is_known_for_its_uses_only(tag: str, use: str, known: bool) -> None:
    assert (image(f"763104351884.dkr.ecr.eu-west-1.amazonaws.com/{tag}", use) is not None) is known
    assert image_patterns(use)


@pytest.mark.parametrize(
    ("instance_type", "cores", "wanted", "hosts", "devices"),
    [
        ("ml.p4d.24xlarge", 2, None, 1, 2),
        ("ml.p4d.24xlarge", 64, None, 1, 8),
        ("ml.p4d.24xlarge", 2, None, 4, 1),
        ("ml.p4d.24xlarge", 2, 4, 1, 4),
        ("ml.g5.xlarge", 8, None, 1, 1),
        ("ml.m5.xlarge", 8, 4, 1, 0),
    ],
)
def test_a_host_shows_the_accelerators_it_has_but_not_more_than_cores(
    instance_type: str, cores: int, wanted: int | None, hosts: int, devices: int
) -> None:
    assert Machine(cores, wanted).accelerators(instance_type, hosts) == devices
    assert accelerators(instance_type) >= min(devices, 1)
