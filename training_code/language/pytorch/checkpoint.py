"""Checkpoints that another number of ranks, and another way to shard, goes on from.

A checkpoint is a folder `step-00000120` in which every rank writes its part
(torch.distributed.checkpoint), and rank 0 `checkpoint.json`: the run's settings, how far it is, and
size and digest of every file. The folder has this name once all of that is on disk. One that is
damaged, or of which a part is missing, is passed over with one line.

Training goes on while a checkpoint is written: it waits for a copy of the state, and later for the
new name. Messages between ranks are sent by the main thread alone, as smddp's one group needs it.
"""

import json
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch
from common.archive import file_sha256
from common.options import require_same
from common.ranks import Ranks
from torch.distributed.checkpoint import (
    DefaultLoadPlanner,
    DefaultSavePlanner,
    FileSystemReader,
    FileSystemWriter,
)
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

SUMMARY_FILE, METADATA_FILE = "checkpoint.json", ".metadata"
KEPT = 2
"""Were the newest one damaged, the run would go on from the one before."""
_PARTIAL = ".partial"
_NAMES = f"step-{8 * '[0-9]'}"  # what else lies in the folder is not touched


@dataclass(frozen=True)
class Position:
    """How far a run is. Data and learning rate follow from it."""

    step: int = 0
    first_started_at: float = 0.0
    """When the first job of this run started, in seconds since 1970."""
    productive_s: float = 0.0
    """Time spent in the steps up to here, without those that were lost and computed again."""


class _Copies(DefaultSavePlanner):  # type: ignore[misc, unused-ignore] # untyped without torch
    """Plans what this rank writes, and copies it to the CPU: training changes the state meanwhile.

    The memory of the copies is kept for the next checkpoint; a GPU writes into it by itself, for it
    is pinned.
    """

    def __init__(self) -> None:
        super().__init__()
        self._copies: dict[Any, Any] = {}

    def finish_plan(self, new_plan: Any) -> Any:
        """Copy the items of the plan."""
        plan = super().finish_plan(new_plan)
        for item in plan.items:
            value = super().resolve_data(item)
            if isinstance(value, torch.Tensor):
                copy = self._copies.get(item.index)
                if copy is None:
                    on_gpu = value.device.type == "cuda"
                    copy = torch.empty_like(value, device="cpu", pin_memory=on_gpu)
                value = copy.copy_(value.detach(), non_blocking=True)
            self._copies[item.index] = value
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        return plan

    def resolve_data(self, write_item: Any) -> Any:
        """Return the tensor, or the bytes, of one item, for which the writer asks."""
        return self._copies[write_item.index]


@dataclass(frozen=True)
class _Writing:
    """A checkpoint that is being written."""

    position: Position
    final: Path
    partial: Path
    """The folder's name until all of it is on disk."""
    writer: Any
    metadata: Any
    """Where each part of each tensor belongs, by the plan of all ranks."""
    part: Future[Any]
    """What this rank's thread returns: results for `metadata`, and digests of its files."""


@dataclass
class Store:
    """The folder of the checkpoints of a job's model and optimizer. A host may have one of its own:
    it needs no other's parts until the job starts again, with what SageMaker has kept of all hosts.
    """

    folder: Path
    ranks: Ranks
    identity: dict[str, Any]
    """The settings that a run must share with the one it goes on from."""
    model: torch.nn.Module
    optimizer: torch.optim.Optimizer
    held_s: float = 0.0
    """The time for which training has waited here."""

    def __post_init__(self) -> None:
        self._thread, self._copies = ThreadPoolExecutor(1), _Copies()
        self._writing: _Writing | None = None
        self._passed_over = set[str]()

    def write(self, position: Position) -> None:
        """Copy the state, and begin to write it. All ranks call `finish` some time later.

        Raise OSError on all ranks if one of them cannot write.
        """
        self.finish()
        ranks, copies = self.ranks, self._copies
        with self._hold():
            final = self.folder / f"step-{position.step:08d}"
            partial = final.with_name(final.name + _PARTIAL)
            self._together(final, lambda: _make_empty(partial), here=ranks.leads_host)
            # ahead of the writing, there is nothing left to copy from a GPU
            writer = FileSystemWriter(partial, per_thread_copy_ahead=0)
            # Planned as `torch.distributed.checkpoint.save` does, which gathers to one rank and
            # scatters from it: smddp has neither.
            copies.set_up_planner(self._state(), writer.storage_meta(), ranks.is_first)
            writer.set_up_storage_writer(ranks.is_first)
            plans = ranks.gather(writer.prepare_local_plan(copies.create_local_plan()))
            plans, metadata = copies.create_global_plan(plans)
            plan = copies.finish_plan(writer.prepare_global_plan(plans)[ranks.rank])

            def write_part() -> Any:  # in a thread: without a message to other ranks
                results = writer.write_data(plan, copies).wait()
                return results, _digests(partial.glob(f"__{ranks.rank}_*"))

            part = self._thread.submit(write_part)
            self._writing = _Writing(position, final, partial, writer, metadata, part)

    @property
    def is_written(self) -> bool:
        """Whether this rank has written its part of a checkpoint that has no name yet."""
        return self._writing is not None and self._writing.part.done()

    def finish(self) -> None:
        """Wait for what is being written, and give it its name; all ranks call this.

        Then remove older ones, so that `KEPT` stay. Raise OSError on all ranks if one could not
        write.
        """
        writing, self._writing = self._writing, None
        if writing is None:
            return
        final, partial = writing.final, writing.partial
        with self._hold():
            parts = self._together(final, writing.part.result)
            self._together(final, lambda: self._seal(writing, parts), here=self.ranks.is_first)
            # not there any more where hosts share the folder
            is_left = self.ranks.leads_host and partial.exists()
            self._together(final, lambda: self._complete(partial, final), here=is_left)

    @contextmanager
    def _hold(self) -> Iterator[None]:
        started_at = time.monotonic()
        yield
        self.held_s += time.monotonic() - started_at

    def _together(self, final: Path, act: Callable[[], Any], *, here: bool = True) -> list[Any]:
        """Return what `act` returned on each rank that acts, or raise OSError on all if one failed.

        The error refers to nothing: a rank could not leave its group while an error's frames hold
        what was made with it.
        """
        result, failure = None, ""
        try:
            result = act() if here else None
        except (OSError, RuntimeError) as error:
            # torch's writer raises RuntimeError ("unexpected pos") while it handles the disk's
            failure = f"rank {self.ranks.rank}: {_disk_error(error)}"
        outcomes = self.ranks.gather((result, failure))
        failures = [failure for _, failure in outcomes if failure]
        if failures:
            raise OSError(
                f"checkpoint {final} cannot be written ({'; '.join(failures)}): make room there,"
                " and start again; the run goes on from the checkpoint before"
            )
        return [result for result, _ in outcomes]

    def _seal(self, writing: _Writing, parts: list[Any]) -> None:
        """Write what describes all parts, and give the folder its name."""
        results, digests = zip(*parts, strict=True)
        writing.writer.finish(writing.metadata, list(results))
        files = _digests([writing.partial / METADATA_FILE])
        for some in digests:
            files |= some
        summary = {"run": self.identity, **asdict(writing.position), "files": files}
        text = json.dumps(summary, indent=2, sort_keys=True)
        (writing.partial / SUMMARY_FILE).write_text(f"{text}\n")
        self._complete(writing.partial, writing.final)

    def _complete(self, partial: Path, final: Path) -> None:
        shutil.rmtree(final, ignore_errors=True)
        partial.rename(final)
        # What was passed over does not count. Where it has a higher number, it is replaced later.
        self._passed_over.discard(final.name)
        older = [each for each in self._folders() if each.name <= final.name]
        whole = [each for each in older if each.name not in self._passed_over]
        for old in {*older}.difference(whole[:KEPT]):
            shutil.rmtree(old)

    def read(self) -> Position:
        """Restore model and optimizer from the newest checkpoint that is whole.

        Return the start if there is none. Raise ValueError if it is of a run with other settings.
        """
        if self.ranks.leads_host:
            for unfinished in self.folder.glob(f"{_NAMES}{_PARTIAL}"):
                shutil.rmtree(unfinished, ignore_errors=True)
        names = self.ranks.gather([each.name for each in self._folders()])
        for name in sorted(set().union(*names), reverse=True):
            damage = next(filter(None, self.ranks.gather(self._damage(self.folder / name))), "")
            if damage:
                self.ranks.say(f"passed over checkpoint {name}: {damage}")
                self._passed_over.add(name)
                continue
            return self._load(self.folder / name)
        return Position()

    def _load(self, folder: Path) -> Position:
        summary = json.loads((folder / SUMMARY_FILE).read_text())
        require_same(folder, summary["run"], self.identity)
        state, is_first = self._state(), self.ranks.is_first
        reader, planner = FileSystemReader(folder), DefaultLoadPlanner()
        metadata = reader.read_metadata()
        planner.set_up_planner(state, metadata, is_first)
        reader.set_up_storage_reader(metadata, is_first)
        # each rank reads what it needs, from the parts of all ranks
        plan = planner.finish_plan(reader.prepare_local_plan(planner.create_local_plan()))
        reader.read_data(plan, planner).wait()
        set_state_dict(
            self.model,
            self.optimizer,
            model_state_dict=state["model"],
            optim_state_dict=state["optimizer"],
        )
        return Position(**{each.name: summary[each.name] for each in fields(Position)})

    def _state(self) -> dict[str, Any]:
        """Return this rank's parts, by the names of the weights."""
        weights, moments = get_state_dict(self.model, self.optimizer)
        return {"model": weights, "optimizer": moments}

    def _damage(self, folder: Path) -> str:
        """Return what is wrong with a checkpoint, "" if nothing is.

        The digests are shared out among the ranks of a host.
        """
        try:
            files = json.loads((folder / SUMMARY_FILE).read_text())["files"]
            names = sorted(files)
            for index, name in enumerate(names):
                size, sha256 = files[name]
                if (folder / name).stat().st_size != size:
                    return f"{name} has another size than when it was written"
                mine = index % self.ranks.local_world_size == self.ranks.local_rank
                if mine and file_sha256(folder / name) != sha256:
                    return f"{name} has other bytes than when it was written"
        except FileNotFoundError as error:
            return f"{Path(error.filename).name} is missing"
        except (OSError, ValueError, KeyError, TypeError) as error:
            return f"{SUMMARY_FILE} cannot be read: {error}"
        return ""

    def _folders(self) -> list[Path]:
        """Return the checkpoints in the folder, the newest first."""
        named = self.folder.glob(_NAMES)
        folders = (each for each in named if each.is_dir() and not each.is_symlink())
        return sorted(folders, reverse=True)


def _disk_error(error: BaseException) -> BaseException:
    cause: BaseException | None = error
    while cause and not isinstance(cause, OSError):
        cause = cause.__context__
    return cause or error


def _make_empty(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)  # the leader of a host that shares it may be first


def _digests(files: Iterable[Path]) -> dict[str, list[Any]]:
    return {file.name: [file.stat().st_size, file_sha256(file)] for file in files}
