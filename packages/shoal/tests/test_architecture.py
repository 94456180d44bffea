"""What import-linter cannot see: code that runs without our packages, and the lock files.

The layers themselves are contracts in pyproject.toml (`lint-imports`).
"""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
SHOAL, LOCAL = "packages/shoal/src/shoal", "packages/shoal-local/src/shoal_local"
INSIDE = f"{LOCAL}/sagemaker/container/inside"
STAND_IN = {"torch", "tensorflow", "numpy", "mpi4py", "setuptools", "shoal_stand_ins"}
ALONE = {
    f"{SHOAL}/functions": {"boto3", "botocore", "jmespath"},  # boto3 needs jmespath
    f"{SHOAL}/functions/pages": {"shoal"},  # packed: tests/functions/test_pages.py
    "training_code/common": {"torch", "common", "mlflow"},  # what lacks MLflow's client says so
    "training_code/language": {"torch", "common", "ts"},  # ts is TorchServe, where it answers
    "training_code/mnist": {"torch", "common", "tensorflow", "numpy", "smdistributed", "horovod"},
    "packages/stand-ins/common": STAND_IN,
    "packages/stand-ins/smddp": STAND_IN | {"smdistributed"},
    "packages/stand-ins/horovod": STAND_IN | {"horovod"},
    INSIDE: {
        "numpy",
        "tensorflow",
        "requests",
        "paramiko",
        "cryptography",
        "gevent",  # with gunicorn, in the image of scikit-learn
        "gunicorn",
    },
}
"""Folder -> packages that are there where its files run: on Lambda, or in a job's image."""
PREPARE = "prepare.py"
"""It runs where `shoal data upload` does."""
NO_PACKAGES = {
    "dev/bench/peers": "programs that a peer's launcher starts",
    "dev/docs": "the configuration of Sphinx",
    INSIDE: "programs that run in a job's container",
    f"{SHOAL}/template": "what `shoal new` copies",
    f"{SHOAL}/functions": "code of Lambda functions, whose root is their folder",
}
"""Folder -> what its Python files are, if nothing imports them as a part of a package."""

OF_ANY_WORKLOAD = (
    "app.py",
    "pipelines",
    "stacks",
    "packages/shoal/src",
    "packages/shoal-local/src",
    "environments/schema.json",
    "training_code/schema.json",
)
"""What knows no model: every workload is to them what MNIST is."""
OF_ONE_WORKLOAD = {
    f"{SHOAL}/template/classification/": "a workload of its own, which `shoal new` copies",
}


def _tracked(*places: str) -> list[str]:
    """Return the text files of these folders that git knows, or would add."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *places]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    files = [name for name in names.splitlines() if (ROOT / name).is_file()]
    assert {name.split("/")[0] for name in files} == {place.split("/")[0] for place in places}
    return [name for name in files if b"\0" not in (ROOT / name).read_bytes()]


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module


@pytest.mark.parametrize("folder", sorted(ALONE))
def test_code_that_runs_elsewhere_imports_only_what_is_there(folder: str) -> None:
    files = [
        path
        for path in (ROOT / folder).rglob("*.py")
        if "build" not in path.parts and path.name != PREPARE
    ]
    assert files, f"{folder} has no Python files: the table is out of date"
    table = yaml.safe_load((ROOT / SHOAL / "constructs" / "functions.yaml").read_text("utf-8"))
    packed = {row["code"]: row.get("with", ()) for row in table.values()}
    wrong = [
        f"{path.relative_to(ROOT)} imports {module}"
        for path in files
        if folder == max((each for each in ALONE if path.is_relative_to(ROOT / each)), key=len)
        for module in _imports(path)
        if module.split(".")[0]
        not in ALONE[folder]
        | sys.stdlib_module_names
        | {file.stem for file in path.parent.glob("*.py")}
        | {Path(name).stem for name in packed.get(f"{path.parent.name}/{path.stem}", ())}
    ]
    assert wrong == []


def test_import_linter_sees_every_folder_with_python() -> None:
    """It skips a folder without an `__init__.py`, and so every import there."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    names = settings["tool"]["importlinter"]["root_packages"]
    roots = [{"shoal": SHOAL, "shoal_local": LOCAL}.get(name, name) for name in names]
    files = [Path(name) for name in _tracked(*roots) if name.endswith(".py")]
    folders = {file.parent for file in files if not (ROOT / file.parent / "__init__.py").exists()}
    listed = {
        folder: [each for each in folders if each.is_relative_to(folder)] for folder in NO_PACKAGES
    }
    assert folders == {each for some in listed.values() for each in some}
    assert [folder for folder, some in listed.items() if not some] == []


def test_tests_of_shoal_local_import_nothing_of_the_product() -> None:
    ours = {"app", "dev", "examples", "pipelines", "shoal", "stacks"}
    wrong = [
        f"{path.relative_to(ROOT)} imports {module}"
        for path in (ROOT / "packages" / "shoal-local" / "tests").rglob("*.py")
        for module in _imports(path)
        if module.split(".")[0] in ours
    ]
    assert wrong == []


def test_no_product_code_handles_the_error_of_what_shoal_local_does_not_emulate() -> None:
    """An operation that is missing there fails a test, and never passes for a missing resource."""
    product = _tracked("app.py", "packages/shoal/src", "pipelines", "stacks")
    code = "UnknownOperationException"
    assert [name for name in product if code in (ROOT / name).read_text(encoding="utf-8")] == []


@pytest.mark.parametrize("place", ["app.py", "stacks", "pipelines"])
def test_what_a_team_owns_imports_the_library_and_the_cdk(place: str) -> None:
    files = [ROOT / name for name in _tracked(place)]
    roots = {module.split(".")[0] for file in files for module in _imports(file)}
    ours = {"aws_cdk", "constructs", "pipelines", "shoal", "stacks"}
    assert roots - sys.stdlib_module_names <= ours


def test_no_message_names_a_path_that_an_installed_package_lacks() -> None:
    texts = {
        name: [*_texts(ROOT / name)]
        for name in _tracked("packages/shoal/src", "pipelines", "stacks")
        if name.endswith((".py", ".yaml"))
    }
    wrong = {
        name: text
        for name, some in texts.items()
        for text in some
        if re.search(r"packages/.* | packages/", text)
    }
    assert wrong == {}


def _texts(path: Path) -> Iterator[str]:
    """Yield what a program may print of a file: its strings, but for docstrings, or its values."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".yaml":
        lines = (line.partition(" #")[0] for line in source.splitlines())
        yield from (line for line in lines if not line.lstrip().startswith("#"))
        return
    nodes = [*ast.walk(ast.parse(source))]
    docs = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value


def test_lock_files_name_no_registry_and_no_version_range() -> None:
    runtimes = ROOT / "packages" / "shoal-local" / "src" / "shoal_local" / "runtimes"
    for lock in [*ROOT.glob("requirements*.txt"), *runtimes.glob("*.txt")]:
        for line in lock.read_text(encoding="utf-8").splitlines():
            pinned = "==" in line and "://" not in line
            accepted = line.startswith(("#", "-r ", "    --hash=sha256:"))
            assert accepted or pinned, f"{lock.name}: {line}"
    assert '"resolved"' not in (ROOT / "package-lock.json").read_text(encoding="utf-8")


def test_nothing_but_a_workload_knows_what_is_trained() -> None:
    words = re.compile(
        r"mnist|handwritten|(test|ten|each) digits?\b|\[['\"]digit|images?(/s\b|_per_| per second)"
        r"|accuracy",
        re.I,
    )
    lines = [
        f"{file}:{number}: {line.strip()}"
        for file in _tracked(*OF_ANY_WORKLOAD)
        if not file.startswith(tuple(OF_ONE_WORKLOAD))
        for number, line in enumerate((ROOT / file).read_text("utf-8").splitlines(), 1)
        if words.search(line)
    ]
    assert lines == []
