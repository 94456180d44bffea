"""Put a release into the text of an environment file, and leave every other character as it is.

The section `release` is replaced where it stands, or appended. It is found in YAML's own parse of
the text. The result is parsed again and compared, so a file in a style that this cannot edit is
refused, not damaged.
"""

from __future__ import annotations

import json

import yaml

from config import yaml_lines
from config.errors import ConfigError, Problem
from config.release import Release

SECTION = "release"
_HEADER = "# Written by `shoal promote`, taken back by `git revert`; not for editing by hand."


def with_release(text: str, release: Release, file: str) -> str:
    """Return `text` with `release` in it.

    Raises ConfigError, naming `file`, for a text that cannot be edited.
    """
    end = "\r\n" if "\r\n" in text else "\n"
    lines = text.splitlines(keepends=True)
    start, stop = _place(text, len(lines))
    kept = "".join(lines[:start]).rstrip("\r\n") + end if lines[:start] else ""
    before = kept + end if start == len(lines) else "".join(lines[:start])
    written = before + end.join(_lines(release)) + end + "".join(lines[stop:])
    _require_same(text, written, release, file)
    return written


def release_in(text: str) -> object:
    """Return what the section says, as plain YAML; None where there is none."""
    parsed = yaml.safe_load(text)
    return parsed.get(SECTION) if isinstance(parsed, dict) else None


def _lines(release: Release) -> list[str]:
    """Return the section in block style; JSON's scalars are YAML's too."""
    lines = [_HEADER, f"{SECTION}:"]
    for key, value in release.model_dump(mode="json").items():
        if isinstance(value, dict):
            lines.append(f"  {key}:" if value else f"  {key}: {{}}")
            lines += [f"    {json.dumps(name)}: {_scalar(entry)}" for name, entry in value.items()]
        else:
            lines.append(f"  {key}: {_scalar(value)}")
    return lines


def _scalar(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _place(text: str, count: int) -> tuple[int, int]:
    """Return the first line of the section and the line after it, as indexes.

    Both are the end of the text where there is no section.
    """
    lines = text.splitlines()
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    for key, value in root.value if isinstance(root, yaml.MappingNode) else ():
        if key.value == SECTION:
            start, stop = (
                key.start_mark.line,
                value.end_mark.line + (1 if value.end_mark.column else 0),
            )
            while stop > start + 1 and (
                not lines[stop - 1].strip() or lines[stop - 1].startswith("#")
            ):
                stop -= 1  # what stands between two sections belongs to the second
            return (start - 1 if start and lines[start - 1] == _HEADER else start), stop
    return count, count


def _require_same(before: str, after: str, release: Release, file: str) -> None:
    """Raise ConfigError unless the two texts differ in the release only."""
    old, new = yaml_lines.parse(before), yaml_lines.parse(after)
    expected = (
        {**(old.data or {}), SECTION: release.model_dump(mode="json")}
        if isinstance(old.data, dict)
        else None
    )
    if new.problems or new.data != expected:
        message = (
            "this file is written in a style into which no release can be put without changing the"
            " rest"
        )
        raise ConfigError(
            file,
            [
                Problem(
                    SECTION,
                    message,
                    "write the file as `key: value` lines, as environments/dev.yaml is",
                )
            ],
        )
