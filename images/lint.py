"""Rules for recipes that only SageMaker needs: what its training toolkit trips over.

hadolint has the rules that every Dockerfile needs (images/hadolint.yaml). A recipe on one of AWS's
training images inherits their entry point and toolkit. One on any other image must bring all of the
developer guide's checklist (github.com/awsdocs/amazon-sagemaker-developer-guide,
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
_BASE_VARIABLES = {"PATH", "LD_LIBRARY_PATH", "HOME"}
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
"""What a container on another base needs, as a pattern over all its RUN instructions."""
_VARIABLES = {
    "SAGEMAKER_TRAINING_MODULE": TOOLKIT,
    "DLC_CONTAINER_TYPE": "training",
    "PATH": "/opt/amazon/openmpi/bin",
    "LD_LIBRARY_PATH": "/smdistributed/dataparallel/lib:/opt/amazon/efa/lib:",
}
"""What a container on another base sets, as a part of the value."""


def mistakes_in(file: Dockerfile) -> list[str]:
    """Return a line `LINE: what is wrong` for each mistake, in the order of the file."""
    mistakes = [mistake for stage in file.stages for mistake in _stage_mistakes(file, stage)]
    return [f"{line}: {text}" for line, text in sorted(set(mistakes))]


def _stage_mistakes(file: Dockerfile, stage: Stage) -> Iterator[tuple[int, str]]:
    for instruction in stage.of("RUN"):
        yield from ((instruction.line, text) for text in _run_mistakes(instruction.value))
    base = file.lineage(stage)[0].base
    if base == stage.base and "dkr.ecr" in base and not base.endswith("-sagemaker"):
        yield stage.line, f"{base} is not an image for SageMaker with its full tag"
    yield from _variable_mistakes(file, stage)
    yield from _start_mistakes(stage)
    yield from _code_mistakes(file, stage)
    is_last = stage is file.stages[-1]
    if is_last and not _AWS_IMAGE.match(base):
        yield from ((stage.line, text) for text in _checklist_mistakes(file, stage))


def _run_mistakes(command: str) -> Iterator[str]:
    """Find what hadolint lets move: it wants a version of packages only."""
    if any(_MOVING.search(url) for url in re.findall(r"https?://\S+", command)) or re.search(
        r"--branch \S*(main|master)\b", command
    ):
        yield "downloads something that moves (latest, main, master)"
    for clone in re.findall(r"git clone ([^&;|]*)", command):
        if not re.search(r"(--branch|-b) ", clone):
            yield "git clone without a tag (--branch)"


def _variable_mistakes(file: Dockerfile, stage: Stage) -> Iterator[tuple[int, str]]:
    """Find variables without a value: Docker replaces them with nothing and builds on."""
    inherited = file.environment(file.lineage(stage)[-2]) if len(file.lineage(stage)) > 1 else {}
    variables = _BASE_VARIABLES | inherited.keys()
    for instruction in stage.instructions:
        for name in _BRACED.findall(instruction.value):
            if name not in variables:
                yield (
                    instruction.line,
                    (
                        f"${{{name}}} is not known in this stage: an ARG before FROM must be"
                        " declared again"
                    ),
                )
        if instruction.keyword in ("ARG", "ENV"):
            variables |= {word.partition("=")[0] for word in instruction.value.split()}


def _start_mistakes(stage: Stage) -> Iterator[tuple[int, str]]:
    for instruction in (*stage.of("ENTRYPOINT"), *stage.of("CMD")):
        yield (
            instruction.line,
            f"{instruction.keyword} replaces what SageMaker starts (`train`, of the toolkit)",
        )
    for instruction in stage.of("USER"):
        yield (
            instruction.line,
            "SageMaker's toolkit needs root: it writes below /opt/ml and starts sshd",
        )


def _code_mistakes(file: Dockerfile, stage: Stage) -> Iterator[tuple[int, str]]:
    """Find code in the image: the toolkit ignores a job's archive where /opt/ml/code has files."""
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
    """Return the instructions that write to CODE, by its path or by one relative to WORKDIR."""
    folder, writes = _last_folder(file, stage), list[Instruction]()
    for instruction in stage.instructions:
        if instruction.keyword == "WORKDIR":
            folder = posixpath.join(folder, instruction.value.strip("\"'"))
        elif instruction.keyword in ("COPY", "ADD"):
            if _is_code(posixpath.join(folder, _destination(instruction.value))):
                writes.append(instruction)
        elif instruction.keyword == "RUN" and _runs_into_code(instruction.value, folder):
            writes.append(instruction)
    return writes


def _last_folder(file: Dockerfile, stage: Stage) -> str:
    """Return the WORKDIR that a stage starts in."""
    folder = "/"
    for part in file.lineage(stage)[:-1]:
        for instruction in part.of("WORKDIR"):
            folder = posixpath.join(folder, instruction.value.strip("\"'"))
    return folder


def _destination(value: str) -> str:
    """Return where a COPY or ADD writes; it has two forms."""
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
    commands = "\n".join(instruction.value for part in lineage for instruction in part.of("RUN"))
    yield from (
        f"lacks {what}" for what, pattern in CHECKLIST.items() if not re.search(pattern, commands)
    )
    variables = file.environment(stage)
    for name, part in _VARIABLES.items():
        if part not in variables.get(name, ""):
            yield f"must set {name} with {part}"
    if not any(
        instruction.value.endswith("/root/.ssh/config")
        for part in lineage
        for instruction in part.of("COPY")
    ):
        yield "lacks the ssh client's settings in /root/.ssh/config (StrictHostKeyChecking no)"
