"""What the emulator forgets of the environment in which it starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = """
import os, urllib.request
from shoal_local.__main__ import isolate
isolate()
print(os.environ.get("AWS_PROFILE"), os.environ.get("https_proxy"), bool(urllib.request.proxy_bypass("localhost")))
"""  # noqa: E501


def test_neither_the_users_profile_nor_a_proxy_stands_between_the_emulator_and_itself() -> None:
    users = {
        "PATH": os.environ["PATH"],
        "AWS_PROFILE": "mine",
        "HTTP_PROXY": "http://proxy:3128",
        "https_proxy": "http://proxy:3128",
    }
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        env=users,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.stdout.split() == ["None", "None", "True"], result.stderr
