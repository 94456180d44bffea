"""A machine that lacks something gets one sentence; shoal-local does what it is said to do."""

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore import xform_name
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from dev.tools.coverage import REFUSED, RUNS, Coverage, coverage
from dev.tools.install import cdk_text, compile_packages, compile_programs
from shoal_local.testing import LocalAccount, in_process

ROOT = Path(__file__).resolve().parents[5]


def _run(*command: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = os.environ | ({"PATH": path} if path is not None else {})
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=120
    )


def _pretend(change: str) -> subprocess.CompletedProcess[str]:
    """Install in a process that is changed before."""
    program = f"import errno, os, pathlib, runpy, sys\n{change}\nsys.argv = ['install.py']"
    program += "\nrunpy.run_path('dev/tools/install.py', run_name='__main__')"
    return _run(sys.executable, "-c", program)


def test_make_without_a_suitable_python_says_so_in_one_sentence() -> None:
    result = _run("make", "demo", "PYTHON=")
    sentences = [line for line in result.stderr.splitlines() if line.startswith("shoal:")]
    assert result.returncode != 0
    assert len(sentences) == 1
    assert "Python 3.11 or 3.12" in sentences[0]


def test_install_refuses_an_interpreter_of_another_version() -> None:
    result = _pretend("sys.version_info = (3, 9, 1)")
    assert result.returncode == 1
    why = "needs Python 3.11 or 3.12, this is 3.9.1; run `make PYTHON=/path/to/python3.12 ...`"
    assert result.stderr.strip() == f"shoal install: {why}"


def test_install_names_the_parts_it_knows() -> None:
    result = _run(sys.executable, "dev/tools/install.py", "everything")
    assert result.returncode == 2
    assert "tests, runtimes, sdks" in result.stderr


def test_a_disk_that_takes_no_files_is_one_line() -> None:
    result = _pretend(
        "def refuse(path, *_): raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))\n"
        "pathlib.Path.write_text = refuse"
    )
    assert result.returncode == 1
    assert result.stderr.startswith("shoal install: [Errno 30] Read-only file system: ")
    assert len(result.stderr.splitlines()) == 1


def test_a_second_installation_reuses_the_first() -> None:
    result = _run("make", "install")
    assert result.returncode == 0, result.stderr
    assert "done in" not in result.stdout


IMPORTS = """
from shoal.constructs import use_installed_node; use_installed_node()
import {}
import sys; from pathlib import Path
cached = {{name: getattr(module, "__cached__", None) for name, module in [*sys.modules.items()]}}
print([name for name, file in cached.items() if file and not Path(file).exists()])
"""


@pytest.mark.parametrize(
    "modules",
    [
        [
            *("shoal.cli.commands.deployment", "shoal.cli.commands.executions"),
            *("shoal_local.server", "shoal_local.sagemaker.container.pod"),
            "shoal.pipelines.checks.check",
        ],
        ["shoal.constructs.app", "stacks.serving"],
    ],
)
def test_what_commands_import_of_ours_and_of_the_cdk_is_compiled(modules: list[str]) -> None:
    """Most of our processes may not write bytecode, so they must find it."""
    compile_programs()
    compile_packages()
    outcome = _run(sys.executable, "-B", "-c", IMPORTS.format(", ".join(modules)))
    ours = {path.parent.name for path in ROOT.glob("*/__init__.py")} | {"aws_cdk"}
    ours -= {"images"}  # its modules lie next to what is archived
    names = ast.literal_eval(outcome.stdout)
    assert [name for name in names if name.partition(".")[0] in ours] == []


def test_the_cdk_command_needs_no_node_on_the_path(tmp_path: Path) -> None:
    launcher = tmp_path / "cdk"
    launcher.write_text(cdk_text(ROOT / ".venv" / "bin" / "python", ROOT))
    launcher.chmod(0o755)
    said = subprocess.check_output([launcher, "--version"], env={}, text=True)
    locked = json.loads((ROOT / "package-lock.json").read_text())["packages"]
    assert said.startswith(locked["node_modules/aws-cdk"]["version"])


QUICK = Config(retries={"total_max_attempts": 1}, parameter_validation=False, read_timeout=20)
NAMED = "refused by name"
NAMES = {"Bucket": "probe", "Key": "x"}
"""What requests name, because moto takes some that it does not know for those that it knows."""


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[tuple[Any, Coverage]]]:
    """The emulated services, each with a client, and the bucket and the object of NAMES."""
    with in_process(tmp_path_factory.mktemp("coverage") / "state") as emulator:
        account = LocalAccount.of(emulator)
        account.client("s3").create_bucket(Bucket=NAMES["Bucket"])
        account.client("s3").put_object(**NAMES, Body=b"content")
        yield [(account.client(each.service, QUICK), each) for each in coverage(emulator)]


@pytest.mark.nightly
def test_what_is_called_refused_never_succeeds_and_what_runs_is_not_refused(
    services: list[tuple[Any, Coverage]],
) -> None:
    impossible = {(REFUSED, "success"), (RUNS, NAMED)}
    outcomes = [
        (each.service, operation, effect, outcome(client, operation))
        for client, each in services
        for operation, effect in sorted(each.effects.items(), key=lambda item: item[1] != REFUSED)
    ]
    assert [each for each in outcomes if each[2:] in impossible] == []
    refused = [each for each in outcomes if each[3] in {REFUSED, NAMED}]
    assert len(refused) > 0.9 * len([each for each in outcomes if each[2] == REFUSED])


def outcome(client: Any, operation: str) -> str:
    """Send the smallest request that has the documented shape, and return `success`, a refusal
    (NAMED where it names the operation), or the code of another error.
    """
    shape = client.meta.service_model.operation_model(operation).input_shape
    try:
        getattr(client, xform_name(operation))(**(smallest(shape) if shape else {}))
    except ClientError as error:
        code, message = (str(error.response["Error"].get(key)) for key in ("Code", "Message"))
        refusal = NAMED if re.search(rf"\b{operation}\b", message) else REFUSED
        return refusal if code == "UnknownOperationException" else code
    except BotoCoreError as error:  # the answer cannot be read, or the request not be written
        return type(error).__name__
    return "success"


def smallest(shape: Any) -> Any:
    """Return the smallest value of a botocore shape."""
    if shape.type_name == "structure":
        return {
            name: NAMES.get(name) or smallest(shape.members[name])
            for name in shape.required_members
        }
    if shape.type_name == "list":
        return [smallest(shape.member)] * shape.metadata.get("min", 0)
    if shape.type_name == "string":
        return (shape.enum or ["x" * max(1, shape.metadata.get("min", 1))])[0]
    if shape.type_name in {"integer", "long", "float", "double"}:
        return shape.metadata.get("min", 1)
    return {"map": {}, "boolean": False, "blob": b"x", "timestamp": 0}[shape.type_name]
