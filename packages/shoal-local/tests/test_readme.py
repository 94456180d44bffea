"""What packages/shoal-local/README.md says, typed in an empty virtual environment."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from local_kit.commands import printed, unused_ports
from tests.control.test_clis import node

LOCAL = Path(__file__).resolve().parents[1]
CHECKOUT = LOCAL.parents[1]
CDK = CHECKOUT / "node_modules" / ".bin"
PORT = "4566"
"""The README's. Another one is typed, which is free."""
MANIFEST = {
    "version": "36.0.0",
    "artifacts": {
        "Data": {
            "type": "aws:cloudformation:stack",
            "environment": "aws://111122223333/us-east-1",
            "properties": {"templateFile": "Data.template.json"},
        }
    },
}
TEMPLATE = {"Resources": {"Bucket": {"Type": "AWS::S3::Bucket"}}}

pytestmark = [pytest.mark.registry, pytest.mark.nightly, pytest.mark.timeout(1200)]


def blocks(language: str) -> list[str]:
    """Return the code blocks of a language."""
    text = (LOCAL / "README.md").read_text(encoding="utf-8")
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [block for name, block in found if name == language]


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The variables of a user whose shell is in an empty virtual environment."""
    folder = tmp_path_factory.mktemp("readme")
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True, timeout=120)
    # the reader has node, cdk and aws
    own = [folder / "venv" / "bin", Path(node()).parent, CDK, Path(sys.executable).parent]
    path = ":".join([*map(str, own), os.environ["PATH"]])
    return {"HOME": str(folder), "PATH": path, "VIRTUAL_ENV": str(folder / "venv")}


def typed(commands: str, shell: dict[str, str], folder: Path) -> str:
    """Return what `commands` print; each must go well."""
    bash = ("bash", "-euo", "pipefail", "-c")
    return printed(*bash, commands, cwd=folder, env=shell, timeout=900)


@contextmanager
def served(command: str, shell: dict[str, str]) -> Iterator[str]:
    """Run `shoal-local serve` at a free port until it answers; yield the line that it printed."""
    words = command.replace(PORT, str(next(unused_ports()))).split()
    with subprocess.Popen(words, env=shell, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline()
        finally:
            process.terminate()
        assert process.wait(30) == 0


def test_its_commands_work_one_after_the_other(shell: dict[str, str], tmp_path: Path) -> None:
    install, use = blocks("")
    pip, serve = install.splitlines()
    typed(pip, shell, CHECKOUT)
    assembly = tmp_path / "cdk.out"
    assembly.mkdir()
    (assembly / "manifest.json").write_text(json.dumps(MANIFEST))
    (assembly / "Data.template.json").write_text(json.dumps(TEMPLATE))
    (tmp_path / "cdk.json").write_text(json.dumps({"app": "cdk.out"}))
    with served(serve, shell) as ready:
        assert json.loads(ready)["account"] == "111122223333"
        listed = typed(f"{use}\naws cloudformation list-stacks", shell, tmp_path)
    assert '"StackStatus": "CREATE_COMPLETE"' in listed


def test_its_test_passes(shell: dict[str, str], tmp_path: Path) -> None:
    (example,) = blocks("python")
    (tmp_path / "test_example.py").write_text(f"import boto3\n\n\n{example}")
    typed("pip install './packages/shoal-local[pytest]'", shell, CHECKOUT)
    assert "1 passed" in typed("pytest test_example.py", shell, tmp_path)
