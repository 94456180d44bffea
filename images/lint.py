"""A Dockerfile in; every rule it breaks out, each with its line: what makes a build differ from day
to day, and what SageMaker trips over.

A recipe on one of AWS's training images inherits their entry point and toolkit; one on any other
image must bring all of the developer guide's checklist
(github.com/awsdocs/amazon-sagemaker-developer-guide,
doc_source/data-parallel-bring-your-own-container.md).
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator

from images.dockerfile import Dockerfile, Instruction, Stage

CODE = "/opt/ml/code"
TOOLKIT = "sagemaker_pytorch_container.training:main"
_AWS_IMAGE = re.compile(
    r"^\d{12}\.dkr\.ecr\.[a-z0-9-]+\.amazonaws\.com/(pytorch|tensorflow)-training:"
)
_MOVING = re.compile(r"\b(latest|master|main|nightly)\b", re.IGNORECASE)
_BRACED = re.compile(r"\$\{(\w+)\}")
_SECRET = re.compile(r"(SECRET|TOKEN|PASSWORD|ACCESS_KEY)", re.IGNORECASE)
_GIVEN = {"PATH", "LD_LIBRARY_PATH", "HOME"}
"""Variables that every base image may have set."""
CHECKLIST = {
    "the EFA installer without the kernel module": r"efa_installer\.sh .*--skip-kmod",
    "the OFI plugin for NCCL": r"aws-ofi-nccl",
    "gdrcopy": r"gdrcopy",
    "hwloc": r"\bhwloc\b",
    "libnuma": r"\blibnuma-dev\b",
    "the ssh server": r"\bopenssh-server\b",
    "the ssh client": r"\bopenssh-client\b",
    "sshd's folder": r"/var/run/sshd",
    "a session that sshd may open (pam_loginuid optional)": r"optional pam_loginuid\.so",
    "the hosts' common key": r"ssh-keygen .*authorized_keys",
    "mpi4py, compiled against the Open MPI of the EFA installer": (
        r"MPICC=/opt/amazon/openmpi/bin/mpicc pip install .*--no-binary mpi4py"
    ),
    "the training toolkit": r"\bsagemaker-training==",
    "PyTorch's part of the toolkit": r"\bsagemaker-pytorch-training==",
    "smddp's wheel for PyTorch": r"SMDATAPARALLEL_PT=1 pip install .*SMDDP_WHEEL",
}
"""What a container of one's own needs, as a pattern over all its RUN instructions."""
_VARIABLES = {
    "SAGEMAKER_TRAINING_MODULE": TOOLKIT,
    "DLC_CONTAINER_TYPE": "training",
    "PATH": "/opt/amazon/openmpi/bin",
    "LD_LIBRARY_PATH": "/smdistributed/dataparallel/lib:/opt/amazon/efa/lib:",
}
"""What a container of one's own sets, as a part of the value."""


def mistakes_in(file: Dockerfile) -> list[str]:
    """`LINE: what is wrong`, in the order of the file."""
    found = [mistake for stage in file.stages for mistake in _stage_mistakes(file, stage)]
    return [f"{line}: {text}" for line, text in sorted(set(found))]


def _stage_mistakes(file: Dockerfile, stage: Stage) -> Iterator[tuple[int, str]]:
    yield from _base_mistakes(file, stage)
    for each in stage.of("RUN"):
        yield from ((each.line, text) for text in _run_mistakes(each.value))
    yield from _variable_mistakes(file, stage)
    yield from _start_mistakes(stage)
    yield from _code_mistakes(file, stage)
    is_last = stage is file.stages[-1]
    if is_last and not _AWS_IMAGE.match(file.lineage(stage)[0].base):
        yield from ((stage.line, text) for text in _checklist_mistakes(file, stage))


def _base_mistakes(file: Dockerfile, stage: Stage) -> Iterator[tuple[int, str]]:
    if len(file.lineage(stage)) > 1:
        return
    tag = stage.base.rpartition("/")[2].partition(":")[2]
    if "@sha256:" not in stage.base and (not tag or "$" in tag or _MOVING.search(tag)):
        yield stage.line, f"{stage.base} is not pinned: give a full tag or a digest"
    if "dkr.ecr" in stage.base and not stage.base.endswith("-sagemaker"):
        yield stage.line, f"{stage.base} is not an image for SageMaker with its full tag"


def _run_mistakes(command: str) -> Iterator[str]:
    if "apt-get install" in command or "efa_installer.sh" in command:
        if "apt-get update" not in command:
            yield (
                "apt-get installs without `apt-get update` in the same RUN: the layer before may"
                " be old"
            )
        if not re.search(r"rm -rf [^&]*/var/lib/apt/lists/\*", command):
            yield "apt's lists stay in the layer: end the RUN with `rm -rf /var/lib/apt/lists/*`"
    if "apt-get install" in command and "--no-install-recommends" not in command:
        yield "apt-get install without --no-install-recommends"
    for install in re.findall(r"pip install ([^&;|]*)", command):
        yield from _pip_mistakes(install)
    for clone in re.findall(r"git clone ([^&;|]*)", command):
        if not re.search(r"(--branch|-b) ", clone):
            yield "git clone without a tag (--branch)"
    if any(_MOVING.search(url) for url in re.findall(r"https?://\S+", command)) or re.search(
        r"--branch \S*(main|master)\b", command
    ):
        yield "downloads something that moves (latest, main, master)"


def _pip_mistakes(install: str) -> Iterator[str]:
    if "--no-cache-dir" not in install:
        yield "pip install without --no-cache-dir"
    words = [word.strip("\"'") for word in install.split()]
    skip = {
        index + 1
        for index, word in enumerate(words)
        if word in ("-r", "--requirement", "--no-binary", "--only-binary")
    }
    for index, word in enumerate(words):
        if (
            not word.startswith("-")
            and index not in skip
            and "==" not in word
            and not word.endswith((".whl", "_WHEEL}"))
        ):
            yield f"pip installs {word} in whatever version there is: pin it"


def _variable_mistakes(file: Dockerfile, stage: Stage) -> Iterator[tuple[int, str]]:
    """An ARG before FROM is unknown after it, and an unknown variable is an empty text."""
    inherited = file.environment(file.lineage(stage)[-2]) if len(file.lineage(stage)) > 1 else {}
    known = _GIVEN | inherited.keys()
    for each in stage.instructions:
        for name in _BRACED.findall(each.value):
            if name not in known:
                yield (
                    each.line,
                    (
                        f"${{{name}}} is not known in this stage: an ARG before FROM must be"
                        " declared again"
                    ),
                )
        if each.keyword in ("ARG", "ENV"):
            known |= {word.partition("=")[0] for word in each.value.split()}
            if _SECRET.search(each.value.partition("=")[0]):
                yield (
                    each.line,
                    (
                        f"{each.value.partition('=')[0]} looks like a secret: it would stay"
                        " readable in the image"
                    ),
                )


def _start_mistakes(stage: Stage) -> Iterator[tuple[int, str]]:
    for each in (*stage.of("ENTRYPOINT"), *stage.of("CMD")):
        yield each.line, f"{each.keyword} replaces what SageMaker starts (`train`, of the toolkit)"
    for each in stage.of("USER"):
        yield each.line, "SageMaker's toolkit needs root: it writes below /opt/ml and starts sshd"
    for each in stage.of("ADD"):
        yield each.line, "ADD unpacks and downloads silently: use COPY, or curl with a version"


def _code_mistakes(file: Dockerfile, stage: Stage) -> Iterator[tuple[int, str]]:
    """The trap: where /opt/ml/code is not empty, the toolkit ignores the archive that a job
    submits.
    """
    writes = _code_writes(file, stage)
    variables = file.environment(stage)
    if writes and stage is file.stages[-1]:
        yield (
            writes[0].line,
            (
                f"the default target fills {CODE}: every job's code archive would be ignored; do it"
                " in a stage of its own"
            ),
        )
    if writes and variables.get("SAGEMAKER_SUBMIT_DIRECTORY") != CODE:
        yield (
            writes[0].line,
            (
                f"fills {CODE} without SAGEMAKER_SUBMIT_DIRECTORY={CODE}: the toolkit would not"
                " look there"
            ),
        )
    if writes and "SAGEMAKER_PROGRAM" not in variables:
        yield (
            writes[0].line,
            f"fills {CODE} without SAGEMAKER_PROGRAM: the toolkit would not know what to start",
        )
    filled = any(_code_writes(file, part) for part in file.lineage(stage))
    if "SAGEMAKER_PROGRAM" in variables and not filled:
        yield (
            stage.line,
            (
                "sets SAGEMAKER_PROGRAM, which wins over every job's entry point, without code in"
                " the image"
            ),
        )


def _code_writes(file: Dockerfile, stage: Stage) -> list[Instruction]:
    """The instructions that put something there, by its path or by one relative to WORKDIR."""
    folder, found = _last_folder(file, stage), []
    for each in stage.instructions:
        if each.keyword == "WORKDIR":
            folder = posixpath.join(folder, each.value.strip("\"'"))
        elif each.keyword in ("COPY", "ADD"):
            found += [each] if _is_code(posixpath.join(folder, _destination(each.value))) else []
        elif each.keyword == "RUN" and _runs_into_code(each.value, folder):
            found.append(each)
    return found


def _last_folder(file: Dockerfile, stage: Stage) -> str:
    """Where the stages that this one is built on have left WORKDIR."""
    folder = "/"
    for part in file.lineage(stage)[:-1]:
        for each in part.of("WORKDIR"):
            folder = posixpath.join(folder, each.value.strip("\"'"))
    return folder


def _destination(value: str) -> str:
    """Of a COPY or ADD, in either form."""
    words = json.loads(value[value.index("[") :]) if value.endswith("]") else value.split()
    return str(words[-1])


def _is_code(path: str) -> bool:
    return f"{posixpath.normpath(path)}/".startswith(f"{CODE}/")


def _runs_into_code(command: str, folder: str) -> bool:
    writer = r"(>|\b(cp|mv|ln|install|rsync|clone)\b|\s-[CdoO]\b)[^&;|]*"
    return re.search(rf"{writer} {CODE}\b", command) is not None or (
        _is_code(folder) and re.search(writer, command) is not None
    )


def _checklist_mistakes(file: Dockerfile, stage: Stage) -> Iterator[str]:
    lineage = file.lineage(stage)
    commands = "\n".join(each.value for part in lineage for each in part.of("RUN"))
    yield from (
        f"lacks {what}" for what, pattern in CHECKLIST.items() if not re.search(pattern, commands)
    )
    variables = file.environment(stage)
    for name, part in _VARIABLES.items():
        if part not in variables.get(name, ""):
            yield f"must set {name} with {part}"
    if not any(
        each.value.endswith("/root/.ssh/config") for part in lineage for each in part.of("COPY")
    ):
        yield "lacks the ssh client's settings in /root/.ssh/config (StrictHostKeyChecking no)"
