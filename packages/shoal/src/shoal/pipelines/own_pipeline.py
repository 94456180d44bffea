"""The definition that an environment's stack deploys: what the repository's own function returns.

`pipeline` names the function, by default that of `pipelines/training.py`. It gets the Environment
and the Infrastructure, and the Launch if it has a parameter `launch`. It returns a
`shoal.pipelines.graph.Pipeline`, a definition (a dict) or a `Pipeline` of SageMaker's Python SDK
v3. It is imported from the repository root. Whatever is wrong with it is one line of a
ConfigError, never a traceback.
"""

import importlib
import inspect
import json
import sys
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from shoal.launch import Launch
from shoal.pipelines import graph_rules, shapes
from shoal.pipelines.checks import own_pipeline_rules
from shoal.pipelines.graph import Infrastructure, Pipeline
from shoal.pipelines.limits import every_step
from shoal.settings.loading.loader import environment_file
from shoal.settings.parsing.errors import ConfigError, DefinitionError, Problem
from shoal.settings.parsing.plain_files import problems_in
from shoal.settings.settings import Environment

KEY = "pipeline"
DEFAULT = "pipelines.training:training_pipeline"
STEPS = ("Train", "Evaluate", "Gate", "Seal", "Register", "CreateModel", "SmokeTest")
"""Of Shoal's own pipeline, those that rest on the scripts."""
Function = Callable[..., object]
_HERE = Path(__file__).parent


class _UnusableError(Exception):
    """The user's function cannot be used; `args` are why, and what to do about it."""


def definition_of(
    environment: Environment, infrastructure: Infrastructure, launch: Launch, root: Path | None
) -> dict[str, Any]:
    """Return the checked definition; the user's module is imported from `root`.

    Raises ConfigError when the function or its result cannot be used, and DefinitionError when the
    settings make of the default function a definition that SageMaker would refuse.
    """
    name = environment.pipeline or DEFAULT
    if environment.pipeline is None and root is not None and not _is_in(root, _module_of(DEFAULT)):
        root = None  # as installed: a folder that only holds settings has no pipeline of its own
    if built := infrastructure.endpoint_image_uri:
        launch = replace(launch, inference_image_uri=built)
    try:
        with _importing_from(root):
            call = partial(_called, _function(name, root), environment, infrastructure, launch)
            definition = _as_dict(_call("it raised", call))
        graph_rules.check(definition)
        shapes.check(definition)
        own_pipeline_rules.Fit(definition, environment, infrastructure).check()
    except _UnusableError as error:
        message, advice = error.args
        problems = [Problem(KEY, message, advice, name)]
    except DefinitionError as error:
        if environment.pipeline is None:  # the mistake is in the settings, and says where
            raise
        problems = [
            Problem(KEY, f"in the definition, {mistake}", "correct it there", name)
            for mistake in error.mistakes
        ]
    else:
        return definition
    raise ConfigError(environment_file(environment.name), problems)


def standard_steps(
    environment: Environment,
    infrastructure: Infrastructure,
    launch: Launch,
    root: Path | None,
    definition: Mapping[str, Any],
) -> Collection[str]:
    """Return the steps that are as in Shoal's own pipeline, of Gate by its conditions."""
    if environment.pipeline is None:
        return STEPS
    plain = environment.model_copy(update={"pipeline": None})
    try:
        ours = _steps(definition_of(plain, infrastructure, launch, root))
    except (ConfigError, DefinitionError):  # it could not run here
        return ()
    theirs = _steps(definition)
    return [name for name, arguments in ours.items() if theirs.get(name) == arguments]


def _steps(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return what each step is asked for, by name, also within conditions."""
    steps = every_step(definition["Steps"])
    return {each["Name"]: each["Arguments"].get("Conditions", each["Arguments"]) for each in steps}


@contextmanager
def _importing_from(root: Path | None) -> Iterator[None]:
    """Let the function import its own modules too, while it runs."""
    before, bytecode = list(sys.path), sys.dont_write_bytecode
    if root is not None:
        sys.path.insert(0, str(root))
        sys.dont_write_bytecode = True  # the user's folder stays as it was
    try:
        yield
    finally:
        sys.path[:], sys.dont_write_bytecode = before, bytecode


def _function(name: str, root: Path | None) -> Function:
    """Return the function `module:function`, imported from `root`, or from where it is installed
    for Shoal's own pipeline alone.

    Everybody who may change an environment file chooses the name, and what it names is called.
    """
    module_name, attribute = _module_of(name), name.partition(":")[2]
    importlib.invalidate_caches()
    if root is not None and not _is_in(root, module_name):
        raise _no_module(module_name)
    if root is not None:  # neither the module nor anything in its folder may be a link
        *folders, last = module_name.split(".")
        for link in problems_in(KEY, root.joinpath(*folders or [f"{last}.py"]), root):
            raise _UnusableError(link.message, link.advice)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and f"{module_name}.".startswith(f"{error.name}."):
            raise _no_module(module_name) from error
        message = f"{module_name} imports {error.name}, which is not installed"
        raise _UnusableError(message, "install it into .venv, or remove the import") from error
    except Exception as error:
        message = f"importing {module_name} failed: {_one_line(error)}"
        raise _UnusableError(message, "correct the module") from error
    function = getattr(module, attribute, None)
    if function is None:
        functions = inspect.getmembers(module, inspect.isroutine)
        own = [key for key, each in functions if each.__module__ == module.__name__]
        message = f"{module_name} has no {attribute}; its functions: {', '.join(own) or 'none'}"
        raise _UnusableError(message, "name one of its functions")
    if not callable(function):
        message = f"{attribute} is not a function but {_kind(function)}"
        raise _UnusableError(message, "name a function")
    return function  # type: ignore[no-any-return]


def _called(function: Function, *given: object) -> object:
    """Return what the function returns; it need not have a parameter called `launch`."""
    *others, launch = given
    if "launch" in inspect.signature(function).parameters:
        return function(*others, launch=launch)
    return function(*others)


def _module_of(name: str) -> str:
    return name.partition(":")[0]


def _is_in(root: Path, module_name: str) -> bool:
    path = root.joinpath(*module_name.split("."))
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def _no_module(module_name: str) -> _UnusableError:
    advice = f"write {module_name.replace('.', '/')}.py, its path from the repository root"
    if module_name.endswith(".py"):
        advice = "name the module, without .py"
    return _UnusableError(f"the checkout has no module {module_name}", advice)


def _call(what: str, call: Callable[[], Any]) -> Any:
    """Return the result of the user's code; turn whatever it raises into one line for the user."""
    try:
        return call()
    except DefinitionError as error:  # of the pipeline that it edits
        message = f"{'; '.join(error.mistakes)}{_place(error)}"
        raise _UnusableError(message, "correct the function") from error
    except Exception as error:
        raise _UnusableError(f"{what} {_one_line(error)}", "correct the function") from error


def _as_dict(returned: object) -> dict[str, Any]:
    """Return the definition as JSON data, from a dict, our `Pipeline` or an SDK's."""
    if isinstance(returned, Pipeline):
        returned = returned.to_dict()
    if hasattr(returned, "definition"):
        text = _call("its Pipeline's definition() raised", returned.definition)
    elif isinstance(returned, Mapping):
        encode = partial(json.dumps, dict(returned), allow_nan=False)
        text = _call("its definition is not JSON:", encode)
    else:
        advice = (
            "return a shoal.pipelines.graph.Pipeline, a pipeline definition as a dict, or a"
            " sagemaker.mlops.workflow.pipeline.Pipeline"
        )
        raise _UnusableError(f"it returned {_kind(returned)}", advice)
    definition = _call("its definition is not JSON:", partial(json.loads, text))
    if not isinstance(definition, dict):
        message = f"its Pipeline's definition() is {_kind(definition)}, not an object"
        raise _UnusableError(message, "return a definition")
    return definition


def _one_line(error: Exception) -> str:
    """Return the type, message and place of an exception, on one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}{_place(error)}"


def _place(error: Exception) -> str:
    """Return file and line of the user's code that raised, or of the code that it called."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).parent != _HERE] or frames
    return f" ({Path(own[-1].filename).name}:{own[-1].lineno})" if own else ""


def _kind(value: object) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"
