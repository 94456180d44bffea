"""How each strategy starts a distributed training: the toolkit's hyperparameters, MPI options, and
what EFA needs.

SageMaker's API has no field for it. The training toolkit inside the image reads hyperparameters
that start with `sagemaker_`. These are the ones that SDK v2's `PyTorch(distribution=...)` and
`TensorFlow(distribution=...)` write; `packages/shoal/tests/goldens/make_sdk_v2.py` asks it.

It splits `custom_mpi_options` at white space (no quoting). Then Python's argparse takes
`--NCCL_DEBUG VALUE` out (`parse_known_args`), and with it every prefix of that option and
everything that looks like a call for help. The rest stands in the middle of the toolkit's own
mpirun line, before the program; so a word that no option takes becomes the program. Sources:
mpirun.yaml.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from shoal.launch import tables
from shoal.launch.tables import table_of
from shoal.settings.hyperparameters import shell_characters
from shoal.settings.settings import Collective, Launcher, Strategy, Training

OPTIMIZE_SDP = "SMDATAPARALLEL_OPTIMIZE_SDP"
"""Environment variable by which smddp under mpirun accelerates AllGather instead of AllReduce."""
STARTS_RANKS = ("mpirun", "torchrun")
_SMDDP = "sagemaker_distributed_dataparallel"


@dataclass(frozen=True)
class Contract:
    """The hyperparameters of a strategy, and how messages name it."""

    label: str
    """What it is called in messages."""
    launcher: str = "python"
    """The program that starts the ranks."""
    switch: str = ""
    """The hyperparameter that makes the toolkit start it so; one process needs none."""
    options_key: str = ""
    """The hyperparameter that has mpirun's options."""
    own_options: str = ""
    """The options of mpirun that it needs itself."""
    names_instance_type: bool = False
    """Whether it sends `sagemaker_instance_type`, by which the toolkit chooses network settings."""
    custom_mpi_options: str = ""
    processes_per_host: int | None = None
    """Ranks on each host; left out, the toolkit starts one per GPU, or one."""

    @property
    def is_smddp_by_mpirun(self) -> bool:
        """Whether mpirun starts the ranks through smddprun, whatever is accelerated."""
        return self.options_key.startswith(_SMDDP)

    def hyperparameters(self) -> dict[str, str]:
        """Return the toolkit's hyperparameters as JSON, without `sagemaker_instance_type`.

        The toolkit reads the number of ranks for every launcher of several (runner.py); SDK v2
        writes it for `mpi` only.
        """
        sent = {self.switch: "true"} if self.switch else {}
        if self.processes_per_host and self.launcher in STARTS_RANKS:
            sent["sagemaker_mpi_num_of_processes_per_host"] = str(self.processes_per_host)
        if self.options_key:
            options = f"{self.own_options} {self.custom_mpi_options}".rstrip()
            sent[self.options_key] = json.dumps(
                options if self.own_options else self.custom_mpi_options
            )
        return sent


# smddp under mpirun: its AllReduce, NCCL's AllGather. SDK v2: smdistributed.dataparallel
_ALLREDUCE = Contract(
    "smddp with AllReduce",
    "mpirun",
    f"{_SMDDP}_enabled",
    f"{_SMDDP}_custom_mpi_options",
    names_instance_type=True,
)
# NCCL on GPUs, gloo on CPUs. SDK v2: torch_distributed
_TORCHRUN = Contract(
    "torchrun", "torchrun", "sagemaker_torch_distributed_enabled", names_instance_type=True
)
_ALLGATHER = {
    # for FSDP and the like, with NCCL's AllReduce; only the script chooses the backend
    Launcher.TORCHRUN: replace(_TORCHRUN, label="smddp with AllGather"),
    # SDK v2: the variable as custom_mpi_options
    Launcher.MPIRUN: replace(
        _ALLREDUCE, label="smddp with AllGather by mpirun", own_options=f"-x {OPTIMIZE_SDP}=true"
    ),
}
_CONTRACTS = {
    Strategy.SMDDP: _ALLREDUCE,
    Strategy.PYTORCHDDP: replace(_ALLREDUCE, label="pytorchddp"),  # SDK v2's other name for it
    Strategy.TORCHRUN: _TORCHRUN,
    # SDK v2: mpi
    Strategy.HOROVOD: Contract(
        "horovod", "mpirun", "sagemaker_mpi_enabled", "sagemaker_mpi_custom_mpi_options"
    ),
    # asynchronous, a parameter server on every host. SDK v2: parameter_server
    Strategy.PARAMETER_SERVER: Contract(
        "parameter_server", switch="sagemaker_parameter_server_enabled"
    ),
    # TensorFlow's own collectives between hosts. SDK v2: multi_worker_mirrored_strategy
    Strategy.MULTI_WORKER_MIRRORED: Contract(
        "multi_worker_mirrored", switch="sagemaker_multi_worker_mirrored_strategy_enabled"
    ),
    # one process whose script copies the model to every GPU of the host
    Strategy.MIRRORED: Contract("mirrored"),
    Strategy.NONE: Contract("none"),  # SDK v2: no distribution
}


def contract_of(training: Training) -> Contract:
    """Return how its strategy starts what `training` describes."""
    contract = _CONTRACTS[training.strategy]
    is_smddp = training.strategy is Strategy.SMDDP
    if is_smddp and training.collective is Collective.ALLGATHER:
        contract = _ALLGATHER[training.launcher]
    return replace(
        contract,
        custom_mpi_options=training.custom_mpi_options,
        processes_per_host=training.processes_per_host,
    )


Mistake = tuple[str, str]
"""What would happen, and what to write instead."""

_TOOLKIT_OPTION = "--NCCL_DEBUG"
_HELP = "--help"
_LEVELS = ("VERSION", "WARN", "INFO", "ABORT", "TRACE")  # NCCL user guide, environment variables

_ENV_LIST = ("mca_base_env_list", "mca_base_env_list_delimiter")
_SINGLE_DASH = re.compile(r"^-[A-Za-z]*[A-Z]")
"""Open MPI's options of several letters are in small letters: with one dash this is none."""
_UNKNOWN = 1  # of an option that is not in the table, one word may be its value


def _mistake(kind: str, /, **facts: object) -> Mistake:
    """Return the mistake that mpirun.yaml has under this name."""
    row = tables.mpirun()["mistakes"][kind]
    return row["what"].format(**facts), row["instead"].format(**facts)


def mistakes_in(options: str, passed: Collection[str]) -> Iterator[Mistake]:
    """Yield what does not do what it looks like; `passed` has patterns of the toolkit's own."""
    if any(character in options for character in "\"'\\`"):
        yield _mistake("a quote")
        return  # where the words end is then not what was meant
    if any(character in options for character in "\n\r\t"):
        yield _mistake("a line break")
    if word := next((word for word in options.split() if shell_characters(word)), None):
        yield _mistake("a shell's character", word=word, characters=shell_characters(word))
        return
    for option, values, count in _split(options):
        yield from _mistakes_of(option, values, count, passed)
        if _is_program(option):
            return  # and the rest would be the program's arguments


def passed_with(contract: Contract, instance_type: str) -> tuple[str, ...]:
    """Return the variables that mpirun is given whatever `custom_mpi_options` say."""
    runner = "smddp" if contract.is_smddp_by_mpirun else "horovod"
    added = (OPTIMIZE_SDP,) if contract.own_options else ()
    return (*tables.passed_by_toolkit(runner, instance_type), *added)


def variables_in(options: str) -> dict[str, str]:
    """Return the variables that `-x NAME=value` sets."""
    pairs = (
        " ".join(values).partition("=")
        for option, values, _ in _split(options)
        if _bare(option) == "x"
    )
    return {name: value for name, equals, value in pairs if equals}


def _split(options: str) -> Iterator[tuple[str, list[str], int]]:
    """Yield each option, the words after it that belong to it, and how many it needs."""
    words = options.split()
    while words:
        option = words.pop(0)
        # how many words after `option` belong to it
        name, equals, _ = option.partition("=")
        count: int = tables.mpirun()["words"].get(_bare(option), 0 if equals else _UNKNOWN)
        if name == _TOOLKIT_OPTION:
            count = 0 if equals else 1
        elif not option.startswith("-"):
            count = 0
        values = [
            words.pop(0) for _ in range(min(count, len(words))) if not words[0].startswith("-")
        ]
        yield option, values, count


def _mistakes_of(
    option: str, values: list[str], count: int, passed: Collection[str]
) -> Iterator[Mistake]:
    (name, _, value), bare, known = option.partition("="), _bare(option), tables.mpirun()
    level = value or " ".join(values)
    if _is_program(option):
        yield _mistake("a program", option=option)
    elif name == _TOOLKIT_OPTION and level not in _LEVELS:
        yield _mistake("a level", level=level or "nothing", levels=", ".join(_LEVELS))
    elif name == _TOOLKIT_OPTION:
        return
    elif _is_prefix(name, _TOOLKIT_OPTION):
        yield _mistake("a prefix of the toolkit's option", name=name)
    elif _is_prefix(name, _HELP) or option.startswith("-h"):
        yield _mistake("a call for help", name=name)
    elif _is_no_option(name):
        is_level = bare == _bare(_TOOLKIT_OPTION)
        yield _mistake("one dash" if is_level else "no option", name=name)
    elif refusal := known["refused"].get(bare):
        yield f"`{name}` {refusal['what']}", refusal["instead"]
    elif bare == "x":
        yield from _variable_mistakes(option, values, passed)
    elif len(values) < count and bare in known["words"]:
        yield _mistake("a word too few", option=option, count=count, given=len(values))
    elif bare in ("mca", "gmca"):
        yield from _parameter_mistakes(*values)


def _variable_mistakes(
    option: str, values: list[str], passed: Collection[str]
) -> Iterator[Mistake]:
    """`-x NAME` passes a variable on, `-x NAME=value` sets one."""
    name, _, value = " ".join(values).partition("=")
    if not name:
        yield _mistake("no variable", option=option)
    elif name == "NCCL_DEBUG":
        yield _mistake("the level twice", level=value or "LEVEL")
    elif name == OPTIMIZE_SDP:
        kind = "AllGather twice" if name in passed else "hidden AllGather"
        yield _mistake(kind, option=option, name=name)
    elif any(fnmatchcase(name, pattern) for pattern in passed):
        yield _mistake("a variable twice", option=option, name=name)


def _parameter_mistakes(name: str, value: str) -> Iterator[Mistake]:
    own = tables.mpirun()["parameters"]
    if name in _ENV_LIST:
        yield _mistake("a list of variables", name=name)
    elif name in own and own[name] != value:
        whose = f"{name} {own[name]}" if own[name] else name
        yield _mistake("a parameter twice", whose=whose)


def _is_program(option: str) -> bool:
    return not option.startswith("-") or not _bare(option)


def _is_no_option(name: str) -> bool:
    bare, known = _bare(name), tables.mpirun()
    is_known = bare in known["words"] or bare in known["refused"]
    return len(bare) > 1 and not is_known and _SINGLE_DASH.match(name) is not None


def _bare(option: str) -> str:
    return option.partition("=")[0].lstrip("-")


def _is_prefix(name: str, option: str) -> bool:
    return len(name) > len("--") and option.startswith(name)


PROVIDER = "FI_PROVIDER"
REQUIRE = "SHOAL_REQUIRE_EFA"
"""The variable by which a script knows that it has to prove EFA, or end."""
_NETWORK = "NCCL_NET"
_NETWORKS = ("AWS Libfabric", "Libfabric", "OFI")
"""Names of aws-ofi-nccl's network, over the years; NCCL compares without case."""


def efa_instance_types() -> tuple[str, ...]:
    return tuple(table_of("fabric")["instance_types"])


def has_efa(instance_type: str) -> bool:
    return instance_type in table_of("fabric")["instance_types"]


def addresses_per_node(instance_type: str) -> int:
    """Return how many private addresses to keep free for each training node of this type."""
    row = table_of("fabric")["instance_types"].get(instance_type, table_of("fabric")["without_efa"])
    return int(row["addresses"])


def efa_variables(instance_type: str) -> dict[str, str]:
    """Return the variables that EFA needs in the training container; none without EFA."""
    if not has_efa(instance_type):
        return {}
    family = instance_type.split(".")[1]
    return {
        row["name"]: row["value"]
        for row in table_of("fabric")["variables"]
        if re.match(row["families"], family)
    }


def efa_environment(training: Training) -> dict[str, str]:
    """Return the container's environment: EFA's, the file's over it, and last what is required."""
    required = {REQUIRE: "1"} if training.require_efa else {}
    return efa_variables(training.instance_type) | training.environment | required


def opposing(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield name and value of each variable with which no job could prove that it uses EFA."""
    if (provider := environment.get(PROVIDER, "efa")) != "efa":
        yield PROVIDER, provider
    if (network := environment.get(_NETWORK, "OFI")).lower() not in map(str.lower, _NETWORKS):
        yield _NETWORK, network
