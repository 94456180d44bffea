"""The command as a user meets it: messages and exit codes."""

import errno
import os
import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from itertools import combinations, product
from pathlib import Path
from types import SimpleNamespace

import click
import pytest

from local_kit.tables import rows
from shoal.aws.cdk import Cdk
from shoal.aws.target import Target
from shoal.cli.main import _COMMANDS, Deferred, _checkout, main, require_own_code
from shoal.settings.loading.loader import load_environment
from shoal.settings.loading.release_file import text_of
from shoal.settings.settings import Target as TargetKind
from shoal.verbs.workspace import Session, Workspace
from tests.cli.trained import document_in
from tests.repository import CHECKOUT, ENVIRONMENT, ROOT, add_letters, link_checkout
from tests.settings.environment_file import RELEASE


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a checkout with environment files of its own."""
    return link_checkout(tmp_path)


def shoal(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return subprocess.run(
        [sys.executable, "-m", "shoal.cli", *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


SOURCES = "packages/shoal/src/shoal"


def opened(root: Path, *_: object, **__: object) -> SimpleNamespace:
    """Return a session of which only the workspace is known."""
    return SimpleNamespace(workspace=SimpleNamespace(root=root))


@pytest.mark.parametrize(
    ("code", "place", "command", "expected"), rows(__file__, "cases.yaml", "code")
)
def test_the_code_of_another_checkout_changes_nothing(
    code: str,
    place: str,
    command: str,
    expected: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("one", "two", "team", "linked"):
        (tmp_path / name / "environments").mkdir(parents=True)
        (tmp_path / name / "cdk.json").touch()
    for name in (f"one/{code}", f"one/{SOURCES}", f"two/{SOURCES}", "elsewhere"):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
    (tmp_path / "linked/packages").symlink_to(tmp_path / "one/packages")
    monkeypatch.chdir(tmp_path / place)
    monkeypatch.setattr("shoal.cli.main._CODE", tmp_path / "one" / code)
    root = _checkout()
    message = f"this program is the code of {tmp_path / 'one'}, not of {tmp_path / 'two'}"
    if expected is None and " " in command:  # what a verb refuses by itself
        monkeypatch.setattr("shoal.verbs.workspace.Workspace.open", partial(opened, root))
        assert main(["--root", str(root), *command.split()]) == 2
        assert f"{message}; run `make install` " in capsys.readouterr().err
        return
    if expected is None:
        with pytest.raises(click.UsageError, match=f"^{re.escape(message)}; run `make install` "):
            require_own_code(root, command)
        return
    require_own_code(root, command)
    assert root == tmp_path / expected
    assert capsys.readouterr().err == (
        f"shoal: {message}\n" if place == "two" and command == "check" else ""
    )


def test_a_terminal_is_told_the_number_of_notices(
    checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(*options: str, is_terminal: bool = True) -> list[str]:
        monkeypatch.setattr("sys.stdout.isatty", lambda: is_terminal)
        assert main(["--root", str(checkout), "check", *options]) == 0
        lines = capsys.readouterr().out.splitlines()
        return [line for line in lines if ": ok (" not in line]

    piped = check(is_terminal=False)
    grave = [line for line in piped if not line.startswith("notice")]
    more = f"{len(piped) - len(grave)} notices; `shoal check --all` shows them"
    assert (check(), check("--all")) == ([*grave, more], piped)


def test_check_accepts_the_shipped_environments(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--root", str(ROOT), "check"]) == 0
    assert len(re.findall(r"^environments/\w+.yaml: ok", capsys.readouterr().out, re.M)) == 3


@pytest.mark.parametrize(
    ("word", "told"), [("dev", "ok"), ("dev.yaml", "ok"), ("dve", "there is no")]
)
def test_check_reads_one_environment(
    word: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--root", str(ROOT), "check", word]) == (0 if told == "ok" else 2)
    output = capsys.readouterr()
    lines = [line for line in (output.out + output.err).splitlines() if line[:12] == "environments"]
    assert [told in line for line in lines] == [True]


def test_check_refuses_pins_of_no_environment(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (checkout / "environments" / "qa.release.yaml").write_text("mnist: {}\n")
    assert main(["--root", str(checkout), "check"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("environments/qa.release.yaml: there is no environment that it pins for")


@pytest.mark.parametrize(("parameter", "message"), rows(__file__, "cases.yaml", "parameters"))
def test_a_parameter_is_judged_where_nothing_is_deployed(
    checkout: Path, parameter: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--root", str(checkout), "run", "dev", "--local", "-p", parameter]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_check_tells_the_gravest_first(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dev = checkout / "environments" / "dev.yaml"
    dev.write_text(f"{dev.read_text()}  environment: {{NCCL_DEBUG: INFO, FI_PROVIDER: tcp}}\n")
    assert main(["--root", str(checkout), "check"]) == 0
    lines = capsys.readouterr().out.splitlines()
    marks = [re.sub(r".*: ok .*", "ok", line).partition(" (")[0] for line in lines]
    assert sorted(set(marks), key=marks.index) == ["ok", "may fail", "warning", "notice"]
    assert marks == sorted(marks, key=["ok", "may fail", "warning", "notice"].index)
    remarks = [line.partition("): ")[2] for line in lines if ": ok (" not in line]
    assert len(remarks) == len(set(remarks))


def test_check_goes_on_after_a_mistake(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (checkout / "environments" / "dev.yaml").write_text("name: dev\n")
    assert main(["--root", str(checkout), "check"]) == 2
    output = capsys.readouterr().out
    assert "notice (" in output  # of the files that are right
    assert len(re.findall(r"^environments/\w+.yaml: ok", output, re.M)) == 2


def test_check_names_the_line_of_a_pin(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = checkout / "environments" / "prod.release.yaml"
    text = text_of({"mnist": RELEASE.model_dump(mode="json")})
    file.write_text(text.replace("111122223333:model-package", "999988887777:model-package"))
    assert main(["--root", str(checkout), "check"]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    number = file.read_text()[: file.read_text().index("model_package_arn")].count("\n") + 1
    assert line.startswith(f"environments/prod.release.yaml:{number}: release.model_package_arn = ")


def test_check_reads_workloads_too(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = checkout / "training_code" / "mnist" / "workload.yaml"
    file.write_text(file.read_text().replace("must_pass: 9", "must_pass: 11"))
    assert main(["--root", str(checkout), "check"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(r"workload.yaml:\d+: smoke_test.must_pass = 11: is more than", line)


def test_check_tells_of_no_endpoint(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    add_letters(checkout)
    (checkout / "environments" / "lab.yaml").write_text(f"{ENVIRONMENT}data: {{dataset: ours}}\n")
    assert main(["--root", str(checkout), "check"]) == 0
    told = capsys.readouterr().out
    assert "training_code/letters/workload.yaml: ok (no endpoint)\n" in told
    assert "environments/lab.yaml: ok (none on 1 x ml.m5.large)\n" in told
    assert "notice (lab): data.dataset" not in told  # its script writes it, whatever its name


@pytest.mark.parametrize(("words", "message"), rows(__file__, "cases.yaml", "mistakes"))
def test_a_mistake_of_the_user_is_one_message_and_exit_code_2(
    words: str, message: str, checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--root", str(checkout), *words.split()]) == 2
    errors = capsys.readouterr().err
    assert message in errors
    assert "Traceback" not in errors


@pytest.mark.parametrize(("verb", "some", "others"), rows(__file__, "cases.yaml", "excluded"))
def test_no_option_is_ignored_without_a_word(
    verb: str, some: str, others: str, checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for pair in product(some.split(), others.split()):
        assert main(["--root", str(checkout), *verb.split(), *pair]) == 2
        assert " exclude each other; give one\n" in capsys.readouterr().err
    for pair in combinations(some.split(), 2):
        assert main(["--root", str(checkout), *verb.split(), *pair, "--local"]) == 2
        assert "no local emulator is running" in capsys.readouterr().err


def test_without_credentials_aws_verbs_say_so(checkout: Path) -> None:
    result = shoal("--root", str(checkout), "status", "dev")
    assert result.returncode == 1
    assert result.stderr.strip().splitlines() == [
        "shoal: Unable to locate credentials; log in to AWS, or add --local to use the emulator"
    ]


@pytest.mark.parametrize("number", [errno.EROFS, errno.ENOSPC, errno.EACCES, errno.ENAMETOOLONG])
@pytest.mark.parametrize("words", ["plan dev --templates", "demo dev"])
def test_a_disk_that_takes_no_files_is_one_line(
    words: str, number: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def mkdir(self: Path, *_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number), str(self))

    monkeypatch.setattr(Path, "mkdir", mkdir)
    assert main(["--root", str(ROOT), *words.split()]) == 1
    assert os.strerror(number) in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    ("place", "words", "code", "says"),
    [
        (".", "check dev --json >/dev/full", 1, "shoal: [Errno 28] No space left on device\n"),
        (".", "plan nosuch --json >/dev/full", 2, 'there is no environment "nosuch"'),
        (".", "check dev >&-", 0, ""),
        ("gone", "check dev", 2, "Error: the working directory is gone"),
    ],
)
def test_an_output_or_a_folder_that_is_gone_is_one_line(
    tmp_path: Path, place: str, words: str, code: int, says: str
) -> None:
    (tmp_path / "gone").mkdir()
    script = f"cd {place} && rm -rf {tmp_path}/gone && {sys.executable} -m shoal.cli {words}"
    folder = ROOT if place == "." else tmp_path
    result = subprocess.run(["sh", "-c", script], cwd=folder, check=False, capture_output=True)
    told = result.stderr.decode()
    assert (result.returncode, says in told, "Traceback" in told) == (code, True, False)


def test_the_version_is_the_commit_of_shoals_own_checkout(tmp_path: Path) -> None:
    result = shoal("--root", str(tmp_path), "--version")
    command = ["git", "describe", "--always", "--tags", "--dirty"]
    git = subprocess.run(command, cwd=CHECKOUT, check=False, capture_output=True, text=True)
    assert (result.returncode, result.stdout.startswith("shoal ")) == (0, True)
    assert git.stdout.strip() in result.stdout


@pytest.mark.parametrize("name", [row[0] for row in _COMMANDS])
def test_help_begins_as_it_is_listed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    (deferred,) = (Deferred(*row) for row in _COMMANDS if row[0] == name)
    command = deferred.load()
    assert command.name == name
    assert command.get_short_help_str(200) == deferred.get_short_help_str(200)
    assert main([name, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"Usage: shoal {name}")


def test_the_list_of_verbs_imports_none_of_them() -> None:
    """Imports are what makes `shoal --help` wait."""
    listing = "main(['--help']); print(*sys.modules, file=sys.stderr)"
    program = [sys.executable, "-c", f"import sys; from shoal.cli.main import main; {listing}"]
    result = subprocess.run(program, cwd=ROOT, check=True, capture_output=True, text=True)
    loaded = set(result.stderr.split())
    ours = {"shoal", "shoal.cli", "shoal.cli.main"}
    theirs = {*sys.stdlib_module_names, "__main__", "_distutils_hack", "click"}
    assert {name for name in loaded if name.partition(".")[0] not in theirs} == ours


@pytest.mark.parametrize(
    ("endpoint", "target", "arguments"),
    [
        ("http://localhost:1", "aws", "dev --local"),
        ("http://localhost:1", "local", "dev"),
        (None, "aws", "dev"),
    ],
)
def test_commands_in_messages_agree(endpoint: str | None, target: str, arguments: str) -> None:
    environment = load_environment("dev", ROOT).model_copy(update={"target": TargetKind(target)})
    place = Target(environment.account, environment.region, endpoint)
    assert Session(Workspace(ROOT, {}), environment, place).arguments == arguments


def _edit(checkout: Path, old: str, new: str) -> None:
    file = checkout / "environments" / "dev.yaml"
    file.write_text(file.read_text().replace(old, new))


@pytest.fixture
def plan(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Return what `shoal plan` prints of a checkout."""

    def run(root: Path, *arguments: str) -> str:
        assert main(["--root", str(root), "plan", *arguments]) == 0
        return capsys.readouterr().out

    return run


@pytest.mark.parametrize(
    ("words", "given"),
    [("", (None, None)), ("dev", ("dev", None)), ("dev --strategy horovod", ("dev", "horovod"))],
)
def test_templates_are_of_all_environments_or_of_one_with_its_strategy(
    words: str,
    given: tuple[str | None, ...],
    plan: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    synths = list[tuple[object, ...]]()
    monkeypatch.setattr(Cdk, "synth", lambda _, *given, for_aws: synths.append((*given, for_aws)))
    assert f"written: {ROOT / 'cdk.out'}" in plan(ROOT, "--templates", *words.split())
    assert synths == [(*given, True)]


def test_a_plan_needs_neither_network_nor_credentials() -> None:
    assert shoal("--root", ".", "plan", "prod").returncode == 0


def test_the_json_of_a_plan_has_the_same_numbers(plan: Callable[..., str]) -> None:
    output = document_in(plan(ROOT, "prod", "--json"))
    parts = [stack["name"].removeprefix("shoal-mnist-prod-") for stack in output["stacks"]]
    assert parts == ["data", "network", "pipeline", "monitoring"]
    (line,) = output["training"]["lines"]
    assert (line["quantity"], output["training"]["usd_per_hour"]) == (2, 50.5026)


def test_what_stands_has_its_prices(checkout: Path, plan: Callable[..., str]) -> None:
    more = "data: {input_mode: FSx}\nfile_system: {}\nnetwork:\n"
    _edit(checkout, "network:\n", f"{more}  nat: true\n  interface_endpoints: [sts]\n")
    rows = [line for line in plan(checkout, "dev").splitlines() if line.startswith("  ")]
    prices = {line.split("  ")[1]: line.split()[-2:] for line in rows}
    assert prices["interface endpoint sts, one zone"][-1] == "~7.30"
    assert prices["NAT gateway"][-1] == "~32.85"
    assert prices["FSx for Lustre SCRATCH_2, 1200 GiB"] == ["~0.2301", "~168.00"]


def test_an_unknown_price_is_said_to_be_unknown(checkout: Path, plan: Callable[..., str]) -> None:
    _edit(checkout, "strategy: smddp", "strategy: none\n  framework_version: 2.3.0")
    _edit(checkout, 'custom_mpi_options: "-verbose --NCCL_DEBUG VERSION"', "spot: false")
    _edit(checkout, "ml.p4d.24xlarge", "ml.p3.16xlarge")
    output = plan(checkout, "dev")
    assert "unknown: Shoal's costs/prices.yaml has no price" in output
    (line,) = [line for line in output.splitlines() if "training on ml.p3.16xlarge" in line]
    assert line.split()[-1] == "unknown"
