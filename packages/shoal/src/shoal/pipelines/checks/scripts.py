"""What the contract of the scripts asks (docs/bring-your-model.md), as far as their text says it.

A script that lacks a part of it is a mistake here, not of a job that costs money. What only seems
to be missing, because a package could bring it, is told as a risk. Of checkpoints only that scripts
name their folder can be read, not that they write all that is needed.
"""

import ast
import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from shoal.launch import recipes
from shoal.pipelines.checks.parsers import Script, script_of, word_of
from shoal.settings.hyperparameters import as_argument, as_sent
from shoal.settings.loading.workload import load_workload, workload_file
from shoal.settings.parsing.errors import Problem
from shoal.settings.parsing.plain_files import (
    PACKAGE,
    mistake_in_python,
    modules_of,
    packed_files,
    python_files,
    text_of,
    tree_of,
)
from shoal.settings.sections.release import ENTRY_POINT
from shoal.settings.settings import Environment, Training

_HYPERPARAMETERS = "training.hyperparameters"
PAGE = "`shoal docs bring-your-model`"
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_BLOCKS = (ast.If, ast.For, ast.While, ast.With, ast.Try)
_EVALUATION_OPTIONS = ("--model-dir", "--test-dir", "--output-dir")
_WORDS = {
    "evaluation.json": "Evaluate",
    "archive_sha256": "Seal",
    "content_sha256": "Seal",
    "training_job_name": "SmokeTest",
}
"""Words of the contract, and the step of Shoal's pipeline that needs each."""


def missing(environment: Environment, root: Path | None) -> Iterator[Problem]:
    """Yield the files that the repository at `root` lacks."""
    if root is None:
        return
    source_dir = environment.training.source_dir
    for use, image in environment.built_images.items():
        if image in recipes.names() and not (recipes.folder(image, root) / "Dockerfile").is_file():
            folder = recipes.folder(image, root).relative_to(recipes.folder_of_all(root).parent)
            message = f"there is no {folder}/Dockerfile"
            other = "write `none` for AWS's image" if use == "endpoint" else "name another recipe"
            yield Problem(f"{use}.build_image", message, f"write it, or {other}", image)
            return
    if not (root / source_dir).is_dir():
        advice = "give a folder of the repository"
        yield Problem("training.source_dir", "there is no such folder", advice, source_dir)
    else:
        for key, script in _scripts(environment):
            if not (root / source_dir / script).is_file():
                message = f"there is no such file in {source_dir}"
                yield Problem(key, message, "write it, or name one that is there", script)


def unreadable(environment: Environment, root: Path) -> Iterator[Problem]:
    """Yield the scripts, and modules of their folder that they import, that Python cannot read."""
    folder, modules = root / environment.training.source_dir, dict[Path, None]()
    for key, script in _scripts(environment):
        if mistake := mistake_in_python(folder / script):
            yield Problem(key, mistake, "correct it", script)
        else:
            modules |= dict.fromkeys(modules_of(folder, script))
    for module in modules:
        if mistake := mistake_in_python(module):
            yield Problem("training.source_dir", f"{module.name}: {mistake}", "correct it")


def lacks(environment: Environment, root: Path, steps: Collection[str]) -> Iterator[Problem]:
    """Yield what readable scripts lack for the steps of Shoal's own pipeline that run."""
    problems = list(_lacks(environment, root, steps))
    yield from problems
    if not problems and "Train" in steps:
        yield from option_problems(environment.training, root)
        yield from checkpoint_problems(environment.training, root)


def _lacks(environment: Environment, root: Path, steps: Collection[str]) -> Iterator[Problem]:
    folder, evaluation = root / environment.training.source_dir, environment.evaluation.entry_point
    for step, (key, script) in zip(("Train", "Evaluate"), _scripts(environment), strict=True):
        if step in steps and not _starts_something(folder, script):
            message = "calls nothing: a job with it would end at once, without a result"
            advice = 'end it with `if __name__ == "__main__":` and a call'
            yield Problem(key, message, advice, script)
    if "Evaluate" in steps and (absent := _missing_options(folder, evaluation)):
        message = f"takes no {', '.join(absent)}, which the pipeline gives it"
        yield Problem("evaluation.entry_point", message, f"add it; see {PAGE}", evaluation)
    is_gated = {"Evaluate", "Gate"} <= set(steps)
    metrics = dict.fromkeys(gate.metric for gate in environment.evaluation.gates if is_gated)
    if unsaid := _unsaid(metrics, _text_with_modules(folder, evaluation)):
        message = (
            f"name {', '.join(unsaid)}, which {evaluation} never says: after the training, the gate"
            " would find no such number"
        )
        file = workload_file(environment.workload)
        advice = (
            f"correct it (here, or in {file}); if {evaluation} computes it, name it in a comment"
        )
        yield Problem("evaluation.gates", message, advice)
    endpoint = environment.endpoint if "CreateModel" in steps else None
    if endpoint and not endpoint.has_own_server and not (folder / ENTRY_POINT).is_file():
        message = (
            f"there is no {ENTRY_POINT} in it, which training copies into the model and the"
            " endpoint runs"
        )
        source_dir = environment.training.source_dir
        yield Problem("training.source_dir", message, f"write it; see {PAGE}", source_dir)


def risks(environment: Environment, root: Path, steps: Collection[str]) -> Iterator[str]:
    """Yield what the scripts seem to lack for the steps of Shoal's own pipeline that run."""
    training = environment.training
    source_dir, entry_point = training.source_dir, training.entry_point
    text = "\n".join(map(text_of, python_files(root / source_dir).values()))
    words = [word for word, step in _WORDS.items() if step in steps]
    if unsaid := _unsaid(words, text):
        yield (
            f"no script in {source_dir} says {', '.join(unsaid)}, which evaluation.json or the"
            f" answers must have; see {PAGE}"
        )
    measures = environment.evaluation.entry_point
    if training.keeps_files and "Evaluate" in steps:
        evaluation = _text_with_modules(root / source_dir, measures)
        if "model.tar.gz" in evaluation and not re.search(r"\b(is_file|exists)\b", evaluation):
            yield (
                f"training.output_compression is none, and {measures} seems to open model.tar.gz:"
                " it finds the model's files in --model-dir instead"
            )
    if "Train" not in steps:
        return
    yield from option_risks(training, root)
    file, channels = workload_file(environment.workload), environment.data.channels
    known = set(channels)
    if (root / file).is_file():
        known |= load_workload(environment.workload, root).channels.keys()
    script = _text_with_modules(root / source_dir, entry_point)
    read = set(re.findall(r"\bSM_CHANNEL_([A-Z0-9_]+)", script))
    for name in sorted(read - {each.upper() for each in known}):
        yield (
            f"data.channels: {entry_point} reads SM_CHANNEL_{name}, and the job gets"
            f" {', '.join(channels)}; name that channel in {file}"
        )


def _scripts(environment: Environment) -> tuple[tuple[str, str], ...]:
    training, evaluation = environment.training.entry_point, environment.evaluation.entry_point
    return ("training.entry_point", training), ("evaluation.entry_point", evaluation)


def _unsaid(words: Iterable[str], text: str) -> list[str]:
    return [word for word in words if not re.search(rf"\b{re.escape(word)}\b", text)]


def _text_with_modules(folder: Path, script: str) -> str:
    """Return the text of a script and of every file of its folder that one of them may import:
    that says the file's name, or its package's. Comments count: a script may put a name together
    when it runs.
    """
    text, rest = text_of(folder / script), python_files(folder)
    while used := _named_in(text, rest):
        text = "\n".join((text, *(text_of(rest.pop(name)) for name in sorted(used))))
    return text


def _named_in(text: str, names: Iterable[str]) -> set[str]:
    words = set(re.findall(r"\w+", text))
    return {each for each in names if not words.isdisjoint(each.removesuffix(".py").split("/"))}


def _starts_something(folder: Path, script: str) -> bool:
    """Return whether a script does more than to import and define, or imports a module that may."""
    body = tree_of(text_of(folder / script)).body
    defines = any(isinstance(node, _DEFINITIONS) for node in body)
    return any(map(_does_something, body)) or (not defines and bool(modules_of(folder, script)))


def _does_something(node: ast.stmt) -> bool:
    if isinstance(node, (*_DEFINITIONS, ast.Import, ast.ImportFrom)):
        return False
    return isinstance(node, _BLOCKS) or any(isinstance(each, ast.Call) for each in ast.walk(node))


def _missing_options(folder: Path, script: str) -> list[str]:
    """Return the pipeline's options that an evaluation with argparse does not take."""
    own, *others = map(text_of, (folder / script, *modules_of(folder, script)))
    if "ArgumentParser(" not in own or "parse_known_args" in own:
        return []
    text = "\n".join((own, *others))
    return [option for option in _EVALUATION_OPTIONS if option not in text]


def script_at(training: Training, root: Path | None) -> Script:
    """Return what the script and the modules of its folder that it imports take."""
    folder, script = (root or Path()) / training.source_dir, training.entry_point
    if root is None or not (folder / script).is_file():
        return Script(script)
    files = [folder / script, *modules_of(folder, script)]
    return script_of(script, tuple(map(text_of, files)))


def option_problems(training: Training, root: Path) -> Iterator[Problem]:
    """Yield the hyperparameters that the script would refuse; if none, what it needs and lacks."""
    script, words, is_right = script_at(training, root), list[str](), True
    if script.needs:
        message = f"needs {script.needs}, and SageMaker gives it `--name value` alone"
        yield Problem("training.entry_point", message, "make options of them", script.name)
    for name, value in training.hyperparameters.items():
        text = as_argument(as_sent(value))
        words += [word_of(name), text]
        if mistake := script.mistake_in(name, text):
            is_right = False
            advice = f"give what {script.name} takes, or leave it out"
            yield Problem(f"{_HYPERPARAMETERS}.{name}", mistake, advice, value)
    if is_right and (complaint := script.parse(*words)[2]):
        message = f"{script.name} would end at once: {complaint}"
        yield Problem(_HYPERPARAMETERS, message, "give it what it takes, as `--name value` alone")


def option_risks(training: Training, root: Path) -> Iterator[str]:
    """Yield the values of which cannot be read what the script makes of them."""
    script = script_at(training, root)
    for name, value in training.hyperparameters.items():
        text = as_argument(as_sent(value))
        for option in script.parse(word_of(name), text)[0]:
            is_unsure = isinstance(value, bool) and not option.knows_true
            unread = option.unread & {"action", *(["type"] if is_unsure else [])}
            if unread:
                yield (
                    f"{_HYPERPARAMETERS}.{name} arrives as {text}: what {script.name} makes of it"
                    f" ({', '.join(sorted(unread))}) is not read"
                )


FOLDER = "/opt/ml/checkpoints"
LONG_S = 86_400
"""A day: what a job may take where nobody says more (API reference, StoppingCondition)."""
_TEXT = re.compile(rf"{FOLDER}|checkpoint[-_]dir", re.IGNORECASE)
_LAST, _FIRST = re.compile("(^|/)checkpoints/?$"), re.compile("/opt/ml|SM_")
"""Both parts of a path that is put together; the last alone is below the working directory."""
_NAME = re.compile(r"checkpoint_?dir", re.IGNORECASE)
_CONFIGURATION = {".cfg", ".ini", ".json", ".sh", ".toml", ".yaml", ".yml"}


def checkpoint_problems(training: Training, root: Path) -> Iterator[Problem]:
    """Refuse spot capacity, and more than LONG_S, where no script names the checkpoints' folder."""
    is_long = training.max_runtime_s > LONG_S
    if not (training.spot or is_long) or training.own_checkpoints:
        return
    if _names_folder(training, root / training.source_dir):
        return
    key, why = "spot", "the job would begin again after each interruption"
    if not training.spot:
        key, why = "max_runtime_s", f"above {LONG_S} s (a day) a job that is stopped loses too much"
    names = f"nothing that {training.entry_point} runs names {FOLDER}, which SageMaker keeps"
    advice = (
        "save there after each epoch and read it at the start (training_code/common/checkpoint.py);"
        " where a package does that, set training.own_checkpoints: true"
    )
    yield Problem(f"training.{key}", f"{why}, and {names}", advice, getattr(training, key))


def _names_folder(training: Training, folder: Path) -> bool:
    given = (*training.hyperparameters.values(), *training.environment.values())
    if any(FOLDER in str(each) for each in given):
        return True
    scripts = [folder / training.entry_point, *modules_of(folder, training.entry_point)]
    # of what workloads share, the parser of options names the folder for those that save there
    own = [each for each in scripts if each.is_relative_to(folder)]
    if any(each.parts[-2:] == (PACKAGE, "checkpoint.py") for each in scripts):
        return True
    files = [each for each in packed_files(folder) if each.suffix in _CONFIGURATION]
    return any(map(_is_named_in, own)) or any(FOLDER in text_of(each) for each in files)


def _is_named_in(script: Path) -> bool:
    """Return whether the code of a script names the folder, not its comments and docstrings."""
    try:
        nodes = list(ast.walk(tree_of(text_of(script))))
    except (SyntaxError, ValueError):
        return False  # who reads the module says so
    prose = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    texts = [
        str(node.value)
        for node in nodes
        if isinstance(node, ast.Constant) and id(node) not in prose
    ]
    names = [getattr(node, "id", getattr(node, "attr", "")) for node in nodes]
    is_joined = any(map(_LAST.search, texts)) and any(map(_FIRST.search, texts))
    return is_joined or any(map(_TEXT.search, texts)) or any(map(_NAME.search, names))
