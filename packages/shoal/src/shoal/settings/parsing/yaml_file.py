"""Read YAML: files that people write, with the line of each key, and tables next to our modules,
also of statements of IAM policies.

Scalars of such files follow YAML 1.2's core schema: only `true` and `false` are booleans (`yes`,
`on` and `NO` stay text), `1e-3` is a number, `1:30` and dates are text. A key that stands twice
is a mistake: YAML parsers keep one of the two silently.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from pathlib import Path
from string import Formatter
from typing import Any

import yaml

from shoal.settings.parsing.errors import ConfigError, Problem, place_of, shorten
from shoal.settings.parsing.plain_files import problems_in

_TABLE_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Of tables: libyaml's where it exists, the same result, about ten times as fast as Python's."""
MAX_BYTES = 64 * 1024
"""Of a file. The largest of ours has 2 kB."""
MAX_DEPTH = 20
"""Of nested mappings and lists; the schema needs five."""
MAX_NODES = 2000
"""Keys, values and items, each as often as aliases repeat it."""


class _Loader(yaml.SafeLoader):
    """PyYAML with the resolvers of YAML 1.2's core schema, and with limits.

    Without limits a file of 1 kB can ask for gigabytes, and a deep one ends the recursion.
    """

    yaml_implicit_resolvers = {}  # noqa: RUF012 - PyYAML's own class attribute, replaced so that its 1.1 rules do not apply

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = self._nodes = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Compose a node and what is below it."""
        self._depth += 1
        self._nodes += 1
        mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
        _refuse_above(MAX_DEPTH, self._depth - 1, "levels of nested values", mark)
        _refuse_above(MAX_NODES, self._nodes, "keys and values", mark)
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


_DIGITS = r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)"
_RESOLVERS = (
    ("null", r"^(?:~|null|Null|NULL)$", "~nN"),
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    ("int", r"^[-+]?[0-9]+$", "-+0123456789"),
    (
        "float",
        rf"^{_DIGITS}(?:[eE][-+]?[0-9]+)?$|^[-+]?\.(?:inf|Inf|INF)$|^\.(?:nan|NaN|NAN)$",
        "-+0123456789.",
    ),
)
for _kind, _pattern, _first in _RESOLVERS:
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_kind}", re.compile(_pattern), list(_first))
_Loader.yaml_implicit_resolvers[""] = [("tag:yaml.org,2002:null", re.compile(r"^$"))]
_SCALARS: dict[str, Callable[[str], Any]] = {
    "tag:yaml.org,2002:null": lambda _: None,
    "tag:yaml.org,2002:bool": lambda text: text.lower() == "true",
    "tag:yaml.org,2002:int": int,
    "tag:yaml.org,2002:float": lambda text: float(
        text.lower().replace(".inf", "inf").replace(".nan", "nan")
    ),
    "tag:yaml.org,2002:str": str,
}
"""How to convert a scalar, by its tag; others make dates, bytes or objects, and are refused."""


@dataclass
class Document:
    """The data of a YAML text, the line of each key, and the problems of the text."""

    data: Any = None
    lines: dict[str, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


@lru_cache(maxsize=64)
def parse(text: str) -> Document:
    """Return the document in `text`; its `problems` are syntax errors and duplicate keys.

    The loader needs that of an environment once for each of its workloads.
    """
    document = Document()
    try:
        node = _Loader(text).get_single_node()
        if node is not None:
            document.data = _Reader(document).read(node, "")
    except yaml.reader.ReaderError as error:
        document.lines[""] = text.count("\n", 0, error.position) + 1
        message = f"contains a character that YAML does not allow, U+{error.character:04X}"
        document.problems.append(Problem("", message, "remove it"))
    except yaml.YAMLError as error:
        # the parser's complaint on one line, placed at its own line number
        mark = getattr(error, "problem_mark", None)
        what = getattr(error, "problem", None) or str(error).splitlines()[0]
        if mark is not None:
            document.lines[""] = mark.line + 1
            what = f"{what} (column {mark.column + 1})"
        what = re.sub(r"(alias|anchor|tag handle) '[^']*'", r"\1", what)  # it may be a password
        message = f"not valid YAML: {shorten(what, 160).strip(chr(34))}"
        advice = "correct the line, or the one above it"
        document.problems.append(Problem("", message, advice))
    return document


def _refusal(message: str, mark: yaml.Mark | None) -> yaml.YAMLError:
    return yaml.constructor.ConstructorError(None, None, message, mark)


@dataclass
class _Reader:
    """Turns nodes into data and notes the line of every key on the way."""

    document: Document
    open_nodes: list[int] = field(default_factory=list)
    nodes: int = 0
    characters: int = 0

    def read(self, node: yaml.Node, path: str) -> Any:
        self.nodes += 1
        self.characters += len(node.value) if isinstance(node, yaml.ScalarNode) else 0
        _refuse_above(MAX_NODES, self.nodes, "values, aliases counted", node.start_mark)
        _refuse_above(MAX_BYTES, self.characters, "characters, aliases counted", node.start_mark)
        if id(node) in self.open_nodes:
            raise _refusal("an alias may not contain itself", node.start_mark)
        self.open_nodes.append(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                return self._mapping(node, path)
            if isinstance(node, yaml.SequenceNode):
                return [
                    self.read(item, f"{path}[{index}]") for index, item in enumerate(node.value)
                ]
            if not _is_text(node.value):
                raise _refusal("half of a surrogate pair is no character", node.start_mark)
            return _SCALARS[node.tag](node.value)
        except (KeyError, ValueError) as error:
            kind = node.tag.removeprefix("tag:yaml.org,2002:")
            known = f"as {kind}" if node.tag in _SCALARS else "with this tag"
            raise _refusal(f"cannot be read {known}", node.start_mark) from error
        finally:
            self.open_nodes.pop()

    def _mapping(self, node: yaml.MappingNode, path: str) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode) or not _is_text(key_node.value):
                raise _refusal("a key must be a word", key_node.start_mark)
            key = str(key_node.value)
            key_path = f"{path}.{key}" if path else key
            line = key_node.start_mark.line + 1
            if key in data:
                first = self.document.lines[key_path]
                message = f"the key is given twice, on lines {first} and {line}"
                self.document.problems.append(Problem(key_path, message, "remove one of them"))
                continue
            self.document.lines[key_path] = line
            data[key] = self.read(value_node, key_path)
        return data


def _refuse_above(limit: int, number: int, what: str, mark: yaml.Mark) -> None:
    if number > limit:
        raise _refusal(f"a file has at most {limit} {what}", mark)


def _is_text(value: str) -> bool:
    """Return whether the value can be written as UTF-8: an escape such as "\\ud800" cannot."""
    return not any("\ud800" <= character <= "\udfff" for character in value)


@dataclass(frozen=True)
class ParsedFile:
    """A file's content, and the name by which its user knows it."""

    file: str
    document: Document

    def place(self, key: str) -> str:
        """Return where the key stands, as `file:line`."""
        number = place_of(key, self.document.lines, 0)
        return f"{self.file}:{number}" if number else self.file

    def places(self) -> dict[str, str]:
        """Return where each key stands."""
        return {key: self.place(key) for key in self.document.lines}


def parse_file(path: Path, shown_as: str) -> ParsedFile:
    """Return the content of the file `path`, which messages call `shown_as`.

    Raises ConfigError for what cannot be read, such as a link, also of a folder that `shown_as`
    names; mistakes in the YAML are problems of the document.
    """
    shown = Path(shown_as)
    is_below = not shown.is_absolute() and path.parts[-len(shown.parts) :] == shown.parts
    root = path.parents[len(shown.parts) - 1] if is_below else path.parent
    if problems := list(problems_in("", path, root)):
        raise ConfigError(shown_as, problems)
    try:
        with path.open("rb") as opened:
            content = opened.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            message = f"has more than the {MAX_BYTES} bytes that are read"
            raise ConfigError(shown_as, [Problem("", message, "keep in it what the schema names")])
        text = content.decode()
    except OSError as error:
        problem = Problem("", f"cannot be read: {error.strerror}", "check the path")
        raise ConfigError(shown_as, [problem]) from error
    except UnicodeDecodeError as error:
        problem = Problem("", f"is not UTF-8 text: {error.reason}", "save it as UTF-8")
        raise ConfigError(shown_as, [problem]) from error
    return ParsedFile(shown_as, parse(text))


def read_table(module: str, name: str) -> Any:
    """Return the content of the file `name` in the folder of `module`, which is its `__file__`."""
    return yaml.load(Path(module).with_name(name).read_text(encoding="utf-8"), _TABLE_LOADER)  # noqa: S506 - a safe one, see above


def filled(texts: str | Sequence[str], values: Mapping[str, Any]) -> list[str]:
    """Return `texts` with {placeholders} filled in; several values give as many texts."""
    results = []
    for text in _as_list(texts):
        placeholders = [name for _, name, _, _ in Formatter().parse(text) if name]
        for chosen in product(*[_as_list(values[name]) for name in placeholders]):
            results.append(text.format_map(dict(zip(placeholders, chosen, strict=True))))
    return results


def conditions(value: Any, values: Mapping[str, Any]) -> Any:
    """Return conditions with their placeholders filled in; one that stands alone is its value."""
    if isinstance(value, Mapping):
        return {key: conditions(inner, values) for key, inner in value.items()}
    if isinstance(value, list):
        return filled(value, values)
    if value is None:
        return None
    alone = re.fullmatch(r"\{(\w+)\}", value)
    return values[alone[1]] if alone else value.format_map(values)


def _as_list(value: Any) -> list[Any]:
    return [*value] if isinstance(value, list | tuple) else [value]
