"""What is to be started: by whom, under which name and token, with which parameters."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Start:
    """One delivery, however it came."""

    origin: str
    """Of the measurements: the schedule's name, or that it was a manifest."""
    token: str
    """The same for every delivery of one occasion, and for no other."""
    name: str
    """Display name of the execution, by which a second delivery is known: letters, digits and
    hyphens, at most 82.
    """
    description: str
    told: str
    """Who asks, for the log."""
    parameters: dict[str, str]
