"""Rules of the section `file_system`: each combination that Amazon FSx would refuse is one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.settings.environment_file import lines_with

PERSISTENT = {"deployment_type": "PERSISTENT_2"}

BROKEN: list[tuple[dict[str, Any], str]] = [
    (
        {"storage_capacity_gib": 3600},
        "storage_capacity_gib = 3600: must be 1200, 2400, or a multiple of 2400; use 2400 or 4800",
    ),
    (
        {"storage_capacity_gib": 1300},
        "storage_capacity_gib = 1300: must be 1200, 2400, or a multiple of 2400; use 1200 or 2400",
    ),
    ({"storage_capacity_gib": 1000}, "storage_capacity_gib = 1000: must be at least 1200"),
    (
        {"throughput_mbps_per_tib": 125},
        "SCRATCH_2 has a fixed throughput; remove it, or use deployment_type PERSISTENT_2",
    ),
    (PERSISTENT, "throughput_mbps_per_tib: PERSISTENT_2 needs it; add one of 125, 250, 500, 1000"),
    (
        PERSISTENT | {"throughput_mbps_per_tib": 300},
        "throughput_mbps_per_tib = 300: must be one of 125, 250, 500, 1000; use 250",
    ),
    (
        PERSISTENT | {"throughput_mbps_per_tib": 125, "storage_capacity_gib": 3600},
        "must be 1200, 2400, or a multiple of 2400",
    ),
    (
        {"deployment_type": "SCRATCH_1"},
        'deployment_type = "SCRATCH_1": must be one of: SCRATCH_2, PERSISTENT_2',
    ),
]


@pytest.mark.parametrize(("section", "line"), BROKEN, ids=[line[:50] for _, line in BROKEN])
def test_a_broken_rule_is_one_line(tmp_path: Path, section: dict[str, Any], line: str) -> None:
    (problem,) = lines_with(tmp_path, {"data": {"input_mode": "FSx"}, "file_system": section})
    assert line in problem


@pytest.mark.parametrize("capacity_gib", [1200, 2400, 4800, 48000])
@pytest.mark.parametrize(
    "kind",
    [
        {},
        *[
            PERSISTENT | {"throughput_mbps_per_tib": throughput}
            for throughput in (125, 250, 500, 1000)
        ],
    ],
)
def test_file_systems_that_fsx_offers_are_accepted(
    tmp_path: Path, kind: dict[str, Any], capacity_gib: int
) -> None:
    section = kind | {"storage_capacity_gib": capacity_gib}
    assert lines_with(tmp_path, {"data": {"input_mode": "FSx"}, "file_system": section}) == []


def test_reading_from_a_file_system_needs_one(tmp_path: Path) -> None:
    (line,) = lines_with(tmp_path, {"data": {"input_mode": "FSx"}})
    assert 'data.input_mode = "FSx": needs a file system; add the section file_system' in line


def test_a_file_system_that_nothing_reads_is_refused_because_it_costs_money(tmp_path: Path) -> None:
    (line,) = lines_with(tmp_path, {"file_system": {}})
    assert "file_system: nothing would read it, and it costs money: data.input_mode is File" in line
