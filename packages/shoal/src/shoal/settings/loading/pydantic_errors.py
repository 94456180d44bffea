"""Turn pydantic's errors into problems: one per wrong key, in words for people who edit YAML."""

import difflib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from shoal.settings.parsing.base import SECTION_BRANCH
from shoal.settings.parsing.errors import Problem
from shoal.settings.parsing.yaml_file import read_table
from shoal.settings.sections.channels import refusal_of

Model = TypeVar("Model", bound=BaseModel)
Place = tuple[int | str, ...]
Details = Mapping[str, Any]
"""One of the errors in pydantic's `ValidationError.errors()`."""
FORMS: dict[str, str] = read_table(__file__, "forms.yaml")
"""What texts must look like, in words, by pattern; a test compares them with the settings."""
_TYPE_NAMES = {
    "string_type": "text (in quotes)",
    "int_type": "a whole number without quotes",
    "float_type": "a number without quotes",
    "bool_type": "true or false",
    "dict_type": "a mapping of names to values",
    "model_type": "a mapping of keys to values",
    "tuple_type": "a list",
}
_MEANT = {
    **dict.fromkeys(("ddp", "fsdp", "fsdp2", "deepspeed", "accelerate", "distributed"), "torchrun"),
    **dict.fromkeys(("torch_distributed", "torch.distributed.run", "elastic"), "torchrun"),
    **dict.fromkeys(("smdistributed", "dataparallel", "sdp"), "smddp"),
    "mpi": "horovod",
    "torch": "pytorch",
    "tf": "tensorflow",
    **dict.fromkeys(("scikit-learn", "scikit_learn", "scikit"), "sklearn"),
    "xgb": "xgboost",
}
"""What people call what a key allows; those of SageMaker's SDK among them."""
SECRETS = "secrets"
"""The key whose values are never shown."""
_LIMITS = {
    "ge": "be at least {}",
    "gt": "be more than {}",
    "le": "be at most {}",
    "lt": "be less than {}",
    "min_length": "have at least {} {}",
    "max_length": "have at most {} {}",
}


def typed(model: type[Model], data: dict[str, Any]) -> tuple[Model | None, list[Problem]]:
    """Return `data`, of which nothing is converted, as a `model`, or one problem per wrong key."""
    try:
        return model.model_validate_json(json.dumps(data), strict=True), []
    except ValidationError as error:
        mistakes = error.errors()
    # one problem per wrong key: a union that matches none of its types counts once
    grouped: dict[str, list[tuple[Place, Details]]] = {}
    for details in mistakes:
        # a default that rests on another key, which is wrong itself
        if details["type"] == "default_factory_not_called":
            continue
        place = _place(details, data)
        grouped.setdefault(_path(place), []).append((place, details))
    # A list with a wrong item also counts as too short; the item is what to correct.
    inner = {key[: mark.start()] for key in grouped for mark in re.finditer(r"\[", key)}
    return None, [_problem(*each, model) for each in grouped.items() if each[0] not in inner]


def without_keys(data: dict[str, Any], keys: Sequence[str], prefix: str = "") -> dict[str, Any]:
    """Return a copy of `data` without `keys`; an item of a list takes the whole list with it."""
    wrong = {key.split("[")[0] for key in keys}
    return {
        name: without_keys(value, keys, f"{prefix}{name}.") if isinstance(value, dict) else value
        for name, value in data.items()
        if prefix + name not in wrong
    }


def _place(details: Details, data: Any) -> Place:
    """Return pydantic's location as far as the file has it, without branches, or a missing key."""
    place: list[int | str] = []
    for step in details["loc"]:
        if step == SECTION_BRANCH:
            continue
        present = (isinstance(data, dict) and step in data) or (
            isinstance(data, list) and isinstance(step, int) and step < len(data)
        )
        if not present:
            return (*place, step) if details["type"] == "missing" else tuple(place)
        place.append(step)
        data = data[step]
    return tuple(place)


def _path(place: Sequence[int | str]) -> str:
    return "".join(
        f"[{step}]" if isinstance(step, int) else f".{step}" for step in place
    ).removeprefix(".")


def _problem(key: str, errors: list[tuple[Place, Details]], model: type[BaseModel]) -> Problem:
    place, details = errors[0]
    kind, value = details["type"], details["input"]
    if known := refusal_of(key, kind, value):
        return known
    if kind == "extra_forbidden":
        return _unknown_key(key, place, model)
    if kind == "missing":
        return Problem(key, "the key is missing", f"add it: {_description(place, model)}")
    if SECRETS in place:  # the value is not shown: it may be the secret itself
        advice = "give the name of a secret in Secrets Manager, as in HF_TOKEN: team/hf-token"
        if details["loc"][-1] == "[key]":
            return Problem(key, "is no name of a variable, as in HF_TOKEN", advice)
        message = "must be a mapping" if kind == "dict_type" else "is no name of a secret"
        return Problem(key, message, f"{advice}; never a value or an ARN")
    message, advice = _rule(details), _description(place, model)
    if kind == "enum":
        allowed, word = _allowed(details).split(", "), str(value).lower()
        near = [_MEANT[word]] if _MEANT.get(word) in allowed else []
        near = near or difflib.get_close_matches(word, allowed, n=1)
        advice = f"did you mean `{near[0]}`?" if near else advice
    if len(errors) > 1:
        message = "must be text, a number, true or false"
        advice = "give one value, not a list or a mapping"
    return Problem(key, message, advice, details["input"])


def _unknown_key(key: str, place: Place, model: type[BaseModel]) -> Problem:
    names = list((_walk(place[:-1], model)[0] or model).model_fields)
    nearest = difflib.get_close_matches(str(place[-1]), names, n=1)
    nearest += [path for path in _all_keys(model) if path.rsplit(".", 1)[-1] == str(place[-1])]
    advice = f"did you mean `{nearest[0]}`?" if nearest else "remove it"
    return Problem(key, f"there is no such key here; allowed: {', '.join(names)}", advice)


def _allowed(details: Details) -> str:
    return str(details["ctx"]["expected"]).replace(" or ", ", ").replace("'", "")


def _rule(details: Details) -> str:
    kind, context = details["type"], details.get("ctx", {})
    if kind in _TYPE_NAMES:
        return f"must be {_TYPE_NAMES[kind]}"
    if kind == "enum":
        return f"must be one of: {_allowed(details)}"
    if kind == "string_pattern_mismatch":
        return f"must be {FORMS.get(context['pattern'], context['pattern'])}"
    for name, words in _LIMITS.items():
        if name in context:
            things = "characters" if kind.startswith("string") else "entries"
            return f"must {words.format(context[name], things)}"
    message = str(details["msg"]).replace("Input should be", "must be")
    return message[0].lower() + message[1:]


def _description(place: Sequence[int | str], model: type[BaseModel]) -> str:
    """Return what the key is for, as its docstring says."""
    info = _walk(place, model)[1]
    text = " ".join((info.description or "").split()) if info else ""
    return text.rstrip(".") if text else "see `shoal docs reference/environment`"


def _walk(
    place: Sequence[int | str], model: type[BaseModel]
) -> tuple[type[BaseModel] | None, FieldInfo | None]:
    """Return the section at the end of `place`, None at a value, and the last known key."""
    section: type[BaseModel] | None = model
    info: FieldInfo | None = None
    names = iter([step for step in place if isinstance(step, str)])
    for name in names:
        if section is None:
            break
        info = section.model_fields.get(name)
        section = _section_type(info)
        if info is not None and get_origin(info.annotation) is dict:
            next(names, None)  # the user chose it
    return section, info


def _section_type(info: FieldInfo | None) -> type[BaseModel] | None:
    """Return the section that a key holds: itself, or in a union, a list or a map."""
    kinds: list[Any] = [info.annotation] if info else []
    for kind in kinds:  # it grows
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return kind
        kinds += get_args(kind)
    return None


def _all_keys(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for name, info in model.model_fields.items():
        yield f"{prefix}{name}"
        section = _section_type(info)
        if section:
            yield from _all_keys(section, f"{prefix}{name}.")
