"""Where runs are read: what must be known of a pipeline, without its environment's file.

`Session.place` knows it in a checkout; the function that keeps pages reads it from a file of its
own (packages/shoal/src/shoal/functions/pages).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from shoal.aws.execution import Pipeline
from shoal.aws.target import Target

if TYPE_CHECKING:  # they need packages that the function does not have
    from shoal.costs.prices import Price
    from shoal.settings.sections.evaluation import Metric


@dataclass(frozen=True)
class Place:
    """A pipeline, what its log lines mean, and where pages of its runs lie."""

    target: Target
    pipeline: Pipeline
    is_local: bool
    """Whether shoal-local plays AWS there."""
    environment: str
    workload: str
    strategy: str
    """How the pipeline that is deployed now distributes its training."""
    arguments: str
    """The words that name it in a command, as in `dev prices --local`."""
    model_package_group: str
    metrics: Mapping[str, Metric]
    cleaners: Mapping[str, str]
    """The functions that clean up outside the graph, by what they are for: teardown, sweep."""
    bucket: str
    folder: str
    """The folder in the bucket in which each run has one with its page."""
    price_of: Callable[[str], Price | None]
    """The list price of an instance type in the pipeline's region."""
    commit_of: Callable[[str], str | None]
    """The commit that has the files of the code archive with this URI: "" if none has, None if it
    was not looked for.
    """
    cost_tags: Mapping[str, str] = field(default_factory=dict)
    """The tags under which the bill has what a run has cost, as far as the settings say."""
    requests: Path | None = None
    """The log of requests of this checkout's shoal-local, which need not be the one that plays."""
