"""Writes docs/reference: every command, as click has it, every key of the YAML files that people
write, as their schemas have it, and pictures of the stacks, as a synth has them. Writes
shoal-local's page of operations and a column of docs/verification.md, too.

.venv/bin/python -m dev.tools.reference
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from config.loader import load_environment
from config.schema import schema
from config.workload import Workload
from dev.tools import verification
from dev.tools.pictures.page import stacks_page
from shoal.cli.lazy import Deferred
from shoal.cli.main import shoal
from tests.repository import ROOT

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "reference"
COMMAND = "make reference"
STACKS = "stacks.md"
NOTE = f"<!-- Written by `{COMMAND}`: change the program's text instead of this page. -->"
_UNLIMITED = 1_000_000
"""click wraps at its width, or at max_content_width if that is less."""
_WORDS = {"string": "text", "boolean": "true or false"}

Schema = dict[str, Any]


def main() -> None:
    """Write every page."""
    from dev.tools import coverage  # starts an emulator, which the other pages do not need

    coverage.main()
    verification.main()
    FOLDER.mkdir(exist_ok=True)
    for name, text in (pages() | {STACKS: _stacks_page()}).items():
        (FOLDER / name).write_text(text, encoding="utf-8")


def pages() -> dict[str, str]:
    """Return the text of each page by its file name, except for the one that takes a synth."""
    return {
        "cli.md": cli_page(shoal, "shoal"),
        "environment.md": environment_page(schema()),
        "workload.md": workload_page(schema(Workload)),
    }


def _stacks_page() -> str:
    """Return the page of the stacks, of environments of the tests: those of the user change."""
    from tests.identity.everything import everything
    from tests.identity.synth import synthesised  # starts Node.js

    environments = {"dev": load_environment("dev", ROOT), "everything": everything()}
    with TemporaryDirectory() as folder:
        templates = synthesised(environments, Path(folder))
    return stacks_page(templates["dev"], templates["everything"], NOTE)


def cli_page(group: click.Group, name: str) -> str:
    """Return a page with a section for each command of `group`, which is called `name`."""
    context = _context(group, name)
    commands = list(_commands(group, context))
    lines = [
        "# Commands",
        "",
        NOTE,
        "",
        group.get_short_help_str(_UNLIMITED),
        "`make install` sets up `.venv/bin/shoal`.",
        "",
        *_usage(group, context),
        *_options(group, context),
        "ENV is the name of a file in `environments/`, without `.yaml`. Verbs go to the target that"
        " the file says (`target`), with `--local` to shoal-local.",
        "WORKLOAD is one of its workloads; where it has one only, it may be left out. Without one,"
        " `deploy`, `diff`, `doctor`, `drift`, `plan`, `status`, `sweep` and `destroy` take all of"
        " them.",
        "",
        *_exit_codes(group.epilog or ""),
        "| command | what it does |",
        "| --- | --- |",
        *(
            f"| [`{each.command_path}`](#{anchor(each.command_path)}) |"
            f" {_cell(each.command.get_short_help_str(_UNLIMITED))} |"
            for each in commands
        ),
        "",
    ]
    for each in commands:
        lines += [f"## `{each.command_path}`", "", *_usage(each.command, each)]
        lines += [*_paragraphs(each.command.help or ""), *_options(each.command, each)]
    return "\n".join(lines).rstrip() + "\n"


def _context(
    command: click.Command, name: str, parent: click.Context | None = None
) -> click.Context:
    return click.Context(
        command,
        info_name=name,
        parent=parent,
        terminal_width=_UNLIMITED,
        max_content_width=_UNLIMITED,
        help_option_names=["-h", "--help"],
    )


def _commands(group: click.Group, parent: click.Context) -> Iterator[click.Context]:
    """Yield a context for each command that does something, those of groups within too."""
    for name, listed in sorted(group.commands.items()):
        command = listed.load() if isinstance(listed, Deferred) else listed
        context = _context(command, name, parent)
        if isinstance(command, click.Group):
            yield from _commands(command, context)
        else:
            yield context


def _usage(command: click.Command, context: click.Context) -> list[str]:
    words = [context.command_path, *command.collect_usage_pieces(context)]
    return ["```text", " ".join(words), "```", ""]


def _paragraphs(text: str) -> list[str]:
    """Return Markdown lines of a command's help, whose paragraphs click would wrap."""
    paragraphs = (" ".join(part.split()) for part in re.split(r"\n\s*\n", text))
    return [line for part in paragraphs if part for line in (_text(part), "")]


def _options(command: click.Command, context: click.Context) -> list[str]:
    records = [
        record
        for parameter in command.get_params(context)
        if (record := parameter.get_help_record(context)) and record[1]
        if parameter.name != "help"
    ]
    if not records:
        return []
    rows = (f"| `{_bars(names)}` | {_cell(text)} |" for names, text in records)
    return ["| option | meaning |", "| --- | --- |", *rows, ""]


def _exit_codes(epilog: str) -> list[str]:
    """Return a table of the exit codes that `epilog` lists."""
    listed = re.findall(r"(\d+) ([^,]+?)(?:,|\.$)", epilog)
    rows = (f"| {code} | {_cell(meaning)} |" for code, meaning in listed)
    return ["| exit code | meaning |", "| --- | --- |", *rows, ""]


def environment_page(root: Schema) -> str:
    """Return a page with a table of keys for each section of the file that `root` describes."""
    lines = [
        "# Keys of an environment file",
        "",
        NOTE,
        "",
        "One file in `environments/` is one environment. Editors complete and check its keys by"
        " `environments/schema.json`, where the file begins with `# yaml-language-server:"
        " $schema=schema.json`. `shoal check` also checks the rules between keys; a mistake is one"
        " line that names file, key, value and what is allowed.",
        "",
        "A default of *none* means that there is no value. *Depends* means that other keys decide;"
        " the description says which.",
        "",
    ]
    return _page([*lines, *_tables(root)])


def workload_page(root: Schema) -> str:
    """Return a page with a table of keys for each section of the file that `root` describes."""
    lines = [
        "# Keys of a workload file",
        "",
        NOTE,
        "",
        "One folder in `training_code/` with a `workload.yaml` is one workload. Editors complete"
        " and check its keys by `training_code/schema.json`, where the file begins with"
        " `# yaml-language-server: $schema=../schema.json`. `shoal check` also reads the files that"
        " it names, and its expressions.",
        "",
    ]
    return _page([*lines, *_tables(root)])


def _page(lines: list[str]) -> str:
    return "\n".join(lines).rstrip() + "\n"


def _tables(root: Schema) -> Iterator[str]:
    for path, section in _sections(root, root, ""):
        heading = f"`{path}`" if path else "Top level"
        yield from (f"## {heading}", "")
        if path and "description" in section:
            yield from (_text(section["description"]), "")
        yield from (
            "| key | type | default | limits | description |",
            "| --- | --- | --- | --- | --- |",
        )
        yield from (_row(root, section, path, key) for key in section["properties"])
        yield ""


def _sections(root: Schema, section: Schema, path: str) -> Iterator[tuple[str, Schema]]:
    """Yield `section` and all sections within it, each with its path (`network.existing`)."""
    yield path, section
    for key, described in section["properties"].items():
        inner, suffix = _inner_section(root, described)
        if inner is not None:
            yield from _sections(root, inner, _join(path, key) + suffix)


def _inner_section(root: Schema, described: Schema) -> tuple[Schema | None, str]:
    """Return the section that a key holds, and `[]` or `.*` for a list or a map of them."""
    kind, suffix = _resolved(root, described), ""
    if kind.get("type") == "array":
        kind, suffix = _resolved(root, kind["items"]), "[]"
    elif kind.get("type") == "object" and isinstance(values := _values(kind), dict):
        kind, suffix = _resolved(root, values.get("anyOf", [values])[0]), ".*"
    return (kind, suffix) if "properties" in kind else (None, "")


def _resolved(root: Schema, described: Schema) -> Schema:
    """Follow a reference, and leave `null` and single words out of alternatives: all keep a
    section's own keys.
    """
    if "anyOf" in described:
        kinds = [
            each
            for each in described["anyOf"]
            if each.get("type") != "null" and "const" not in each
        ] or described["anyOf"][:1]
        if len(kinds) == 1:
            return _resolved(root, kinds[0])
    if "$ref" in described:
        kind: Schema = root["$defs"][described["$ref"].rpartition("/")[2]]
        return kind
    return described


def _row(root: Schema, section: Schema, path: str, key: str) -> str:
    described = section["properties"][key]
    kind = _resolved(root, described)
    cells = (
        f"`{key}`",
        _type(root, described, _join(path, key)),
        _default(root, section, key),
        _limits(kind),
        _text(described.get("description") or kind.get("description", "")),
    )
    return f"| {' | '.join(_bars(cell) for cell in cells)} |"


def _type(root: Schema, described: Schema, path: str) -> str:
    kind = _resolved(root, described)
    if "const" in kind:
        return f"`{kind['const']}`"
    if "properties" in kind:
        words = (f" or `{each['const']}`" for each in described.get("anyOf", ()) if "const" in each)
        return f"[section](#{anchor(path)})" + "".join(words)
    if "enum" in kind:
        return "one of " + ", ".join(f"`{value}`" for value in kind["enum"])
    if "anyOf" in kind:
        return " or ".join(_type(root, each, path) for each in kind["anyOf"])
    if kind.get("type") == "array":
        return f"list of {_type(root, kind['items'], f'{path}[]')}"
    if kind.get("type") == "object":
        return f"map of {_type(root, _values(kind), f'{path}.*')}"
    kind_name = str(kind.get("type", "any value"))
    return _WORDS.get(kind_name, kind_name)


def _values(kind: Schema) -> Any:
    """Return what describes the values of a map, whose keys may have to match a pattern."""
    if "patternProperties" in kind:
        return next(iter(kind["patternProperties"].values()))
    return kind.get("additionalProperties")


def _default(root: Schema, section: Schema, key: str) -> str:
    described = section["properties"][key]
    if key in section.get("required", ()):
        return "**required**"
    if "default" in described:
        value = described["default"]
        return "*none*" if value in (None, "", []) else f"`{json.dumps(value)}`"
    kind = _resolved(root, described)
    if "properties" in kind:
        return "the defaults of its keys"
    return "*none*" if kind.get("type") == "object" else "*depends*"


def _limits(kind: Schema) -> str:
    """Return what a value must keep to, and what each value of a list must."""
    limits = [
        _range(kind.get("minimum"), kind.get("maximum"), ""),
        _range(kind.get("minLength"), kind.get("maxLength"), " characters"),
        _range(kind.get("minItems"), kind.get("maxItems"), " values"),
    ]
    if "exclusiveMinimum" in kind:
        limits.append(f"above {kind['exclusiveMinimum']}")
    if "pattern" in kind:
        limits.append(f"matches `{kind['pattern']}`")
    if "patternProperties" in kind:
        limits.append(f"keys match `{next(iter(kind['patternProperties']))}`")
    if kind.get("type") == "array" and (each := _limits(kind["items"])):
        limits.append(f"each {each}")
    return ", ".join(limit for limit in limits if limit)


def _range(minimum: float | None, maximum: float | None, unit: str) -> str:
    if minimum is None and maximum is None:
        return ""
    if minimum is None:
        return f"at most {maximum:,}{unit}"
    return f"at least {minimum:,}{unit}" if maximum is None else f"{minimum:,} to {maximum:,}{unit}"


def anchor(heading: str) -> str:
    """Return the name by which GitHub links to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _cell(text: str) -> str:
    return _bars(_text(text))


def _bars(text: str) -> str:
    """Escape what would end a cell of a table."""
    return text.replace("|", "\\|")


def _text(text: str) -> str:
    """Escape what Markdown would take for HTML, except in code."""
    parts = " ".join(text.split()).split("`")
    parts[::2] = [part.replace("<", "\\<") for part in parts[::2]]
    return "`".join(parts)


if __name__ == "__main__":
    main()
