"""app.py as the CDK CLI starts it, gates on: same bytes every time and everywhere, no network, one
line for a user's mistake.
"""

import filecmp
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from local_kit.commands import ended
from tests.repository import CHECKOUT, ROOT
from tests.stacks.test_combinations import smddp_regions

SOURCES = (
    "app.py",
    "cdk.json",
    "environments",
    "node_modules/uplot",  # with the library, what the function has that keeps pages
    "packages/shoal/src",
    "pipelines",
    "stacks",
    "training_code",
)
# Both ends of jsii: the app's Python, and the Node.js that runs the CDK's library.
NO_SOCKETS = {
    "sitecustomize.py": """
import socket
def refuse(*_):
    raise OSError("this test allows no network")
socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = refuse
""",
    "no_sockets.cjs": """
const refuse = () => { throw new Error('this test allows no network') }
require('node:net').Socket.prototype.connect = refuse
require('node:dns').lookup = refuse
""",
}


def run_app(checkout: Path, outdir: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run app.py of the checkout with its own library, not with the one that is installed.

    It has PATH, HOME and `environment` in its environment, which may have another PYTHONPATH.
    """
    minimal = {"PATH": os.environ["PATH"], "HOME": str(Path.home()), "CDK_OUTDIR": str(outdir)}
    minimal["PYTHONPATH"] = str(checkout / "packages" / "shoal" / "src")
    command, variables = (sys.executable, checkout / "app.py"), minimal | environment
    return ended(*command, cwd=checkout, env=variables, timeout=540)


def copied(parent: Path, text: str = "", other: str = "") -> Path:
    """Copy the repository elsewhere, as a fresh clone has it, with another text in dev's file."""
    for name in SOURCES:
        source, target = ROOT / name, parent / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
    dev = parent / "environments" / "dev.yaml"
    dev.write_text(dev.read_text().replace(text, other))
    return parent


def _files(folder: Path) -> list[Path]:
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())


@pytest.fixture(scope="module")
def assembly(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All environments, with every gate on and no network."""
    folder = tmp_path_factory.mktemp("offline")
    for name, content in NO_SOCKETS.items():
        (folder / name).write_text(content)
    blocked = {"PYTHONPATH": str(folder), "NODE_OPTIONS": f"--require={folder / 'no_sockets.cjs'}"}
    process = run_app(ROOT, folder / "cdk.out", **blocked)
    assert process.returncode == 0, process.stderr
    return folder / "cdk.out"


def test_synth_without_network_and_credentials_gives_every_stack_of_every_environment(
    assembly: Path,
) -> None:
    templates = [path.name for path in assembly.glob("assembly-*/*.template.json")]
    assert len(templates) == 4 * len(list((ROOT / "environments").glob("*.yaml")))


@pytest.mark.nightly
def test_another_synth_in_another_folder_gives_the_same_bytes(
    assembly: Path, tmp_path: Path
) -> None:
    again = tmp_path / "elsewhere" / "cdk.out"
    process = run_app(copied(tmp_path / "another-clone"), again)
    assert process.returncode == 0, process.stderr
    assert _files(again) == _files(assembly)
    assert filecmp.cmpfiles(
        assembly, again, [str(path) for path in _files(assembly)], shallow=False
    )[1:] == ([], [])


def test_the_assembly_names_no_path_of_this_machine(assembly: Path) -> None:
    text = b"".join(path.read_bytes() for path in assembly.rglob("*.json"))
    assert str(ROOT).encode() not in text
    assert str(CHECKOUT).encode() not in text
    assert str(assembly).encode() not in text


def test_synth_needs_no_lookup(assembly: Path) -> None:
    assert not [
        path
        for path in assembly.rglob("manifest.json")
        if "missing" in json.loads(path.read_text())
    ]


def assert_passes_cfn_lint(*templates: Path, regions: Sequence[str] = ("us-east-1",)) -> None:
    """W3005: the CDK writes a DependsOn for everything below a construct, also where a reference
    says the same already.
    """
    cfn_lint, ignored = Path(sys.executable).with_name("cfn-lint"), ("--ignore-checks", "W3005")
    process = ended(cfn_lint, "--regions", *regions, *ignored, "--", *templates, timeout=540)
    assert (process.stdout + process.stderr, process.returncode) == ("", 0)


def test_every_template_passes_cfn_lint_in_every_region_of_smddp(assembly: Path) -> None:
    templates = assembly.glob("assembly-*/*.template.json")
    assert_passes_cfn_lint(*templates, regions=smddp_regions())


@pytest.mark.nightly
def test_a_mistake_in_an_environment_file_is_one_line_without_traceback(tmp_path: Path) -> None:
    checkout = copied(tmp_path / "clone", "ml.p4d.24xlarge", "ml.p5.48xlarge")
    process = run_app(checkout, tmp_path / "cdk.out")
    assert process.returncode == 1
    (line,) = process.stderr.splitlines()
    assert line.startswith("environments/dev.yaml")
    assert "smddp" in line


@pytest.mark.nightly
def test_no_template_names_an_account_from_documentation_and_a_line_says_who_is_left_out(
    tmp_path: Path,
) -> None:
    checkout = copied(tmp_path / "clone", "111122223333", "210987654321")
    process = run_app(
        checkout, tmp_path / "cdk.out", CDK_CONTEXT_JSON=json.dumps({"environment": "dev"})
    )
    assert process.returncode == 0, process.stderr
    assert "dev: staging takes releases from here, but its account 222233334444" in process.stderr
    templates = (tmp_path / "cdk.out").glob("assembly-*/*.template.json")
    text = "".join(path.read_text() for path in templates)
    assert "210987654321" in text
    assert "222233334444" not in text
    assert "333344445555" not in text


def test_the_environment_of_the_context_key_is_taken_and_an_unknown_one_is_one_line_that_names_the_known_ones(  # noqa: E501
    tmp_path: Path,
) -> None:
    process = run_app(
        ROOT, tmp_path / "cdk.out", CDK_CONTEXT_JSON=json.dumps({"environment": "production"})
    )
    (line,) = process.stderr.splitlines()
    assert process.returncode == 1
    assert all(name in line for name in ("production", "dev", "staging", "prod"))
