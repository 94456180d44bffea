"""A team's repository as this version of Shoal renders it.

The CDK app, the stacks, the pipeline and their tests are Shoal's own top level, copied. The
workload and its settings are those of `shoal new`. What a team needs otherwise than Shoal is in
packages/shoal/src/shoal/template/team, which copier fills in.
"""

from __future__ import annotations

import shutil
from importlib.metadata import version
from pathlib import Path

from shoal.errors import ToolMissingError
from shoal.settings.loading.schema import schema_texts
from shoal.settings.regions import az_id_prefixes
from shoal.top_level import TOP_LEVEL
from shoal.verbs.init import answers
from shoal.verbs.init.answers import Answers, read_answers, text_of
from shoal.verbs.new_workload import SETTINGS, TEMPLATES, workload_files

__all__ = ["Answers", "read_answers", "render"]
COPIED = ("app.py", "cdk.json", "pipelines", "stacks", "tests")
"""What Shoal's own top level and a team's repository have alike."""
_IGNORED = shutil.ignore_patterns("__pycache__", "snapshots")


def render(given: Answers, folder: Path) -> None:
    """Write the repository that the answers describe into `folder`, which is made if needed.

    The same version and answers give the same bytes; nothing else is read. What is in `folder` and
    not rendered stays. Locks and snapshots are not rendered: programs write them.

    Raises ToolMissingError without copier.
    """
    try:
        from copier import run_copy
    except ImportError as error:
        message = "copier is not installed, which fills in the files; run `pip install shoal[init]`"
        raise ToolMissingError(message) from error
    given = given.model_copy(update={"shoal": version("shoal")})
    for name in COPIED:
        if (TOP_LEVEL / name).is_dir():
            shutil.copytree(TOP_LEVEL / name, folder / name, ignore=_IGNORED, dirs_exist_ok=True)
        else:
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(TOP_LEVEL / name, folder / name)
    files = workload_files(given.workload, given.kind)
    data = given.model_dump(mode="json") | {
        "settings": files.pop(SETTINGS),
        "places": [
            {"name": name, "zones": az_id_prefixes()[place.region], **place.model_dump()}
            for name, place in given.environments.items()
        ],
    }
    del files["environment.yaml"]
    run_copy(str(TEMPLATES / "team"), folder, data=data, defaults=True, overwrite=True, quiet=True)
    files |= schema_texts() | {answers.FILE: text_of(given)}
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
