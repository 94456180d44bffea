"""Runs a program of `programs` with a client's own interpreter against a running emulator."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from local_kit.sagemaker_account import BUCKET, Account

ROOT = Path(__file__).resolve().parents[4]
PROGRAMS = Path(__file__).with_name("programs")
LIMIT_S = 1800
EVERYTHING = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}],
}


@dataclass(frozen=True)
class Outcomes:
    """What the cases of one program came to."""

    report: dict[str, Any]

    def __getitem__(self, case: str) -> Any:
        """Return the case's value; fail the test with the case's traceback if it has none."""
        outcome = self.report["outcomes"][case]
        if "error" in outcome:
            pytest.fail(f"{case}:\n{outcome['error']}", pytrace=False)
        return outcome["value"]

    @property
    def hosts(self) -> list[str]:
        """Return the names that the program looked up."""
        return list(self.report["hosts"])


def interpreter(client: str) -> Path:
    """Return the interpreter of a client's environment; fail the test if it is not installed."""
    python = ROOT / ".shoal" / client / "bin" / "python"
    if not python.exists():
        pytest.fail(f"{client} is not installed: run `python3 dev/tools/install.py sdks`")
    return python


def role(account: Account) -> str:
    """Return a role that may do everything, as the SDK v3 looks whether it may train."""
    account.client("iam").put_role_policy(
        RoleName="jobs", PolicyName="everything", PolicyDocument=json.dumps(EVERYTHING)
    )
    return account.role


def environment(account: Account, folder: Path) -> dict[str, str]:
    """Return the variables of docs/guides/clients.md, and nothing else of AWS."""
    return account.environment() | {
        "HOME": str(folder),
        "CASES_BUCKET": BUCKET,
        "CASES_ROLE": role(account),
        "SAGEMAKER_SUPPRESS_V2_WARNING": "1",
    }


def run(client: str, program: str, account: Account, folder: Path, *cases: str) -> Outcomes:
    """Run the cases of a program (all, unless some are named), and return what they came to."""
    report = folder / "report.json"
    process = subprocess.run(
        [interpreter(client), PROGRAMS / program, report, *cases],
        cwd=folder,
        env=environment(account, folder),
        capture_output=True,
        text=True,
        errors="replace",  # threads of the program share its output, and tear characters apart
        timeout=LIMIT_S,
        check=False,
    )
    (folder / "output.txt").write_text(process.stdout + process.stderr)
    if not report.exists():
        pytest.fail(f"{program} ended with {process.returncode}:\n{process.stderr[-4000:]}")
    return Outcomes(json.loads(report.read_text()))
