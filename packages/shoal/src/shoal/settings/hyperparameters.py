"""The pipeline parameters that training hyperparameters become.

`learning-rate: 0.003` becomes the pipeline parameter `LearningRate` (Float), so that one run can
change it without a deployment. Text becomes none: it cannot be changed for one run.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

SHELL_CHARACTERS = frozenset(";&|<>$`()*?[]{}~#!\\\"'")
"""What a shell does not take as it is. Spaces are `shoal.launch`'s business: they only split words.

sagemaker-training 4.7.4, 4.8.3, 5.1.0 and 5.1.2 join the words of a command line with spaces and
give the line to a shell (`process.py`, `create_subprocess_shell`; read). 5.1.3 starts the program
itself.
"""
HyperparameterValue = str | int | float | bool

_PARSERS: dict[str, Callable[[str], object]] = {
    "Integer": int,
    "Float": float,
    "Boolean": lambda text: ("true", "false").index(text.lower()),
}
PIPELINE_PARAMETERS = ("CodeUri", "InstanceType", "InstanceCount")
"""Of every pipeline, whatever its channels and gates: no hyperparameter may have such a name."""


def parameter_name(hyperparameter: str) -> str:
    """Return `BatchSize` for `batch-size`, `batch_size` and `batchSize`."""
    words = [word for word in re.split(r"[-_.]+", hyperparameter) if word]
    return "".join(word[0].upper() + word[1:] for word in words)


def mistake_in_type(text: str, declared: Mapping[str, Any]) -> str:
    """Return why a pipeline's parameter, as its definition declares it, does not take a text."""
    allowed = [str(each) for each in declared.get("EnumValues", ())]
    if allowed and text not in allowed:
        return f"is not one of {', '.join(allowed)}"
    try:
        _PARSERS.get(declared["Type"], str)(text)
    except (KeyError, ValueError):
        words = " (true or false)" if declared["Type"] == "Boolean" else ""
        return f"is not of type {declared['Type']}{words}"
    return ""


def shell_characters(text: str) -> str:
    """Return the characters of the text that mean something to a shell, for a message."""
    return "".join(dict.fromkeys(each for each in text if each in SHELL_CHARACTERS))


def as_text(value: HyperparameterValue) -> str:
    """Return the value as a pipeline's parameter has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def as_sent(value: HyperparameterValue) -> str:
    """Return the value as the request has it, text in quotes where it would be read as JSON."""
    text = as_text(value)
    is_misread = isinstance(value, str) and _decoded(text) != text
    return json.dumps(text) if is_misread else text


def as_argument(sent: str) -> str:
    """Return what the training script gets on its command line for a value in a request."""
    return str(_decoded(sent))


def _decoded(sent: str) -> object:
    """Return what the training toolkit makes of a value: of `2026.10` 2026.1, of `true` True.

    Source: sagemaker-training 5.1.4, environment.py, read_hyperparameters.
    """
    try:
        return json.loads(sent)
    except ValueError:
        return sent
