"""The runtimes, images and instance types of `images.yaml`."""

import fnmatch
import functools
import hashlib
import os
import platform
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shoal_local.tables import read_table

PACKAGE = Path(__file__).resolve().parents[1]
CATALOG = PACKAGE / "images.yaml"
_SOURCE_TREE = PACKAGE.parents[2]
"""`packages/` in a checkout. For an installed wheel, which has the stand-ins inside the package, it
is some folder without them.
"""
CATALOG_VARIABLE = "SHOAL_IMAGES"
"""Environment variable that names a file to use in place of `images.yaml`; paths in it are relative
to the package or absolute.
"""
CACHE_VARIABLE = "SHOAL_RUNTIMES"
"""Environment variable that moves the cache. By default it is `.shoal/runtimes` in a checkout, else
in the user's cache folder.
"""
BASE_MARKER = ".locked-packages"
"""File that says that the locked packages are installed; a folder without it is built from the
start.
"""
LOCAL_MARKER = ".local-packages"
"""File that is written last, with the version of the installed stand-ins."""


def is_generated(name: str) -> bool:
    """Return whether a file or folder of a stand-in is made by tools, not by people."""
    return name in {"__pycache__", "build", "dist"} or name.endswith(".egg-info")


@dataclass(frozen=True)
class Runtime:
    """An entry of `runtimes`; paths are absolute."""

    name: str
    lock: Path
    stand_ins: tuple[Path, ...]
    check: str
    any_build: tuple[str, ...] = ()
    """Exact requirements of packages of which any build will do, and which so have no hash."""
    on_first_use: bool = False
    """Built when a job needs it, and not by `runtime build` without a name."""

    @property
    def base_version(self) -> str:
        """Return 12 hex digits that change with the locked packages, the Python version and the
        machine; part of the folder's name.
        """
        digest = hashlib.sha256(f"{sys.version_info[:2]} {platform.machine()}".encode())
        digest.update(self.lock.read_bytes())
        digest.update("\n".join(self.any_build).encode())
        return digest.hexdigest()[:12]

    @property
    def local_version(self) -> str:
        """Return 12 hex digits that change with the stand-ins' files, which are installed into the
        same folder again.
        """
        digest = hashlib.sha256()
        for name, path in self._local_files():
            digest.update(name.encode() + path.read_bytes())
        return digest.hexdigest()[:12]

    def version_of(self, package: str) -> str:
        """Return the version of a package, as it is locked; "" if the runtime does not have it."""
        requirements = "\n".join((*self.any_build, self.lock.read_text(encoding="utf-8")))
        pin = re.search(rf"^{re.escape(package)}==([0-9.]+)", requirements, re.MULTILINE)
        return pin[1] if pin else ""

    def _local_files(self) -> Iterator[tuple[str, Path]]:
        """Yield each file that counts, with its path below the stand-ins' folder; generated files
        and documentation do not count.
        """
        for package in self.stand_ins:
            for path in sorted(package.rglob("*")):
                if (
                    path.is_file()
                    and path.suffix != ".md"
                    and not any(is_generated(part) for part in path.relative_to(package).parts)
                ):
                    yield f"{package.name}/{path.relative_to(package)}", path

    def folder(self, cache: Path | None = None) -> Path:
        """Return the folder of this version of the runtime, whether it is built or not.

        Without symbolic links: programs in it name the interpreter by its path, and a container
        sees one path only.
        """
        return (cache or default_cache()).resolve() / f"{self.name}-{self.base_version}"

    def python(self, cache: Path | None = None) -> Path:
        return self.folder(cache) / "bin" / "python"

    def is_built(self, cache: Path | None = None) -> bool:
        """Return whether the runtime is complete, with lock and stand-ins as they are now."""
        marker = self.folder(cache) / LOCAL_MARKER
        return marker.exists() and marker.read_text() == self.local_version


@dataclass(frozen=True)
class Image:
    """An entry of `images`."""

    runtime: Runtime
    environment: Mapping[str, str]
    program: str
    """The file of `container/inside` that the container starts by default."""
    framework: str
    """What the image's tag has the version of: pytorch, scikit-learn ..."""
    framework_version: str
    """The version that the runtime has of it."""
    needs_script: bool = False
    """A training job without a script of the user's own would run an algorithm that is not here."""
    recipe: str = ""
    """The folder of recipes that has the program, where the image has a program of its own."""
    is_declared: bool = False
    """An image of the user's own: AWS's image of the runtime that they named stands for it, without
    what theirs adds.
    """


def default_cache() -> Path:
    """Return the folder of the runtimes, unless a command names another one."""
    if cache := os.environ.get(CACHE_VARIABLE):
        return Path(cache)
    if (_SOURCE_TREE / "stand-ins").is_dir():
        return _SOURCE_TREE.parent / ".shoal" / "runtimes"
    user_cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return user_cache / "shoal-local" / "runtimes"


def stand_ins_folder() -> Path:
    """Return the folder of the stand-ins' sources: next to the package's sources in a checkout,
    inside the package in a wheel.
    """
    in_checkout = _SOURCE_TREE / "stand-ins"
    return in_checkout if in_checkout.is_dir() else PACKAGE / "stand_ins"


@functools.cache
def _catalog() -> dict[str, Any]:
    return dict(read_table(Path(os.environ.get(CATALOG_VARIABLE) or CATALOG)))


def runtimes() -> dict[str, Runtime]:
    """Return every runtime by name."""
    return {name: _runtime(name) for name in _catalog()["runtimes"]}


def _runtime(name: str) -> Runtime:
    entry = _catalog()["runtimes"][name]
    packages = tuple(stand_ins_folder() / package for package in entry["stand_ins"])
    return Runtime(
        name,
        PACKAGE / entry["lock"],
        packages,
        entry["check"],
        any_build=tuple(entry.get("any_build", ())),
        on_first_use=entry["build"] == "on first use",
    )


def image(uri: str, use: str, declared: Mapping[str, str] | None = None) -> Image | None:
    """Return the entry for an image URI and a use (training, processing, inference); None when none
    matches.

    `declared`: runtimes by patterns of the user's own images, for images that the catalog does not
    have. A digest says no tag, so it is matched by the repository.
    """
    by_digest = "@" in uri

    for entry in _images(use):
        if any(fnmatch.fnmatchcase(uri, pattern) for pattern in _patterns(entry)):
            return _image(entry, is_declared="built_from" in entry)
    for pattern, runtime in (declared or {}).items():
        for entry in _images(use):
            names = _repository(uri), _repository(pattern)
            matches = fnmatch.fnmatchcase(*(names if by_digest else (uri, pattern)))
            if matches and entry["runtime"] == runtime:
                return _image(entry, is_declared=True)
    return None


def _repository(uri: str) -> str:
    """Return an image's URI, or a pattern of it, without tag and digest."""
    return re.sub(r"(:[^/@:]*)?(@.*)?$", "", uri)


def _image(entry: Mapping[str, Any], is_declared: bool) -> Image:
    runtime = _runtime(entry["runtime"])
    frameworks = entry.get("framework") or _catalog()["runtimes"][runtime.name]["framework"]
    ((framework, package),) = frameworks.items()
    return Image(
        runtime,
        entry["environment"],
        entry["program"],
        framework,
        runtime.version_of(package),
        entry.get("needs_script", False),
        entry.get("recipe", ""),
        is_declared,
    )


def image_patterns(use: str) -> list[str]:
    """Return the patterns of the images that can be used for `use`."""
    return [pattern for entry in _images(use) for pattern in _patterns(entry)]


def _images(use: str) -> list[Mapping[str, Any]]:
    return [entry for entry in _catalog()["images"] if use in entry["uses"]]


def _patterns(entry: Mapping[str, Any]) -> list[str]:
    return [entry["image"] + tag for tag in entry["tags"]]


def accelerators(instance_type: str) -> int:
    """Return the number of GPUs of an instance type such as `ml.p4d.24xlarge`."""
    family, _, size = instance_type.removeprefix("ml.").rpartition(".")
    sizes = _catalog()["accelerators"].get(family, {})
    return int(sizes.get(size, sizes.get("other", 0)))
