"""Where everything of one job, or of one model server, lies on this machine."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from shoal_local.sagemaker.errors import not_emulated

_OPT_ML = Path("/opt/ml")


@dataclass(frozen=True)
class HostPaths:
    """The folders of one container, as `container.host` mounts them."""

    folder: Path

    @property
    def ml(self) -> Path:
        """What the container sees as /opt/ml."""
        return self.folder / "ml"

    @property
    def config(self) -> Path:
        return self.ml / "input" / "config"

    @property
    def model(self) -> Path:
        return self.ml / "model"

    @property
    def output_data(self) -> Path:
        return self.ml / "output" / "data"

    @property
    def failure(self) -> Path:
        """The file in which an algorithm says why it failed."""
        return self.ml / "output" / "failure"

    def channel(self, name: str) -> Path:
        return self.ml / "input" / "data" / name

    def path_of(self, path_in_container: str) -> Path:
        """Return the path here of a path below /opt/ml in the container; other paths are not
        emulated.
        """
        path = Path(path_in_container)
        if ".." in path.parts or not path.is_relative_to(_OPT_ML):
            raise not_emulated(f"the container path {path_in_container} (only paths below /opt/ml)")
        return self.ml / path.relative_to(_OPT_ML)

    def make(self, host_names: Sequence[str], addresses: Mapping[str, str] | None = None) -> None:
        """Create the folders and the hosts file; hosts without an address share loopback."""
        mounted = (self.folder / name for name in ("tmp", "opt", "bin", "sbin"))
        for folder in (self.ml, *mounted):
            folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "environment").touch()
        by_name = addresses or {}
        local = ["localhost", *(name for name in host_names if name not in by_name)]
        lines = [f"127.0.0.1 {' '.join(local)}"]
        lines += [f"{address} {name}" for name, address in by_name.items()]
        (self.folder / "hosts").write_text("".join(f"{line}\n" for line in lines))


@dataclass(frozen=True)
class JobPaths:
    """The folder of one job; `kind` is training, processing or endpoint."""

    folder: Path

    @classmethod
    def of(cls, state_dir: Path, kind: str, name: str) -> JobPaths:
        return cls(state_dir / "sagemaker-jobs" / f"{kind}-{name}")

    @property
    def log(self) -> Path:
        return self.folder / "log.txt"

    @property
    def upload(self) -> Path:
        """Archives on their way to S3."""
        return self.folder / "upload"

    def host(self, name: str) -> HostPaths:
        return HostPaths(self.folder / name)

    def make(self) -> None:
        """Create the job's folder; what an earlier job of this name left is deleted."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.upload.mkdir(parents=True)

    def remove(self, host_names: Sequence[str]) -> None:
        """Delete hosts and archives, which may be large; the log and exit codes stay."""
        for folder in (self.upload, *(self.host(name).folder for name in host_names)):
            shutil.rmtree(folder, ignore_errors=True)

    def renew(self, host_names: Sequence[str], addresses: Mapping[str, str] | None = None) -> None:
        """Create hosts with empty disks."""
        for name in host_names:
            shutil.rmtree(self.host(name).folder, ignore_errors=True)
            self.host(name).make(host_names, addresses)
