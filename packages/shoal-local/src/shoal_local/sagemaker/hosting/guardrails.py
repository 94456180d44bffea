"""What a DeploymentConfig asks for: shares of traffic, how long each bakes, and which alarms are
watched.

Source: developer guide, "Deployment guardrails" (blue/green; all at once, canary and linear traffic
shifting), and the API reference. After every shift but the last the new fleet bakes for
WaitIntervalInSeconds. After the last it bakes for TerminationWaitInSeconds, while the old fleet can
still take the traffic back.
"""

from __future__ import annotations

from dataclasses import dataclass

from shoal_local.sagemaker.errors import invalid, not_emulated
from shoal_local.sagemaker.shapes import Document

ALL_TRAFFIC = 1.0
_ROUNDING = 1e-9
_PERCENT = {"CanarySize": (1, 50), "LinearStepSize": (10, 50)}
"""Of the new fleet (API reference, TrafficRoutingConfig)."""


@dataclass(frozen=True)
class Shift:
    """Give the new fleet `share` of the traffic (0 to 1), then watch it for `bake_s` seconds of the
    deployment's clock.
    """

    share: float
    bake_s: float


@dataclass(frozen=True)
class Plan:
    """The shifts of a deployment. `timeout_s` None: nothing limits its time."""

    shifts: tuple[Shift, ...] = (Shift(ALL_TRAFFIC, 0.0),)
    alarms: tuple[str, ...] = ()
    timeout_s: float | None = None


def plan_of(config: Document | None) -> Plan:
    """Return the plan of a DeploymentConfig; without one the new fleet gets all traffic at once.

    Raise AwsError for what is incomplete or not emulated.
    """
    if not config:
        return Plan()
    watched = config.get("AutoRollbackConfiguration", {}).get("Alarms", [])
    alarms = tuple(each["AlarmName"] for each in watched if each.get("AlarmName"))
    policy = config.get("BlueGreenUpdatePolicy")
    if not policy:
        return Plan(alarms=alarms)
    routing = policy["TrafficRoutingConfiguration"]
    wait_s = float(routing["WaitIntervalInSeconds"])
    first = [Shift(share, wait_s) for share in _shares(routing)]
    last = Shift(ALL_TRAFFIC, float(policy.get("TerminationWaitInSeconds", 0)))
    return Plan((*first, last), alarms, policy.get("MaximumExecutionTimeoutInSeconds"))


def _shares(routing: Document) -> list[float]:
    """Return the shares that come before all of the traffic."""
    if routing["Type"] == "CANARY":
        return [_share(routing, "CanarySize")]
    if routing["Type"] == "LINEAR":
        step = _share(routing, "LinearStepSize")
        shares = [number * step for number in range(1, int(ALL_TRAFFIC / step) + 1)]
        return [share for share in shares if share < ALL_TRAFFIC - _ROUNDING]
    return []


def _share(routing: Document, member: str) -> float:
    if member not in routing:
        raise invalid(f"{member} is required for the traffic routing type {routing['Type']}")
    size = routing[member]
    if size["Type"] != "CAPACITY_PERCENT":
        raise not_emulated(f"{member} of the type {size['Type']}; use CAPACITY_PERCENT")
    least, most = _PERCENT[member]
    if not least <= size["Value"] <= most:
        raise invalid(f"{member} must be {least} to {most} percent of the variant's capacity")
    return float(size["Value"]) / 100
