"""`shoal plan`: the stacks of an environment and what they cost, as a table or as JSON.

It asks nobody and creates nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import click

from shoal.cli.commands.platform.strategies import print_strategies
from shoal.cli.options import environment_argument
from shoal.costs.plan import Bill, Line, Plan, Room, Run, shared_plan
from shoal.costs.plan import plan as make_plan
from shoal.costs.prices import HOURS_A_MONTH, Price
from shoal.pipelines.checks.check import check
from shoal.settings.loading.loader import load_environment, load_workloads
from shoal.verbs.workspace import Workspace

UNKNOWN = "unknown"


@click.command("plan")
@environment_argument
@click.option(
    "--strategy",
    metavar="NAME",
    help="Another way to distribute the training; `--strategies` lists them.",
)
@click.option(
    "--strategies",
    "lists_strategies",
    is_flag=True,
    help="List the overlays in environments/strategies/ as they look when laid over ENV instead.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.pass_obj
def show_plan(
    workspace: Workspace,
    environment: str,
    workload: str | None,
    strategy: str | None,
    lists_strategies: bool,
    as_json: bool,
) -> None:
    """Show what ENV would consist of and what it would cost, at rest and per hour of training,
    before anything is created.
    """
    if lists_strategies:
        print_strategies(workspace, environment, workload)
        return
    root = workspace.root
    if workload is None:
        views = load_workloads(environment, root, strategy)
    else:
        views = (load_environment(environment, root, strategy, workload),)
    plans = [
        make_plan(view, check(view, root=root, strategy=strategy).notices, root) for view in views
    ]
    if workload is None and views[0].workloads:
        data, lines = _data_of_all(plans), _text_of_all(plans)
    else:
        data, lines = as_data(plans[0]), _text(plans[0])
    click.echo(json.dumps(data, indent=2) if as_json else "\n".join(lines))


def _data_of_all(plans: Sequence[Plan]) -> dict[str, Any]:
    shared = as_data(shared_plan(plans))
    of_whole = ("environment", "region", "stacks", "at_rest", "notes")
    of_each = ("training", "gpu_memory", "testing", "training_subnet")
    return {key: shared[key] for key in of_whole} | {
        "workloads": {
            each.environment.workload: {key: as_data(each)[key] for key in of_each}
            for each in plans
        }
    }


def _text_of_all(plans: Sequence[Plan]) -> Iterator[str]:
    shared = shared_plan(plans)
    yield from _standing(shared, shared.environment.name)
    for plan in plans:
        yield f"\nworkload {plan.environment.workload}"
        yield from _running(replace(plan, at_rest=shared.at_rest))
    yield from _ending(shared, (shared, *plans))


def as_data(plan: Plan) -> dict[str, Any]:
    """Return the plan in JSON's types; an unknown price is null."""
    return {
        "environment": plan.environment.name,
        "region": plan.environment.region,
        "stacks": [{"name": stack.name, "holds": stack.holds} for stack in plan.stacks],
        "at_rest": {
            **_bill(plan.at_rest),
            "usd_per_month": round(plan.at_rest.usd_per_hour * HOURS_A_MONTH, 2),
        },
        "training": {
            **_bill(plan.training),
            "longest_usd": round(plan.max_training_usd, 2),
            "usd_per_hour_with_at_rest": round(plan.while_training.usd_per_hour, 4),
        },
        "gpu_memory": _memory(plan.room) if isinstance(plan.room, Room) else None,
        "testing": _bill(plan.testing),
        "training_subnet": {
            "cidr": plan.training_subnet,
            "usable_addresses": plan.usable_addresses,
            "addresses_of_one_job": plan.addresses.job,
            "other_addresses": plan.addresses.others,
        },
        "notes": list(plan.notes),
    }


def _bill(bill: Bill) -> dict[str, Any]:
    return {
        "lines": [_line(line) for line in bill.lines],
        "usd_per_hour": round(bill.usd_per_hour, 4),
        "is_estimate": bill.is_estimate,
        "unknown": list(bill.unknown),
    }


def _line(line: Line) -> dict[str, Any]:
    hourly = None if line.usd_per_hour is None else round(line.usd_per_hour, 6)
    return {
        "what": line.what,
        "quantity": line.quantity,
        "usd_per_hour": hourly,
        "price": _price(line.each),
    }


def _price(price: Price | None) -> dict[str, Any] | None:
    if price is None:
        return None
    return {"source": price.source, "date": str(price.date), "is_estimate": price.is_estimate}


def _memory(room: Room) -> dict[str, Any]:
    need = room.here.need
    return {
        "bytes_of_a_rank": dict(need.memory),
        "gib_of_a_rank": round(need.gib, 2),
        "steps": need.steps,
        "places": [
            {
                "instance_type": run.place.instance_type,
                "gpu": run.place.gpu.gpu,
                "gib": run.place.gpu.gib,
                "fits": run.place.fits,
                "step_s": run.place.need.step_s,
                "source": run.place.need.source,
                "usd": None if run.usd is None else round(run.usd, 4),
                "price": _price(run.each),
            }
            for run in room.runs
        ],
    }


def _text(plan: Plan) -> Iterator[str]:
    yield from _standing(plan, plan.environment.title)
    yield from _running(plan)
    yield from _ending(plan, (plan,))


def _standing(plan: Plan, title: str) -> Iterator[str]:
    yield f"{title} in {plan.environment.region}; nothing is created by this command"
    yield "\nstacks, in this order"
    yield from _columns((stack.name, stack.holds) for stack in plan.stacks)
    yield "\nat rest, for as long as the stacks exist"
    if plan.at_rest.lines:
        yield from _costs(plan.at_rest, by_month=True)
    else:
        yield "  nothing of its own"


def _running(plan: Plan) -> Iterator[str]:
    yield "\nwhile the training job runs"
    yield from _costs(plan.training)
    yield from _totals(plan)
    yield from _of_gpus(plan)
    yield "\nafter it, one after the other"
    yield from _costs(plan.testing, total=False)
    yield "\naddresses in the training subnet"
    yield f"  {_addresses(plan)}"


def _ending(plan: Plan, plans: Iterable[Plan]) -> Iterator[str]:
    yield ""
    yield from (f"note: {note}" for note in plan.notes)
    bills = [bill for each in plans for bill in (each.at_rest, each.training, each.testing)]
    yield from _sources(bills, plan.room)


def _of_gpus(plan: Plan) -> Iterator[str]:
    room = plan.room
    if isinstance(room, str):
        yield from ("\nmemory of each GPU", f"  {UNKNOWN}: {room}") if room else ()
        return
    here = room.here
    yield f"\nmemory of each GPU at the fullest moment, an estimate, in GiB of {here.gpu.gib}"
    rows = [(what, f"{size / 2**30:.1f}") for what, size in here.need.memory.items()]
    yield from _columns([*rows, ("together", f"{here.need.gib:.1f}")], right=True)
    training = plan.environment.training
    nodes = f"{training.instance_count} node{'s' if training.instance_count > 1 else ''}"
    yield f"\nwhere the training would run, on {nodes} of {here.gpu.count} GPUs"
    steps = f"{here.need.steps:,} steps, " if here.need.steps else ""
    head = ("", "GPU", "GiB", "it needs", "seconds a step", f"{steps}USD")
    yield from _columns([head, *map(_run, room.runs)])
    yield from dict.fromkeys(
        f"  a step on {run.place.instance_type}: {run.place.need.source}"
        for run in room.runs
        if run.place.fits and run.place.need.step_s
    )


def _run(run: Run) -> tuple[str, ...]:
    place, need = run.place, run.place.need
    step = UNKNOWN if need.step_s is None else f"{need.step_s:.2f}"
    is_estimate = run.each is not None and run.each.is_estimate
    usd = UNKNOWN if run.usd is None else _money(run.usd, is_estimate)
    times = (step, usd) if place.fits else ("too small", "")
    return (place.instance_type, place.gpu.gpu, str(place.gpu.gib), f"{need.gib:.1f}", *times)


def _totals(plan: Plan) -> Iterator[str]:
    training, everything = plan.training, plan.while_training
    if training.unknown:
        return
    hours = plan.environment.training.max_runtime_s / 3600
    longest = _money(plan.max_training_usd, training.is_estimate)
    yield f"  at most {longest} USD for one job, which is stopped after {hours:g} h (max_runtime_s)"
    if not everything.unknown:
        yield (
            f"  with what stands at rest: {_money(everything.usd_per_hour, everything.is_estimate)}"
            " USD an hour"
        )


def _costs(bill: Bill, *, by_month: bool = False, total: bool = True) -> Iterator[str]:
    rows = [("", "number", "USD an hour", "USD a month" if by_month else "")]
    rows += [
        (
            line.what,
            str(line.quantity),
            *_prices(line.usd_per_hour, line.each is not None and line.each.is_estimate, by_month),
        )
        for line in bill.lines
    ]
    if total and len(bill.lines) > 1:
        what = "together" if not bill.unknown else f"together, without {', '.join(bill.unknown)}"
        rows.append((what, "", *_prices(bill.usd_per_hour, bill.is_estimate, by_month)))
    yield from _columns(rows)


def _prices(usd_per_hour: float | None, is_estimate: bool, by_month: bool) -> tuple[str, str]:
    if usd_per_hour is None:
        return UNKNOWN, UNKNOWN if by_month else ""
    month = _money(usd_per_hour * HOURS_A_MONTH, is_estimate) if by_month else ""
    return _money(usd_per_hour, is_estimate, places=4 if usd_per_hour < 1 else 2), month


def _money(usd: float, is_estimate: bool, places: int = 2) -> str:
    return f"{'~' if is_estimate else ''}{usd:,.{places}f}"


def _addresses(plan: Plan) -> str:
    usage = f"one job takes {plan.addresses.job}, all else {plan.addresses.others}"
    return (
        usage
        if plan.training_subnet is None
        else f"{usage}, of {plan.usable_addresses} in {plan.training_subnet}"
    )


def _sources(bills: Iterable[Bill], room: Room | str) -> Iterator[str]:
    prices = [line.each for bill in bills for line in bill.lines if line.each]
    if isinstance(room, Room):
        prices += [run.each for run in room.runs if run.each and run.usd is not None]
    if any(price.is_estimate for price in prices):
        yield "~ is not from this region's price list:"
    yield from dict.fromkeys(f"  {price.date}: {price.source}" for price in prices)
    if any(bill.unknown for bill in bills):
        yield (
            f"{UNKNOWN}: packages/shoal/src/shoal/costs/prices.yaml has no price for this region;"
            " see"
            " https://aws.amazon.com/pricing/"
        )


def _columns(rows: Iterable[tuple[str, ...]], *, right: bool = False) -> Iterator[str]:
    """Yield the rows, indented, each column as wide as its widest cell; numbers to the right, which
    two columns are only where `right` says so.
    """
    table = list(rows)
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    for row in table:
        first, *rest = [
            cell.ljust(width) if index == 0 or (len(row) == 2 and not right) else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield f"  {'  '.join([first, *rest])}".rstrip()
