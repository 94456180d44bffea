"""Write the schemas of the YAML files that people write, and docs/reference, which has every key of
them.

.venv/bin/python -m dev.tools.reference
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from shoal.settings.loading.schema import schema, schema_texts
from shoal.settings.loading.workload import Workload

_ROOT = Path(__file__).resolve().parents[2]
FOLDER = _ROOT / "docs" / "reference"
COMMAND = "make reference"
_NOTE = f"<!-- Written by `{COMMAND}`: change the program's text instead of this page. -->"
_ENVIRONMENT = """\
One file in `environments/` is one environment. Editors complete and check its keys where the file
begins with `# yaml-language-server: $schema=schema.json`. `shoal check` also checks the rules
between keys. *Depends* means that other keys decide; the description says which."""
_WORKLOAD = """\
One folder in `training_code/` with a `workload.yaml` is one workload. Editors complete and check
its keys where the file begins with `# yaml-language-server: $schema=../schema.json`. `shoal check`
also reads the files that it names, and its expressions."""
_WORDS = {"string": "text", "boolean": "true or false"}

Schema = dict[str, Any]


def main() -> None:
    """Write every schema and page."""
    FOLDER.mkdir(exist_ok=True)
    for file, text in schema_texts().items():
        (_ROOT / file).write_text(text, encoding="utf-8")
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


def pages() -> dict[str, str]:
    """Return the text of each page by its file name."""
    told: dict[str, str] = {}
    return {
        name: keys_page(name, title, introduction, root, told)
        for name, title, introduction, root in (
            ("environment.md", "Keys of an environment file", _ENVIRONMENT, schema()),
            ("workload.md", "Keys of a workload file", _WORKLOAD, schema(Workload)),
        )
    }


def keys_page(name: str, title: str, introduction: str, root: Schema, told: dict[str, str]) -> str:
    """Return a page with a list of keys for each section of the file that `root` describes.

    `told` has the link to the section that told each line before; such lines are not repeated.
    """
    lines = [f"# {title}", "", _NOTE, "", introduction, ""]
    sections = list(_sections(root, root, "", set()))
    anchors = {id(section): anchor(path) for path, section in sections}
    for path, section in sections:
        lines += [f"## `{path}`" if path else "## Top level", ""]
        if path and "description" in section:
            lines += [_text(section["description"]), ""]
        items = {key: _item(root, section, key, anchors) for key in section["properties"]}
        lines += [item for item in items.values() if item not in told]
        for place in dict.fromkeys(told[item] for item in items.values() if item in told):
            keys = ", ".join(
                f"**`{key}`**" for key, item in items.items() if told.get(item) == place
            )
            lines.append(f"- {keys}: as in {place}.")
        link = f"[{f'`{path}`' if path else 'top level'}]({name}#{anchor(path or 'Top level')})"
        told |= {item: link for item in items.values() if item not in told}
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _sections(
    root: Schema, section: Schema, path: str, seen: set[int]
) -> Iterator[tuple[str, Schema]]:
    """Yield `section` and all sections within it, each once, with its path (`network.existing`)."""
    seen.add(id(section))
    yield path, section
    for key, described in section["properties"].items():
        inner, suffix = _inner_section(root, described)
        if inner is not None and id(inner) not in seen:
            name = (f"{path}.{key}" if path else key) + suffix
            yield from _sections(root, inner, name, seen)


def _inner_section(root: Schema, described: Schema) -> tuple[Schema | None, str]:
    """Return the section that a key holds, and `[]` or `.*` for a list or a map of them."""
    kind, suffix = _resolved(root, described), ""
    if kind.get("type") == "array":
        kind, suffix = _resolved(root, kind["items"]), "[]"
    elif kind.get("type") == "object" and isinstance(values := _values(kind), dict):
        kind, suffix = _resolved(root, values.get("anyOf", [values])[0]), ".*"
    return (kind, suffix) if "properties" in kind else (None, "")


def _resolved(root: Schema, described: Schema) -> Schema:
    """Follow a reference; of alternatives, ignore `null` and constants beside a section."""
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


def _item(root: Schema, section: Schema, key: str, anchors: Mapping[int, str]) -> str:
    """Return a key's line: name, type, default, limits, description."""
    described = section["properties"][key]
    kind = _resolved(root, described)
    facts = (_type(root, described, anchors), _default(section, key, kind), _limits(kind))
    description = _text(described.get("description") or kind.get("description", ""))
    return f"- **`{key}`**: {'; '.join(filter(None, facts))}. {description}".rstrip()


def _type(root: Schema, described: Schema, anchors: Mapping[int, str]) -> str:
    kind = _resolved(root, described)
    if "const" in kind:
        return f"`{kind['const']}`"
    if "properties" in kind:
        words = (f" or `{each['const']}`" for each in described.get("anyOf", ()) if "const" in each)
        return f"[section](#{anchors[id(kind)]})" + "".join(words)
    if "enum" in kind:
        return "one of " + ", ".join(f"`{value}`" for value in kind["enum"])
    if "anyOf" in kind:
        return " or ".join(_type(root, each, anchors) for each in kind["anyOf"])
    if kind.get("type") == "array":
        return f"list of {_type(root, kind['items'], anchors)}"
    if kind.get("type") == "object":
        return f"map of {_type(root, _values(kind), anchors)}"
    name = str(kind.get("type", "any value"))
    return _WORDS.get(name, name)


def _values(kind: Schema) -> Any:
    """Return what describes the values of a map, whose keys may have to match a pattern."""
    if "patternProperties" in kind:
        return next(iter(kind["patternProperties"].values()))
    return kind.get("additionalProperties")


def _default(section: Schema, key: str, kind: Schema) -> str:
    described = section["properties"][key]
    if key in section.get("then", section).get("required", ()):
        return "**required**"
    if "default" in described:
        value = described["default"]
        return "" if value in (None, "", []) else f"default `{json.dumps(value)}`"
    if "properties" in kind or kind.get("type") == "object":
        return ""
    return "*depends*"


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


def _text(text: str) -> str:
    """Escape what Markdown would take for HTML, except in code."""
    parts = " ".join(text.split()).split("`")
    parts[::2] = [part.replace("<", "\\<") for part in parts[::2]]
    return "`".join(parts)


if __name__ == "__main__":
    main()
