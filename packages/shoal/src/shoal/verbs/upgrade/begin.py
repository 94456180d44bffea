"""The part of an upgrade that the installed version does, until the new one is there."""

import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

from shoal.aws.events import Detail, Note, Report
from shoal.aws.target import offline_environment
from shoal.errors import CommandError, UsageError
from shoal.processes import Command, run
from shoal.repository import Repository
from shoal.settings.parsing.errors import ConfigError
from shoal.verbs.flow import phase
from shoal.verbs.init import (
    LOCK,
    SOURCE,
    WHEELS,
    folder_of,
    lock,
    problems_of_wheels,
    read_answers,
    render,
    take_wheels,
)

_PIN = re.compile(r"^(shoal(?:-local)?(?:\[[^\]]*\])?) *[=>]=.*$", re.MULTILINE)
LEFT = 4
"""How finish.py exits where people have to go on, which it has said."""
LINKS = re.compile(r"^--find-links (.*)\n", re.MULTILINE)


class Workplace:
    """An upgrade of the repository at `root`: a worktree, two renderings, and the new `.venv`.

    All of it is in `root`/.shoal/upgrade, of which both versions of Shoal know the names.
    """

    def __init__(self, root: Path, environ: Mapping[str, str], report: Report) -> None:
        self.root, self.environ, self.report = root, environ, report
        self.folder = root / ".shoal" / "upgrade"
        self.checkout = Repository(root, environ)
        prefix = self.checkout.prefix()
        self.team, self.was, self.now = (self.folder / n / prefix for n in ("tree", "old", "new"))
        self.work = Repository(self.team, environ)
        self.python = self.folder / "venv" / "bin" / "python"

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Make the worktree of HEAD; afterwards it is gone, and before it what was left of one."""
        try:
            self._remove()
            tree = str(self.folder / "tree")
            self.checkout.git("worktree", "add", "--quiet", "--detach", tree, "HEAD")
            yield
        finally:
            self._remove()

    def _remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.checkout.git("worktree", "prune")

    def run(
        self,
        program: Sequence[str | Path],
        variables: Mapping[str, str] | None = None,
        event: type[Detail | Note] = Detail,
    ) -> None:
        """Run a program in the worktree, without credentials; raise CommandError if it fails."""
        environment = offline_environment(self.environ) | dict(variables or {})
        environment.pop("PYTHONPATH", None)  # has the version that runs now
        words = tuple(map(str, program))
        what = words[2] if words[1] == "-m" else words[1]
        log = self.root / ".shoal" / "logs" / f"upgrade-{what}.log"
        command = Command(what, words, self.team, environment, log, 1200.0)
        run(command, lambda line: self.report(event(line)))

    def synth(self, python: str | Path, name: str) -> None:
        """Write the worktree's templates to the folder `name`, as the version of `python` does."""
        cache = {"JSII_RUNTIME_PACKAGE_CACHE_ROOT": str(self.root / ".shoal" / "jsii")}
        self.run((python, "app.py"), cache | {"CDK_OUTDIR": str(self.folder / name)})


def upgrade(place: Workplace, to: str | None, wheels: str | None) -> bool:
    """Go over to version `to`, or the newest, of an index or of `wheels`, a folder or a page.

    Wheels of a folder are copied into the worktree, and those of the version before leave it.
    Returns whether a branch has the result, as one commit. The checkout and its .venv are as before
    at any time, also after UsageError and CommandError.
    """
    place.checkout.require_clean()
    answers, old = read_answers(place.root), version("shoal")
    if answers.shoal != old:
        message = f"shoal {old} is installed, but {answers.shoal} rendered this repository"
        raise UsageError(f"{message}; run `make install` first")
    if problems := [*problems_of_wheels(wheels or "")]:
        raise ConfigError("shoal upgrade", problems)
    source = wheels or answers.wheels
    if to is None and source:
        message = f"Shoal comes from {source}, and an index may have another package of its name"
        raise UsageError(f"say which version it is to be, with --to: {message}")
    folder = folder_of(source, place.root)
    with place.opened():
        if to and folder:
            take_wheels(folder, place.team, to)
            wheels = WHEELS
        with phase("lock the new version", place.report):
            render(answers, place.was)
            new = _lock(place, old, to, wheels)
        if order(new) <= order(old):
            raise UsageError(f"{new} is not newer than {old}, which is installed; nothing was done")
        if place.checkout.commit_of(branch := f"shoal-{new}"):
            raise UsageError(f"there is a branch {branch}: merge it, or `git branch -D {branch}`")
        with phase(f"synthesise with {old}", place.report):
            place.synth(sys.executable, "before")
        with phase(f"install {new} beside it", place.report):
            _install(place)
        try:
            with phase(f"merge, synthesise with {new} and compare", place.report):
                finish = ("-m", "shoal.verbs.upgrade.finish", place.root)
                place.run((place.python, *finish), event=Note)
        except CommandError as error:
            if error.exit_code != LEFT:
                raise
            return False
    return True


def _lock(place: Workplace, old: str, to: str | None, wheels: str | None) -> str:
    """Write the new version into the worktree's requirements, and lock them; return it.

    What was rendered gets it, too: so this line is none that the template changes. Other packages
    stay as they were locked, where the new version can do with them.
    """
    locked = place.team / LOCK
    for pin in (f"=={to}",) if to else (f">={old}", None):
        for file in (place.was / SOURCE, place.team / SOURCE):
            text = _PIN.sub(rf"\1{pin or f'=={_version_in(locked)}'}", file.read_text())
            links = f"--find-links {wheels}\n" if wheels else ""
            file.write_text(links + (LINKS.sub("", text) if wheels else text))
        if pin:
            lock(place.team)
    return _version_in(locked)


def _version_in(file: Path) -> str:
    (found,) = re.findall(r"^shoal(?:\[[^\]]*\])?==(\S+)", file.read_text(), re.MULTILINE)
    return str(found)


def _install(place: Workplace) -> None:
    from shoal_local.runtimes.packages import uv_environment

    uv, variables = (sys.executable, "-m", "uv"), uv_environment(sys.executable)
    place.run((sys.executable, "-m", "venv", place.python.parents[1]))
    options = ("--require-hashes", "--index-strategy", "unsafe-best-match", "-r", LOCK)
    install = (*uv, "pip", "install", "--python", place.python, *options)
    place.run(install, variables)


def order(version: str) -> tuple[int, ...]:
    """Return what versions are compared by; a candidate counts as its release."""
    return tuple(map(int, re.findall(r"\d+", version)[:3]))
