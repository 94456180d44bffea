"""`python -m tests.examples.run`: runs both examples for real against a shoal-local of its own.

It works in the tests' checkout, with their `dev`, which nobody edits for accounts of their own, the
example's `sdk` and its twin for TensorFlow. SageMaker's SDK is in `.shoal/examples`.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.repository import CHECKOUT, ROOT

EXAMPLES = CHECKOUT / "examples"
PYTHON = str(CHECKOUT / ".shoal" / "examples" / "bin" / "python")


def main() -> None:
    """Run the examples; what they deploy goes with shoal-local."""
    sdk = (EXAMPLES / "sdk.yaml").read_text(encoding="utf-8")
    for name, text in (("sdk", sdk), ("sdk-tf", for_tensorflow(sdk))):
        (ROOT / "environments" / f"{name}.yaml").write_text(text, encoding="utf-8")
    exports = shoal("local", "up")
    try:
        shoal("deploy", "dev", "--local")
        shoal("data", "upload", "dev", "--local")
        variables = dict(re.findall(r"export (\w+)=(\S+)", exports))
        run(str(EXAMPLES / "train_without_pipeline.py"), **variables)
        shoal("check")
        shoal("deploy", "sdk", "--local")
        shoal("data", "upload", "sdk", "--local")
        shoal("run", "sdk", "--local", "--follow")
    finally:
        shoal("local", "down")


def for_tensorflow(text: str) -> str:
    """Return the same environment for TensorFlow, whose jobs need one hyperparameter more."""
    return text.replace("name: sdk", "name: sdk-tf").replace(
        "training:\n", "training:\n  framework: tensorflow\n"
    )


def shoal(*arguments: str) -> str:
    """Run `shoal` with the packages of the examples, and return what it printed."""
    return run("-m", "shoal.cli", "--root", str(ROOT), *arguments)


def run(*words: str, **variables: str) -> str:
    """Run their Python to its end in the checkout and show what it prints.

    Raise CalledProcessError unless it ends with 0.
    """
    print("==", *words, flush=True)
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(Path.home()),
        "PYTHONDONTWRITEBYTECODE": "1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    with subprocess.Popen(
        [PYTHON, *words], cwd=ROOT, env=environment | variables, stdout=subprocess.PIPE, text=True
    ) as process:
        lines = []
        for line in process.stdout or ():
            print(line, end="", flush=True)
            lines.append(line)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, words)
    return "".join(lines)


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(f"examples: {error}")
