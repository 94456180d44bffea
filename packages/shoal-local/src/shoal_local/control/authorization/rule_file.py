"""Reads rule files: which questions AWS asks about each operation of a service.

`rules` is a list of rows. A row has `operations`, words, and the keys of one question, or a list
of them under `questions`. The keys of a question are the fields of QuestionTemplate; `only_if` is
written `if`. Rows share what is anchored under `shared`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

from shoal_local.control.authorization.question_template import (
    Expression,
    QuestionTemplate,
    Tags,
    Template,
)
from shoal_local.tables import read_table

FILE_KEYS = frozenset({"prefix", "shared", "rules"})
QUESTION_KEYS = frozenset({"action", "resource", "for_each", "if", "conditions", "tags", "source"})
Rule = tuple[QuestionTemplate, ...]


def read_rules(path: Path) -> dict[str, Rule]:
    """Return the rules of the service that the file is named after, by operation.

    `prefix` is the service's name in actions and ARNs, where that differs.

    Raises ValueError, with the file and the row, for what is not a rule.
    """
    document = _mapping(read_table(path), path.name)
    _require_known(document, FILE_KEYS, path.name)
    rules: dict[str, Rule] = {}
    for row in document.get("rules") or ():
        operations = str(_mapping(row, path.name).get("operations", "")).split()
        if not operations:
            raise ValueError(f"{path.name}: a row has no operations")
        place = f"{path.name}, {' '.join(operations)}"
        repeated = sorted(rules.keys() & operations)
        if repeated:
            raise ValueError(f"{place}: another row has {', '.join(repeated)}")
        rule = _rule(str(document.get("prefix", path.stem)), row, place)
        rules |= dict.fromkeys(operations, rule)
    return rules


def _rule(service: str, row: Mapping[str, Any], place: str) -> Rule:
    question = {key: value for key, value in row.items() if key != "operations"}
    if "questions" not in question:
        return (_question(service, question, place),)
    _require_known(question, {"questions"}, place)
    return tuple(_question(service, each, place) for each in question["questions"])


def _question(service: str, value: Any, place: str) -> QuestionTemplate:
    question = _mapping(value, place)
    _require_known(question, QUESTION_KEYS, place)
    if "resource" not in question:
        raise ValueError(f"{place}: a question needs a resource")
    tags = question.get("tags", "both")
    if tags not in get_args(Tags):
        raise ValueError(f"{place}: tags are one of {', '.join(get_args(Tags))}, not {tags!r}")
    conditions = _mapping(question.get("conditions", {}), place)
    try:
        return QuestionTemplate(
            service,
            Template(str(question["resource"])),
            Template(str(question["action"])) if "action" in question else None,
            Expression(str(question["for_each"])) if "for_each" in question else None,
            Expression(str(question["if"])) if "if" in question else None,
            {key: Expression(str(text)) for key, text in conditions.items()},
            tags,
            str(question.get("source", "")),
        )
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from error


def _mapping(value: Any, place: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{place}: {value!r} is not a mapping")  # noqa: TRY004 - one type for every bad row
    return value


def _require_known(mapping: Mapping[str, Any], keys: Iterable[str], place: str) -> None:
    unknown = sorted(mapping.keys() - set(keys))
    if unknown:
        raise ValueError(
            f"{place}: unknown key {', '.join(unknown)}; the keys are {', '.join(sorted(keys))}"
        )
