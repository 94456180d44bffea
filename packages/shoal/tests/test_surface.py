"""The public surface is that of the last release, to which things may be added."""

import ast
import inspect
import json
import re
import textwrap
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click

from shoal.cli.answers import verbs
from shoal.cli.main import shoal
from shoal.settings.loading.schema import schema
from shoal.settings.loading.workload import Workload
from tests.repository import ROOT

GOLDEN = Path(__file__).parent / "goldens" / "surface.txt"
WRITE = "in packages/shoal, `python -m tests.test_surface` writes it down"
GONE = f"""{{}} is gone or changed.
Keep it beside what replaces it. Or begin another series (0.1.x to 0.2.0, 1.x to 2.0.0): set the
version in packages/shoal/pyproject.toml, add a migration of `shoal upgrade` and a line to
CHANGELOG.md; {WRITE}."""
Item = tuple[str, str]
_INNER = ("items", "additionalProperties", "anyOf", "oneOf")


def surface() -> set[Item]:
    """Return what is public: groups, and a word for each thing in one."""
    run = json.loads((ROOT / "packages/shoal/src/shoal/page/run.schema.json").read_text())
    files = {"environment": schema(), "workload": schema(Workload), "run.json": run}
    of_files = (each for name, of in files.items() for each in keys(name, of))
    return {*of_files, *imports(), *options()}


def imports() -> Iterator[Item]:
    """Yield what a team's app.py, stacks and pipelines import, with its arguments."""
    for file in (ROOT / "app.py", *ROOT.glob("stacks/*.py"), *ROOT.glob("pipelines/*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("shoal."):
                module = import_module(str(node.module))
                for each in node.names:
                    yield from arguments(f"{node.module}.{each.name}", getattr(module, each.name))


def arguments(group: str, value: Any) -> Iterator[Item]:
    """Yield a value, and the arguments of a class or function; those of settings are keys."""
    yield group, "-"
    # jsii's metaclass takes anything
    made = value.__init__ if isinstance(value, type) else value  # type: ignore[misc]
    is_made = inspect.isfunction(made) and not hasattr(value, "model_fields")
    for name, each in inspect.signature(made).parameters.items() if is_made else ():
        if each.annotation is not each.empty:  # self
            is_given = "" if each.default is each.empty else "="
            kind = re.sub(r"[\w.]+\.(?=\w)", "", inspect.formatannotation(each.annotation))
            yield group, f"{name}{is_given}:{kind}".replace(" ", "")


def options() -> Iterator[Item]:
    """Yield the arguments and options of each verb, and the facts of its document."""
    for verb, command in verbs(shoal):
        context, group = click.Context(command), f"verb {verb}"
        yield group, "-"
        for each in command.params:
            is_option = isinstance(each, click.Option)
            words = each.opts if is_option else [each.make_metavar(context)]
            choices = "|".join(map(str, getattr(each.type, "choices", ())))
            yield from ((group, f"{word}={choices}".removesuffix("=")) for word in words)
        if declared := getattr(command.callback, "schema", None):
            yield from keys(f"json {verb}", declared(verb))


def keys(group: str, of: Any) -> Iterator[Item]:
    """Yield the keys of a JSON schema with their types; `group` has their path."""
    for each in of if isinstance(of, list) else ():
        yield from keys(group, each)
    for word, value in of.items() if isinstance(of, dict) else ():
        is_named = word in ("properties", "patternProperties", "$defs")
        for name, inner in value.items() if is_named else ():
            if word == "properties" or "enum" in inner:
                yield group, f"{name}:{'|'.join(sorted(types(inner)))}".replace(" ", "_")
            yield from keys(f"{group}.{name}", inner)
        if word in _INNER:
            yield from keys(group, value)


def types(of: Any) -> set[str]:
    """Return the types and values that a schema allows, and those of items or alternatives."""
    if not isinstance(of, dict):
        return set().union(*map(types, of)) if isinstance(of, list) else set()
    own = [of[word] for word in ("type", "const", "enum", "$ref") if word in of]
    words = {str(each) for value in own for each in (value if isinstance(value, list) else [value])}
    return words.union(*(types(of[word]) for word in _INNER if word in of))


def text_of(items: set[Item]) -> str:
    """Return the surface as a file: the series of versions that keeps it, and a line a group."""
    major, minor, *_ = version("shoal").split(".")
    whole = textwrap.TextWrapper(
        100, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
    lines = [f"series: {major}.{minor}" if major == "0" else f"series: {major}"]
    for group in sorted({group for group, _ in items}):
        words = sorted(word for each, word in items if each == group)
        lines.append(whole.fill(f"{group}: {' '.join(words)}"))
    return "\n".join(lines) + "\n"


def gone(now: set[Item]) -> list[Item]:
    """Return what the last release of the same series had and this has not."""
    lines = GOLDEN.read_text().replace("\n  ", " ").splitlines()
    groups = (line.split(": ", 1) for line in lines[1:])
    before = {(group, word) for group, words in groups for word in words.split()}
    missing = sorted(
        each for each in before - now if not is_widened(*each, now) and not is_importable(*each)
    )
    return missing if text_of(now).startswith(f"{lines[0]}\n") else []


def is_importable(group: str, word: str) -> bool:
    """Return whether a value that we import no more is still there for a team's copy."""
    module, _, name = group.rpartition(".")
    if word != "-" or not module.startswith("shoal."):
        return False
    try:
        return hasattr(import_module(module), name)
    except ModuleNotFoundError:
        return False


def is_widened(group: str, word: str, now: set[Item]) -> bool:
    """Return whether a key takes all that it took, and more."""
    name, _, values = word.partition(":")
    others = (each.partition(":") for of, each in now if of == group)
    allowed = (set(more.split("|")) for key, _, more in others if key == name)
    return any(set(values.split("|")) < each for each in allowed)


def test_nothing_public_is_taken_away_or_forgotten() -> None:
    now = surface()
    assert not gone(now), GONE.format(gone(now))
    assert text_of(now) == GOLDEN.read_text(), f"something is new; {WRITE}"


if __name__ == "__main__":
    found = surface()
    if gone(found):
        raise SystemExit(GONE.format(gone(found)))
    GOLDEN.write_text(text_of(found))
