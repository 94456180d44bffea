"""The section `observability`: who hears of trouble, the budget, how long logs are kept."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from shoal.settings.parsing.base import Settings
from shoal.settings.parsing.errors import Problem, repeated

Email = Annotated[str, Field(pattern=r"^[^@\s]+@[^@\s]+\.[^@\s]+$", max_length=254)]
# The periods that CloudWatch Logs has (API reference, PutRetentionPolicy), from a week on.
RetentionDays = Literal[7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1827, 3653]


class Observability(Settings):
    """Alarms, budget and logs. Alarms always exist; without an address nobody is told."""

    alert_emails: Annotated[tuple[Email, ...], Field(max_length=10)] = ()
    """Who gets the alarms. AWS asks each address once to confirm."""
    monthly_budget_usd: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    """US dollars a month for this environment: mails at 80 % and at 100 % of it, and when the
    forecast exceeds it.
    """
    log_retention_days: RetentionDays = 90
    """Days after which logs of the functions and of the network, and pages of runs, are deleted."""


def problems(observability: Observability) -> Iterator[Problem]:
    """Each address has one subscription; a second one would be a resource that exists already."""
    for message in repeated(map(str.lower, observability.alert_emails)):
        yield Problem("observability.alert_emails", message, "name each address once")
