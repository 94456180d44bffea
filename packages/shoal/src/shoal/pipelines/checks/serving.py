"""What an owner should know of the section `serving` although it can be deployed."""

from __future__ import annotations

from collections.abc import Iterator

from shoal.settings.sections.serving import Serving, TrafficType
from shoal.settings.settings import Environment


def notices(environment: Environment) -> Iterator[str]:
    """Yield one line each; none where nothing is served."""
    serving, release = environment.serving, environment.release
    if serving is None:
        if release is not None:
            yield "a release is pinned, and nothing serves it: there is no section `serving`"
        return
    if release is None:
        yield "serving: nothing is served before a release is pinned; `shoal promote` pins one"
    yield from _of_rollout(serving)


def _of_rollout(serving: Serving) -> Iterator[str]:
    if serving.serverless is None and serving.traffic.type is TrafficType.ALL_AT_ONCE:
        yield (
            "serving.traffic: all traffic moves at once, so a bad release is seen by every caller"
            " until the alarms ring"
        )
