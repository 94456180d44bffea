"""Runs every example for real against a shoal-local of its own: `make examples`.

`python examples/run.py [script] [sdk]` runs one of them. First installs examples/requirements.txt
into .shoal/examples/venv (SageMaker's SDK v3 and its dependencies: about 1 GB). Works in a checkout
of its own, .shoal/examples/checkout, so that it does not meet what a person runs in this one. Uses
the standard library only.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HERE = ROOT / "examples"
WORK = ROOT / ".shoal" / "examples"
CHECKOUT, PYTHON = WORK / "checkout", WORK / "venv" / "bin" / "python"
_COPIES = {"app.py", "environments"}  # the app looks for the environments in its own folder
_COPIED = {"images", "pipelines", "training_code"}  # nothing is read through links there
_NOT_LINKED = {".git", ".shoal", "cdk.out", "demo-out"} | _COPIES
PARTS = ("script", "sdk")


def main(arguments: list[str]) -> int:
    """Run the examples; 0 if every one did what it says."""
    names = arguments or PARTS
    if set(names) - set(PARTS):
        print(f"examples: the parts are {', '.join(PARTS)}", file=sys.stderr)
        return 2
    try:
        install()
        make_checkout()
        with emulator() as variables:
            run_examples(names, variables)
    except subprocess.CalledProcessError as error:
        print(f"examples: {error}", file=sys.stderr)
        return 1
    return 0


def run_examples(names: Sequence[str], variables: dict[str, str]) -> None:
    """Run the chosen examples; what they deploy goes with shoal-local."""
    if "script" in names:
        shoal("deploy", "dev", "--local")
        shoal("data", "upload", "dev", "--local")
        run("the script", [str(PYTHON), str(HERE / "train_without_pipeline.py")], variables)
    if "sdk" in names:
        shoal("check")
        shoal("deploy", "sdk", "--local")
        shoal("data", "upload", "sdk", "--local")
        shoal("run", "sdk", "--local", "--follow")


def install() -> None:
    """Create the virtual environment, once per lock; our packages lie in it as in Shoal's own."""
    lock, stamp = HERE / "requirements.txt", WORK / "venv" / ".stamp"
    ours = [ROOT / "packages" / name for name in ("shoal", "shoal-local")]
    files = [lock, *(folder / "pyproject.toml" for folder in ours)]
    identity = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
    if stamp.is_file() and stamp.read_text() == identity:
        return
    print("installing examples/requirements.txt, shoal and shoal-local ...", flush=True)
    venv.create(WORK / "venv", with_pip=True, clear=True, symlinks=True)
    # without dependencies: the lock is complete
    pip("--require-hashes", "--no-deps", "-r", str(lock))
    pip("--no-deps", *(word for folder in ours for word in ("--editable", str(folder))))
    stamp.write_text(identity)


def pip(*arguments: str) -> None:
    """Install into the virtual environment; show what pip said if it cannot."""
    quiet = ("--quiet", "--disable-pip-version-check")
    command = [str(PYTHON), "-m", "pip", "install", *quiet, *arguments]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode:
        print(process.stderr[-2000:], file=sys.stderr)
        raise subprocess.CalledProcessError(process.returncode, "pip install")


def make_checkout() -> None:
    """Make the checkout from links to this one; two files are copies.

    Its environments are the tests' `dev`, which nobody edits for accounts of their own, the
    example's `sdk` and its twin for TensorFlow.
    """
    shutil.rmtree(CHECKOUT, ignore_errors=True)
    (CHECKOUT / "environments").mkdir(parents=True)
    (CHECKOUT / ".shoal").mkdir()
    for entry in ROOT.iterdir():
        if entry.name in _COPIED:
            shutil.copytree(entry, CHECKOUT / entry.name)
        elif entry.name not in _NOT_LINKED:
            (CHECKOUT / entry.name).symlink_to(entry)
    (CHECKOUT / ".shoal" / "runtimes").symlink_to(ROOT / ".shoal" / "runtimes")
    shutil.copy(ROOT / "app.py", CHECKOUT)
    (CHECKOUT / "environments" / "strategies").symlink_to(ROOT / "environments" / "strategies")
    fixtures = ROOT / "packages" / "shoal" / "tests" / "fixtures" / "environments"
    shutil.copy(fixtures / "dev.yaml", CHECKOUT / "environments")
    shutil.copy(HERE / "sdk.yaml", CHECKOUT / "environments")
    (CHECKOUT / "environments" / "sdk-tf.yaml").write_text(
        for_tensorflow((HERE / "sdk.yaml").read_text(encoding="utf-8"))
    )


def for_tensorflow(text: str) -> str:
    """Return the same environment for TensorFlow, whose jobs need one hyperparameter more."""
    return text.replace("name: sdk", "name: sdk-tf").replace(
        "training:\n", "training:\n  framework: tensorflow\n"
    )


@contextmanager
def emulator() -> Iterator[dict[str, str]]:
    """Start shoal-local and yield the variables that `shoal local up` prints."""
    exports = shoal("local", "up")
    try:
        yield dict(re.findall(r"export (\w+)=(\S+)", exports))
    finally:
        shoal("local", "down")


def shoal(*arguments: str) -> str:
    """Run `shoal` in the examples' checkout, with their packages, and return what it printed."""
    return run(
        f"shoal {' '.join(arguments)}",
        [str(PYTHON), "-m", "shoal.cli", "--root", str(CHECKOUT), *arguments],
        {},
    )


def run(what: str, command: list[str], variables: dict[str, str]) -> str:
    """Run a command to its end in the checkout and show what it prints.

    Raise CalledProcessError unless it ends with 0.
    """
    print(f"== {what}", flush=True)
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(Path.home()),
        "PYTHONDONTWRITEBYTECODE": "1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    with subprocess.Popen(
        command, cwd=CHECKOUT, env=environment | variables, stdout=subprocess.PIPE, text=True
    ) as process:
        lines = []
        for line in process.stdout or ():
            print(line, end="", flush=True)
            lines.append(line)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, what)
    return "".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
