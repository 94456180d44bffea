"""The repository that tests read: this checkout with environments of the tests' own.

`environments/` belongs to the user. A test that reads it breaks in every fork that edits it.
"""

import io
import os
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from local_kit.tables import table
from shoal.verbs.new_workload import write_workload

CHECKOUT = Path(__file__).resolve().parents[3]
ENVIRONMENTS = CHECKOUT / "packages" / "shoal" / "tests" / "fixtures" / "environments"
PYTHONPATH = os.pathsep.join(
    str(CHECKOUT / folder) for folder in ("packages/shoal", "packages/shoal-local/tests/kit", "")
)
"""For child processes that import the tests, their kit, or what a team owns."""
_NOT_LINKED = {".git", ".shoal", "app.py", "cdk.out", "demo-out", "environments", "prove-out"}
_COPIED = ("examples", "images", "pipelines", "training_code")
"""What the product reads no links in."""


def link_checkout(folder: Path) -> Path:
    """Make the empty `folder` look like this checkout, with the tests' environments and a second
    workload; return it.

    app.py is a copy, because it looks for environments next to itself. What takes long to make is
    shared: the Python environments of jobs, and the CDK's library, which jsii unpacks once.
    """
    for entry in CHECKOUT.iterdir():
        if entry.name not in (*_NOT_LINKED, *_COPIED):
            (folder / entry.name).symlink_to(entry)
    for name in _COPIED:
        copy_folder(CHECKOUT / name, folder / name)
    add_workload(folder)
    shutil.copytree(ENVIRONMENTS, folder / "environments")
    (folder / "environments" / "strategies").mkdir()
    for name, text in table(__file__, "strategies.yaml").items():
        (folder / "environments" / "strategies" / f"{name}.yaml").write_text(text)
    for file in ("app.py", "environments/schema.json"):
        shutil.copy(CHECKOUT / file, folder / file)
    for name in ("runtimes", "jsii"):
        (CHECKOUT / ".shoal" / name).mkdir(parents=True, exist_ok=True)
        (folder / ".shoal").mkdir(exist_ok=True)
        (folder / ".shoal" / name).symlink_to(CHECKOUT / ".shoal" / name)
    return folder


def git(folder: Path, *arguments: str) -> str:
    """Return what git answers in a folder; raise CalledProcessError where it fails.

    The user's settings do not count, nor the repository whose hook runs the tests.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return subprocess.run(
        ["git", *arguments],
        cwd=folder,
        env=kept | {"GIT_CONFIG_GLOBAL": os.devnull},
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()


def begin_git(folder: Path, *options: str) -> None:
    """Make a folder a git repository whose branch main has one commit, of all its files; `options`
    are those of `git init`.
    """
    git(folder, "init", "--quiet", "--initial-branch=main", *options)
    for setting in ("user.name=Ada", "user.email=ada@example.com", "commit.gpgsign=false"):
        git(folder, "config", *setting.split("="))
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "Begin")


def add_workload(root: Path, name: str = "prices") -> None:
    """Give the repository at `root` a regression as `shoal new` writes it, without its environment;
    it replaces one of that name, which a fork may have.
    """
    with tempfile.TemporaryDirectory() as folder:
        code, _ = write_workload(Path(folder), name, "regression")
        shutil.rmtree(root / code, ignore_errors=True)
        copy_folder(Path(folder) / code, root / code)


def copy_folder(source: Path, target: Path) -> None:
    """Copy a folder without what Python compiled there, also into one that exists."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(source, target, ignore=ignored, dirs_exist_ok=True)


def zipped(files: Mapping[str, str | bytes]) -> bytes:
    """Return a ZIP archive of files, by their names."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def zipped_modules(folder: Path) -> bytes:
    """Return a ZIP archive of the modules of a folder, as a function's code is packed."""
    return zipped({file.name: file.read_bytes() for file in sorted(folder.glob("*.py"))})


_FOLDER = tempfile.TemporaryDirectory(prefix="shoal-tests-")
ROOT = link_checkout(Path(_FOLDER.name))
"""It is there until this process ends. Tests that change it make a repository of their own."""


FOLDER = CHECKOUT / "packages" / "shoal" / "tests" / "fixtures" / "training_code" / "letters"
IMAGE = "111122223333.dkr.ecr.us-east-1.amazonaws.com/letters:1"
ENVIRONMENT = f"""name: lab
workload: letters
account: "111122223333"
region: us-east-1
protect: false
network: {{training_az_id: use1-az4, hosting_az_ids: [use1-az1, use1-az2]}}
training: {{strategy: none, instance_type: ml.m5.large, image_uri: {IMAGE}}}
evaluation: {{image_uri: {IMAGE}}}
local: {{images: {{"{IMAGE}": pytorch}}}}
"""
BASE_MODEL = f"{ENVIRONMENT}data: {{channels: {{base_model: {{}}}}}}\n"
"""The same with the optional channel, as a folder of the dataset."""


def add_letters(root: Path) -> None:
    """Add the workload to the repository at `root`."""
    copy_folder(FOLDER, root / "training_code" / FOLDER.name)


def write_environment(root: Path, text: str = ENVIRONMENT) -> None:
    """Write the file of the environment `lab`, in a repository without environments."""
    (root / "environments").mkdir()
    (root / "environments" / "lab.yaml").write_text(text)
