"""The inputs of pipeline tests: the golden environment, infrastructure, both SDKs' goldens, and
training sections alone or with the scripts of the shipped workload.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pipelines.training import training_pipeline
from shoal.launch import Launch, launch_of, resolve
from shoal.pipelines.graph import Infrastructure
from shoal.pipelines.limits import every_step
from shoal.settings.frameworks import Framework
from shoal.settings.loading.loader import load
from shoal.settings.loading.workload import load_workload
from shoal.settings.parsing.base import Settings
from shoal.settings.parsing.errors import LaunchError
from shoal.settings.sections.evaluation import Direction, Gate
from shoal.settings.sections.file_system import FileSystem
from shoal.settings.sections.mlflow import Mlflow
from shoal.settings.sections.release import Release
from shoal.settings.sections.scoring import Scoring
from shoal.settings.sections.serving import Endpoint, Serving
from shoal.settings.settings import Environment, Training
from tests.repository import ROOT

GOLDENS = ROOT / "packages" / "shoal" / "tests" / "goldens"


def golden(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((GOLDENS / f"{name}.json").read_text(encoding="utf-8"))
    return content


def environment() -> Environment:
    return load(GOLDENS / "golden.yaml")


_ABSENT: dict[str, type[Settings]] = {
    "endpoint": Endpoint,
    "file_system": FileSystem,
    "mlflow": Mlflow,
    "release": Release,
    "scoring": Scoring,
    "serving": Serving,
}
"""The sections that an environment need not have."""


def changed(**sections: Any) -> Environment:
    """Return the golden environment with keys of its sections changed, as a file writes them.

    With the key `new`, a section has the other keys only; what is no mapping replaces a section.
    """
    settings, update = environment(), dict[str, Any]()
    for name, value in sections.items():
        section = getattr(settings, name)
        if isinstance(value, Mapping):
            keys = dict(value)
            is_new = keys.pop("new", False) or section is None
            kept = (
                {} if is_new else {key: getattr(section, key) for key in section.model_fields_set}
            )
            kind: type[Settings] = _ABSENT[name] if section is None else type(section)
            update[name] = kind.model_validate(kept | keys)
        else:
            update[name] = value
    return settings.model_copy(update=update)


def value_at(document: dict[str, Any], path: str) -> Any:
    """Return what a definition has at `Step.Key[0].Key`: a key of the step's arguments, or of the
    step. Return None where only the last key is not there, or a step of the golden definition.
    """
    name, *keys = re.findall(r"[^.\[\]]+", path)
    if name == "Parameters":
        return {each["Name"]: each["DefaultValue"] for each in document[name]}.get(keys[0])
    step = steps_by_name(document).get(name)
    if step is None and not keys and name in steps_by_name(definition()):
        return None
    assert step is not None, f"no step is called {name}"
    value: Any = step["Arguments"] | step
    for number, key in enumerate(keys, 1):
        if isinstance(value, list):
            value = value[int(key)]
        else:
            value = value.get(key) if number == len(keys) else value[key]
    return value


def set_at(document: dict[str, Any], path: str, value: Any) -> None:
    """Change a definition at `Step.Key[0].Key`, a key of a step's arguments; `Step/Key` is one of
    the step, and `/Key` one of the definition. None removes it.
    """
    name, is_outside, rest = path.partition("/")
    holder: Any = document
    if not is_outside:
        name, _, rest = path.partition(".")
    if name:
        holder = next(step for step in every_step(document["Steps"]) if step["Name"] == name)
    holder = holder if is_outside else holder["Arguments"]
    *keys, last = re.findall(r"[^.\[\]]+", rest)
    for key in keys:
        holder = holder[int(key)] if isinstance(holder, list) else holder[key]
    if value is None:
        del holder[last]
    else:
        holder[last] = value


def infrastructure() -> Infrastructure:
    settings = golden("infrastructure")
    fields: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()
    }
    return Infrastructure(**fields)


def definition() -> dict[str, Any]:
    return definition_for(environment(), infrastructure())


def compared() -> dict[str, Any]:
    """Return the golden environment's definition with a gate that compares with the registry."""
    settings = environment()
    gate = Gate(metric="accuracy", not_worse_than="approved", by=0.01, direction=Direction.HIGHER)
    evaluation = settings.evaluation.model_copy(
        update={"gates": (*settings.evaluation.gates, gate)}
    )
    changed = settings.model_copy(update={"evaluation": evaluation})
    function = "arn:aws:lambda:us-east-1:111122223333:function:shoal-mnist-golden-compare"
    return definition_for(changed, replace(infrastructure(), compare_function_arn=function))


def definition_for(environment: Environment, infrastructure: Infrastructure) -> dict[str, Any]:
    return training_pipeline(environment, infrastructure, launch_of(environment)).to_dict()


def steps_by_name(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return every step by name, those of branches too."""
    return {step["Name"]: dict(step) for step in every_step(document["Steps"])}


def shipped(**keys: Any) -> Training:
    """Return a training section with `keys`, and with its scripts unless they name a folder."""
    if "source_dir" in keys:
        return Training(**keys)
    framework = Framework(keys.get("framework", Framework.PYTORCH))
    oldest = load_workload("mnist", ROOT).frameworks[framework].min_python
    return Training(source_dir=f"training_code/mnist/{framework}", min_python=oldest, **keys)


def launch(code: str = "any_code", root: Path | None = None, **keys: Any) -> Launch:
    """Return the launch of a training section with `keys`, and with `region` if it is among them.

    Its scripts are those of the workload for `shipped_code`; for `any_code` they lie in `root`, or
    nowhere.
    """
    region = keys.pop("region", "us-east-1")
    if code == "shipped_code":
        return resolve(shipped(**keys), region, root=ROOT)
    return resolve(Training(**keys), region, root=root)


def refusals(code: str = "any_code", root: Path | None = None, **keys: Any) -> list[str]:
    """Return the lines by which such a section is refused; none if it can run."""
    try:
        launch(code, root, **keys)
    except LaunchError as error:
        return str(error).splitlines()
    return []
