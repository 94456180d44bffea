"""Turn requirements*.in into locked requirements*.txt, with uv.

Each of the three sets adds its packages to those of the sets before it.
dev/bench/requirements-peers.in stands apart: its packages have a virtual environment of their own,
and no hashes, because torch is any build of its version.

The versions of the local runtimes, the examples, SageMaker's SDKs and MLflow are chosen by people,
because some packages ask for what contradicts the others. Only their hashes are written.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SETS = ("requirements", "requirements-local", "requirements-test")
APART = "dev/bench/requirements-peers"
CHOSEN = (
    "packages/shoal-local/src/shoal_local/runtimes/pytorch",
    "packages/shoal-local/src/shoal_local/runtimes/tensorflow",
    "packages/shoal-local/src/shoal_local/runtimes/sklearn",
    "packages/shoal-local/src/shoal_local/runtimes/trainers",
    "images/pytorch-trainers/requirements",
    "images/pytorch-serving/requirements",
    "images/pytorch-serving/trainers",
    "examples/requirements",
    "packages/shoal/tests/goldens/requirements-sdk-v2",
    "packages/shoal/tests/goldens/requirements-sdk-v3",
    "packages/shoal/tests/goldens/requirements-mlflow",
    "dev/docs/requirements",
    "dev/release/requirements",
)
HASHES = "--generate-hashes"
_ENTRY = re.compile(r"^\S[^#\n]*==[^\n]*\n(?:    --hash=[^\n]*\n)*", re.MULTILINE)


def main() -> None:
    """Write all lock files, or none if one cannot be made."""
    locks: dict[str, str] = {}
    known: set[str] = set()
    for number, name in enumerate(SETS):
        files = [f"{each}.in" for each in SETS[: number + 1]]
        entries = compiled(files, HASHES)
        base = f"-r {SETS[number - 1]}.txt\n" if number else ""
        locks[name] = head(name) + base + "".join(each for each in entries if each not in known)
        known.update(entries)
    peers = "".join(compiled([f"{APART}.in"])).replace("+cpu", "")
    locks[APART] = head(APART) + peers
    locks |= {name: with_hashes((ROOT / f"{name}.txt").read_text()) for name in CHOSEN}
    for name, text in locks.items():
        (ROOT / f"{name}.txt").write_text(text, encoding="utf-8")


def with_hashes(text: str) -> str:
    """Return the text of a lock file with the hashes of every package's files."""
    comments = [line for line in text.splitlines() if line.startswith(("#", "-r "))]
    pins = "\n".join(entry.split()[0] for entry in _ENTRY.findall(text))
    entries = compiled(["-"], HASHES, "--no-deps", given=pins)
    return "".join([*(f"{line}\n" for line in comments), *entries])


def head(name: str) -> str:
    """Return a lock file's first line."""
    return f"# Locked from {name}.in by `make lock`. Do not edit.\n"


def compiled(files: list[str], *options: str, given: str = "") -> list[str]:
    """Return the entries that uv makes of the files, or of what is given on its standard input."""
    python = ("--python", sys.executable, "--index-strategy", "unsafe-best-match", "--quiet")
    plain = ("--no-annotate", "--no-header", "--no-emit-index-url", "--no-emit-find-links")
    process = subprocess.run(
        [sys.executable, "-m", "uv", "pip", "compile", *python, *plain, *options, *files],
        cwd=ROOT,
        input=given,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return _ENTRY.findall(process.stdout)


if __name__ == "__main__":
    main()
