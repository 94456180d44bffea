"""Load an environment file, with the one that it extends, its pins and an overlay, as a frozen
`Environment` for each of its workloads.

Three readings each report all that they find: the YAML text (`shoal.settings.parsing.yaml_file`),
the types and limits (`shoal.settings.settings`), and the rules between keys
(`shoal.settings.loading.rules`), which run on the part of the file that is right. One
`ConfigError` has every problem.
"""

from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

from shoal.settings.loading.pydantic_errors import typed, without_keys
from shoal.settings.loading.release_file import SUFFIX, Pins, require_none
from shoal.settings.loading.rules import problems_between
from shoal.settings.loading.workload import beneath, named_after, parse_mapping, workload_problems
from shoal.settings.parsing.errors import NOTHING, ConfigError, Problem, place_of, shorten
from shoal.settings.parsing.yaml_file import ParsedFile
from shoal.settings.settings import Environment, WorkloadSettings

FOLDER = "environments"
OVERLAYS = "strategies"
_BASE = "base"
_SHARED = "platform"
"""What workloads share is called by it where the file says nothing else."""


def environment_file(name: str) -> str:
    """Return the path of the file of environment `name`, relative to the repository root."""
    return f"{FOLDER}/{name}.yaml"


def environment_names(root: Path) -> list[str]:
    """Return the names of the environments under `root`, sorted, without pins and base files."""
    files = (path for path in (root / FOLDER).glob("*.yaml") if not path.name.endswith(SUFFIX))
    stems = (path.stem for path in files)
    return sorted(stem for stem in stems if stem != _BASE and not stem.startswith(f"{_BASE}-"))


def strategy_names(root: Path) -> list[str]:
    """Return the names of the overlays under `root`, sorted."""
    return sorted(path.stem for path in (root / FOLDER / OVERLAYS).glob("*.yaml"))


def load_environment(
    name: str, root: Path, strategy: str | None = None, workload: str | None = None
) -> Environment:
    """Return the environment `name` of the repository at `root`, under the overlay `strategy`, as
    one workload has it.

    `workload` may be left out where there is only one. Raises ConfigError, also when there is no
    such environment, overlay or workload.
    """
    files = _read(name, root, strategy)
    names = files.workloads()
    if workload is None and len(names) > 1:
        message = f"has several workloads ({', '.join(names)})"
        advice = f"name one, as in `{name} {names[0]}`"
        raise ConfigError(files.own.file, [Problem("", message, advice)])
    if workload is not None and workload not in names and any(names):
        message = f"has no workload {shorten(workload)}; there are: {', '.join(names)}"
        raise ConfigError(files.own.file, [Problem("", message, "name one of them, or add it")])
    return _checked(files, workload or names[0], name, root)


def workloads_of(name: str, root: Path) -> list[str]:
    """Return the workloads' names in the order of the file, which may be wrong otherwise."""
    return _read(name, root, None).workloads()


def load_workloads(name: str, root: Path, strategy: str | None = None) -> tuple[Environment, ...]:
    """Return the environment once for each workload, or raise ConfigError with all problems."""
    files = _read(name, root, strategy)
    views, problems, where = [], list[Problem](), dict[str, str]()
    for workload in files.workloads():
        try:
            views.append(_checked(files, workload, name, root))
        except ConfigError as error:
            if error.file != files.own.file:  # a workload's own file
                raise
            problems += (each for each in error.problems if each not in problems)
            where |= files.places(workload)
    if problems:
        raise ConfigError(files.own.file, problems, where)
    return tuple(views)


def load_source(environment: Environment, root: Path) -> Environment | None:
    """Return the environment that releases come from; None where it trains. Raises ConfigError."""
    name = environment.promoted_from
    if name is None:
        return None
    files = _read(name, root, None)
    several = "workloads" in files.common
    return load_environment(name, root, workload=environment.workload if several else None)


def load(path: Path, shown_as: str | None = None, root: Path | None = None) -> Environment:
    """Return the environment in the file `path`, as its only workload has it.

    With `root`, a repository's folder, the workload's own file there adds what this one leaves out.
    Raises ConfigError, whose lines call the file `shown_as`, by default its path.
    """
    shown = shown_as or str(path)
    files = _Files([_parse(path, shown)], Pins.beside(path, shown))
    return _environment(files, files.workloads()[0], path.stem, root)


def places(
    name: str, root: Path, strategy: str | None = None, workload: str | None = None
) -> dict[str, str]:
    """Return where each key stands, as `file:line`; empty for a file that cannot be read."""
    try:
        files = _read(name, root, strategy)
        return files.places(workload or files.workloads()[0])
    except ConfigError:
        return {}


@dataclass(frozen=True)
class _Files:
    """An environment's file behind the one that it extends, its pins, and an overlay over it.

    Of two that have a key, the later one has the last word.
    """

    common_parts: list[ParsedFile]
    pins: Pins
    overlays: list[ParsedFile] = field(default_factory=list)

    @property
    def own(self) -> ParsedFile:
        return self.common_parts[-1]

    @property
    def common(self) -> dict[str, Any]:
        """What the file and the one that it extends say together."""
        return _merged([part.document.data for part in self.common_parts])

    def workloads(self) -> list[str]:
        """Return the names of the workloads; an empty one for a file that names none.

        Raises ConfigError unless `workloads` is a mapping of names to sections, for a release in
        one of the files, and for a pin of another workload.
        """
        common = self.common
        for part in (*self.common_parts, *self.overlays):
            require_none(part, self.own.file)
        if "workloads" in common:
            names = self._sections(common["workloads"])
        else:
            name = common.get("workload")
            names = [name if isinstance(name, str) else ""]
        if any(names):
            self.pins.require_known(names, self.own.file)
        return names

    def _sections(self, sections: Any) -> list[str]:
        """Return the names of several workloads."""
        if not isinstance(sections, dict) or not sections:
            message = "must be a mapping of the workloads' names to what differs for each"
            self._refuse("workloads", message, "write `NAME: {}` for each", sections)
        for name, section in sections.items():
            if not isinstance(section, dict | None):
                message = "must be a mapping of keys to values"
                advice = "write what differs for it, or {}"
                self._refuse(f"workloads.{name}", message, advice, section)
            for key in (section or {}).keys() - WorkloadSettings.model_fields.keys():
                allowed = ", ".join(WorkloadSettings.model_fields)
                is_shared = key in Environment.model_fields and key != "workload"
                advice = "write it at the top of the file: all workloads share it"
                message = f"there is no such key here; allowed: {allowed}"
                advice = advice if is_shared else "remove it"
                self._refuse(f"workloads.{name}.{key}", message, advice)
            observability = (section or {}).get("observability")
            if isinstance(observability, dict) and "log_retention_days" in observability:
                key = f"workloads.{name}.observability.log_retention_days"
                message = "counts for what the workloads share, too"
                self._refuse(key, message, "write it at the top of the file")
        if "workload" in self.common:
            message = "is one workload's, and this file has several"
            self._refuse("workload", message, "remove it: `workloads` names them")
        return list(sections)

    def view(self, workload: str) -> dict[str, Any]:
        """Return what the files say of one workload, as the file of a single one says it."""
        common, pin = self.common, self.pins.section(workload)
        over = [each.document.data for each in self.overlays]
        if "workloads" not in common:
            return _merged([common, *over, pin])
        sections = common.pop("workloads")
        several: dict[str, Any] = {name: {} for name in sections}
        own = dict(sections[workload] or {})
        if "tags" in own:  # apart: what workloads share has those of all
            several[workload] = {"tags": own.pop("tags")}
        named = {"workload": workload, "workloads": several}
        return _merged([{"project": _SHARED}, common, own, *over, named, pin])

    def places(self, workload: str) -> dict[str, str]:
        """Return where each key of that view stands."""
        own = f"workloads.{workload}."
        places: dict[str, str] = {}
        for part in self.common_parts:
            places |= part.places()
        places |= {
            key.removeprefix(own): place for key, place in places.items() if key.startswith(own)
        }
        for part in self.overlays:
            places |= part.places()
        return places | self.pins.places(workload)

    def with_own(self, problems: list[Problem], workload: str) -> list[Problem]:
        """Return the problems and those of the text, each with its key as it stands in the
        workload's section, if it does, and sorted by the line in the file that has the last word on
        it; overlays come last.
        """
        parts = (*self.common_parts, *self.overlays)
        files = [*(part.file for part in parts), self.pins.part.file]
        order = {
            key: (files.index(file), int(line or 0))
            for key, place in self.places(workload).items()
            for file, _, line in [place.rpartition(":")]
            if file
        }
        own = [problem for part in parts for problem in part.document.problems]
        ordered = sorted([*own, *problems], key=lambda each: place_of(each.key, order, (0, 0)))
        keys = [f"workloads.{workload}.{each.key}" for each in ordered]
        return [
            replace(each, key=key) if self._part_with(key.partition("[")[0]) else each
            for each, key in zip(ordered, keys, strict=True)
        ]

    def _part_with(self, key: str) -> ParsedFile | None:
        parts = reversed(self.common_parts)
        return next((part for part in parts if key in part.document.lines), None)

    def _refuse(self, key: str, message: str, advice: str, value: object = NOTHING) -> NoReturn:
        part = self._part_with(key) or self.own
        raise ConfigError(part.file, [Problem(key, message, advice, value)], {key: part.place(key)})


def _read(name: str, root: Path, strategy: str | None) -> _Files:
    """Return the files of an environment; raise ConfigError with the names that exist."""
    own = _named("environment", name, environment_file(name), environment_names(root), root)
    extended, overlays = own.document.data.get("extends"), []
    base = [_base(own, extended, root)] if extended else []
    if strategy is not None:
        file = f"{FOLDER}/{OVERLAYS}/{strategy}.yaml"
        overlays.append(_named("strategy", strategy, file, strategy_names(root), root))
    return _Files([*base, own], Pins.beside(root / own.file, own.file), overlays)


def _base(own: ParsedFile, extended: object, root: Path) -> ParsedFile:
    """Return the file that `own` extends; raise ConfigError if there is none."""
    there = sorted(path.name for path in (root / FOLDER).glob(f"{_BASE}*.yaml"))
    if extended not in there:
        message = f"there is no such file to extend; there are: {', '.join(there) or 'none'}"
        advice = f"name one of them, or write {FOLDER}/{_BASE}.yaml"
        problem = Problem("extends", message, advice, extended)
        raise ConfigError(own.file, [problem], own.places())
    base = _parse(root / FOLDER / str(extended), f"{FOLDER}/{extended}")
    if "extends" in base.document.data:
        problem = Problem("extends", "a file that is extended extends none itself", "remove it")
        raise ConfigError(base.file, [problem], base.places())
    return base


def _named(kind: str, name: str, file: str, names: list[str], root: Path) -> ParsedFile:
    """Return the content of the environment or the strategy `name`."""
    path = root / file
    if path.is_file():
        return _parse(path, file)
    if path.is_symlink() or path.exists():
        message = "is no file: a folder, a pipe, or a link that leads to no file"
        raise ConfigError(file, [Problem("", message, "write a file of that name")])
    message = f"there is no {kind} {shorten(name)}; there are: {', '.join(names) or 'none'}"
    raise ConfigError(file, [Problem("", message, "name one of them, or write this file")])


def _parse(path: Path, file: str) -> ParsedFile:
    """Return the content of the file; raise ConfigError unless it is a mapping without secrets."""
    advice = "start with `name:`, `account:` and `region:`; see `shoal docs environments`"
    return parse_mapping(path, file, "an environment file", advice)


def _checked(files: _Files, workload: str, name: str, root: Path) -> Environment:
    """Return one workload's view; those that it is promoted from must exist, and one must train."""
    environment, names = _environment(files, workload, name, root), environment_names(root)
    if environment.promoted_from not in {None, *names}:
        message = f"there is no such environment; there are: {', '.join(names)}"
        advice = "name the one before this, or remove the key"
    elif (path := _path(name, environment.promoted_from, names, root)).count(path[-1]) > 1:
        message = f"goes in a circle: {' <- '.join(path)}"
        advice = "remove it from the one that trains"
    else:
        return environment
    problem = Problem("promoted_from", message, advice, environment.promoted_from)
    raise ConfigError(files.own.file, [problem], files.places(workload))


def _path(name: str, source: str | None, names: list[str], root: Path) -> list[str]:
    """Return the environment and those that come before it, up to one that comes again."""
    path = [name]
    with suppress(ConfigError):  # which loading that one tells
        while path[-1] not in path[:-1] and source is not None and source in names:
            path.append(source)
            source = _read(source, root, None).common.get("promoted_from")
    return path


def _environment(files: _Files, workload: str, stem: str, root: Path | None = None) -> Environment:
    """Return the environment over its workload's own file; raise ConfigError with all mistakes."""
    document = files.view(workload)
    of_workload = list(workload_problems(document, root)) if root else []
    layer = named_after(document)
    if root and not of_workload:
        layer, of_workload = beneath(document, root)
    environment, problems = _validate(_merged([layer, document]), stem)
    known = {problem.key for problem in of_workload}
    problems = [each for each in problems if each.key not in known]
    problems = files.with_own([*problems, *of_workload], workload)
    if environment is None or problems:
        raise ConfigError(files.own.file, problems, files.places(workload))
    return environment


def _merged(layers: list[Any]) -> dict[str, Any]:
    """Merge the layers: mappings key by key; of anything else the last one counts."""
    merged: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            both = isinstance(value, dict) and isinstance(merged.get(key), dict)
            merged[key] = _merged([merged[key], value]) if both else value
    return merged


def _validate(data: dict[str, Any], stem: str) -> tuple[Environment | None, list[Problem]]:
    """Return the environment if its types are right, and the problems of what is right, too."""
    environment, problems = typed(Environment, data)
    if environment is not None:
        return environment, problems_between(environment, stem)
    wrong = [problem.key for problem in problems]
    # so that a missing name does not hide what the other rules find
    substitutes = {"name": stem, "workload": stem, "account": "111122223333"}
    rest, _ = typed(Environment, substitutes | without_keys(data, wrong))
    bad = tuple(f"{key}." for key in wrong)
    for each in problems_between(rest, stem) if rest else []:
        # no problem that rests on a key which is itself wrong
        if not any(f"{key}.".startswith(bad) for key in (each.key, *each.related)):
            problems.append(each)
    return None, problems
