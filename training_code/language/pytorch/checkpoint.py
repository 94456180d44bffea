"""Checkpoints that another number of ranks, and another way to shard, goes on from.

A checkpoint is a folder `step-00000120` in which every rank writes its part
(torch.distributed.checkpoint), and rank 0 `checkpoint.json`: the run's settings, how far it is, and
size and digest of every file. The folder has this name once all of that is on disk. One that is
damaged, or of which a part is missing, is passed over with one line.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from model import file_sha256
from ranks import Ranks
from torch.distributed.checkpoint import (
    DefaultLoadPlanner,
    DefaultSavePlanner,
    FileSystemReader,
    FileSystemWriter,
)
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_state_dict,
    set_state_dict,
)

SUMMARY_FILE = "checkpoint.json"
KEPT = 2
"""Were the newest one damaged, the run would go on from the one before."""
_PARTIAL = ".partial"
_TRAINED = StateDictOptions(ignore_frozen_params=True, strict=False)
"""What is not trained is in the base's own file."""


@dataclass(frozen=True)
class Position:
    """How far a run is. Data and learning rate follow from it."""

    step: int = 0
    trained_s: float = 0.0
    """Time spent on training, in this job and those that it went on from."""


@dataclass
class Store:
    """The folder of a job's checkpoints. A host may have one of its own: it needs no other's parts
    until the job starts again, with what SageMaker has kept of all hosts.
    """

    folder: Path
    ranks: Ranks
    identity: dict[str, Any]
    """The settings that a run must share with the one it goes on from."""

    def write(
        self, position: Position, model: torch.nn.Module, optimizer: torch.optim.Optimizer
    ) -> None:
        """Write a checkpoint, whole or not at all; then remove all but the newest `KEPT`."""
        final = self.folder / f"step-{position.step:08d}"
        partial = final.with_name(final.name + _PARTIAL)
        if self.ranks.leads_host:
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True, exist_ok=True)
        self.ranks.barrier()
        weights, moments = get_state_dict(model, optimizer, options=_TRAINED)
        state = {"model": weights, "optimizer": moments}
        _save(state, partial, self.ranks)
        self._summarize(partial, position)
        if self.ranks.is_first:
            self._complete(partial, final)
        self.ranks.barrier()
        # not there any more where hosts share the folder
        if self.ranks.leads_host and partial.exists():
            self._complete(partial, final)
        self.ranks.barrier()

    def _complete(self, partial: Path, final: Path) -> None:
        shutil.rmtree(final, ignore_errors=True)
        partial.rename(final)
        for old in self._folders()[KEPT:]:
            shutil.rmtree(old)

    def _summarize(self, folder: Path, position: Position) -> None:
        files: dict[str, list[Any]] = {}
        mine = folder.glob(f"__{self.ranks.rank}_*")
        for some in self.ranks.gather(_digests([*mine, *_metadata(folder, self.ranks)])):
            files |= some
        summary = {"run": self.identity, **asdict(position), "files": files}
        if self.ranks.is_first:
            text = json.dumps(summary, indent=2, sort_keys=True)
            (folder / SUMMARY_FILE).write_text(f"{text}\n")

    def read(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> Position:
        """Restore model and optimizer from the newest checkpoint that is whole.

        Return the start if there is none. Raise ValueError if it is of a run with other settings.
        """
        if self.ranks.leads_host:
            for unfinished in self.folder.glob(f"*{_PARTIAL}"):
                shutil.rmtree(unfinished, ignore_errors=True)
        names = self.ranks.gather([each.name for each in self._folders()])
        for name in sorted(set().union(*names), reverse=True):
            damage = next(filter(None, self.ranks.gather(self._damage(self.folder / name))), "")
            if damage:
                self.ranks.say(f"passed over checkpoint {name}: {damage}")
                continue
            return self._load(self.folder / name, model, optimizer)
        return Position()

    def _load(
        self, folder: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer
    ) -> Position:
        summary = json.loads((folder / SUMMARY_FILE).read_text())
        require_same_run(folder, summary["run"], self.identity)
        weights, moments = get_state_dict(model, optimizer, options=_TRAINED)
        state = {"model": weights, "optimizer": moments}
        _load(state, folder, self.ranks)
        set_state_dict(
            model,
            optimizer,
            model_state_dict=state["model"],
            optim_state_dict=state["optimizer"],
            options=_TRAINED,
        )
        return Position(summary["step"], summary["trained_s"])

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
        folders = self.folder.glob("step-*")
        return sorted((each for each in folders if each.suffix != _PARTIAL), reverse=True)


def _save(state: dict[str, Any], folder: Path, ranks: Ranks) -> None:
    """Write each rank's part. Planner and writer are called as `torch.distributed.checkpoint.save`
    calls them, which gathers to one rank and scatters from it: smddp has neither.
    """
    writer, planner = FileSystemWriter(folder), DefaultSavePlanner()
    planner.set_up_planner(state, writer.storage_meta(), is_coordinator=ranks.is_first)
    writer.set_up_storage_writer(ranks.is_first)
    plans = ranks.gather(writer.prepare_local_plan(planner.create_local_plan()))
    plans, metadata = planner.create_global_plan(plans)
    mine = planner.finish_plan(writer.prepare_global_plan(plans)[ranks.rank])
    results = ranks.gather(writer.write_data(mine, planner).wait())
    if ranks.is_first:
        writer.finish(metadata, results)


def _load(state: dict[str, Any], folder: Path, ranks: Ranks) -> None:
    """Read what each rank needs into `state`, whoever wrote it."""
    reader, planner = FileSystemReader(folder), DefaultLoadPlanner()
    metadata = reader.read_metadata()
    planner.set_up_planner(state, metadata, ranks.is_first)
    reader.set_up_storage_reader(metadata, ranks.is_first)
    plans = ranks.gather(reader.prepare_local_plan(planner.create_local_plan()))
    plans = reader.prepare_global_plan(planner.create_global_plan(plans))
    reader.read_data(planner.finish_plan(plans[ranks.rank]), planner).wait()


def require_same_run(folder: Path, settings: dict[str, Any], expected: dict[str, Any]) -> None:
    """Raise ValueError if a checkpoint's run had other settings."""
    differences = [
        f"{key} {settings.get(key)} (now {value})"
        for key, value in expected.items()
        if settings.get(key) != value
    ]
    if differences:
        raise ValueError(
            f"{folder} is from a run with other settings: {', '.join(differences)}; use them or"
            " another --checkpoint-dir"
        )


def _metadata(folder: Path, ranks: Ranks) -> list[Path]:
    return [folder / ".metadata"] if ranks.is_first else []


def _digests(files: Iterable[Path]) -> dict[str, list[Any]]:
    return {file.name: [file.stat().st_size, file_sha256(file)] for file in files}
