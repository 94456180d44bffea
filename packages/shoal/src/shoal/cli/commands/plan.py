"""`shoal plan`: the stacks of an environment and what they cost, as a table or as JSON, or their
templates. It asks nobody and creates nothing on AWS.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import click

from shoal.cli.answers import answers, columns, tell
from shoal.cli.main import require_own_code
from shoal.cli.options import excluding, flag, name_of, strategy_option
from shoal.cli.view import open_view
from shoal.costs.plan import Bill, Plan, Room, Run, Stack, shared_plan
from shoal.costs.plan import plan as make_plan
from shoal.costs.prices import HOURS_A_MONTH, Price
from shoal.errors import UsageError
from shoal.page.record import json_text
from shoal.pipelines.checks.check import check
from shoal.settings.external_data import Grant, grants
from shoal.settings.key_policy import organisation_key_policy
from shoal.settings.loading.consumers import consumers_of, require_own_names
from shoal.settings.loading.loader import environment_names, load_environment, load_workloads
from shoal.settings.names import Names
from shoal.verbs.flow import phase
from shoal.verbs.permission_sets import JOBS, policy_for
from shoal.verbs.workspace import Workspace

UNKNOWN = "unknown"


@click.command()
@excluding("--templates", "WORKLOAD --permissions")
@click.argument("environment", metavar="[ENV]", required=False, callback=name_of)
@click.argument("workload", metavar="[WORKLOAD]", required=False)
@strategy_option
@flag(
    "--templates",
    help="Only write the CloudFormation templates, without ENV of all environments, to cdk.out.",
)
@click.option(
    "--permissions",
    "job",
    type=click.Choice(JOBS),
    help="Print only the policy of people who do this: see `shoal docs how-to/people`.",
)
@click.pass_obj
@answers(
    environment=str | None,
    region=str | None,
    stacks=list[Stack],
    notes=list[str],
    workloads=dict[str, dict[str, Any]],
    at_rest=dict[str, Any] | None,
    training=dict[str, Any] | None,
    gpu_memory=dict[str, Any] | None,
    testing=dict[str, Any] | None,
    training_subnet=dict[str, Any] | None,
    grants=list[Grant],
    key_policy=list[dict[str, Any]],
    permissions=dict[str, Any] | None,
    assembly=str | None,
)
def plan(
    workspace: Workspace,
    environment: str | None,
    workload: str | None,
    strategy: str | None,
    templates: bool,
    job: str | None,
) -> None:
    """Show what ENV would consist of and cost; nothing is created.

    Costs are those at rest and per hour of training.
    """
    root = workspace.root
    if templates:
        _write_templates(workspace, environment, strategy)
        return
    if environment is None:
        raise UsageError("which ENV? only --templates takes all of them")
    views = (
        load_workloads(environment, root, strategy)
        if workload is None
        else (load_environment(environment, root, strategy, workload),)
    )
    if job is not None:
        policy = policy_for(job, [*map(Names, views)])
        tell(json_text(policy, indent=2), environment=environment, permissions=policy)
        return
    plans = [
        make_plan(view, check(view, root=root, strategy=strategy).notices, root) for view in views
    ]
    whole, facts = plans[0], _facts_of_workload(plans[0])
    if workload is None and views[0].workloads:
        whole = shared_plan(plans)
        of_each = {plan.environment.workload: _facts_of_workload(plan) for plan in plans}
        facts = {"workloads": of_each}
    tell("\n".join(_text(plans, whole)), **_facts(whole), **facts)
    if key := views[0].organisation.kms_key_arn:
        consumers = consumers_of(views[0], root)
        statements = organisation_key_policy(Names(views[0]), consumers)
        text = f"\nfor the owner of {key} to add to its policy\n"
        tell(text + json.dumps(statements, indent=2), key_policy=statements)
    for grant in grants(views):
        tell("\n".join(_grant(grant)), grants=[grant])


def _write_templates(workspace: Workspace, name: str | None, strategy: str | None) -> None:
    require_own_code(workspace.root)
    names = [name] if name else environment_names(workspace.root)
    views = [view for each in names for view in load_workloads(each, workspace.root, strategy)]
    require_own_names(views)
    for settings in views:
        check(settings, root=workspace.root, strategy=strategy)
    assembly, folder = workspace.root / "cdk.out", workspace.root / ".shoal" / "cdk"
    with open_view() as view, phase("synth", view):
        cdk = workspace.cdk(assembly, folder, folder / "tmp", view)
        cdk.synth(name, strategy, for_aws=True)
    tell(f"written: {assembly}", assembly=assembly)


def _facts(plan: Plan) -> dict[str, Any]:
    """Return what is there, also while nothing trains; an unknown price is null."""
    usd_per_month = round(plan.at_rest.usd_per_hour * HOURS_A_MONTH, 2)
    return {
        "environment": plan.environment.name,
        "region": plan.environment.region,
        "stacks": plan.stacks,
        "at_rest": {**_bill(plan.at_rest), "usd_per_month": usd_per_month},
        "notes": plan.notes,
    }


def _facts_of_workload(plan: Plan) -> dict[str, Any]:
    return {
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
    }


def _bill(bill: Bill) -> dict[str, Any]:
    return {
        "lines": [
            {
                "what": line.what,
                "quantity": line.quantity,
                "usd_per_hour": _rounded(line.usd_per_hour, 6),
                "price": _price(line.each),
            }
            for line in bill.lines
        ],
        "usd_per_hour": round(bill.usd_per_hour, 4),
        "is_estimate": bill.is_estimate,
        "unknown": list(bill.unknown),
    }


def _rounded(usd: float | None, places: int) -> float | None:
    return None if usd is None else round(usd, places)


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
                "instance_count": run.place.nodes,
                "gpu": run.place.gpu.gpu,
                "gib": run.place.gpu.gib,
                "fits": run.place.fits,
                "step_s": run.place.need.step_s,
                "source": run.place.need.source,
                "usd": _rounded(run.usd, 4),
                "price": _price(run.each),
            }
            for run in room.runs
        ],
    }


def _text(plans: Sequence[Plan], whole: Plan) -> Iterator[str]:
    """Yield the lines of plans; `whole` is what workloads share, or the only plan."""
    is_shared = whole is not plans[0]
    title = whole.environment.name if is_shared else whole.environment.title
    yield f"{title} in {whole.environment.region}; nothing is created by this command"
    yield "\nstacks, in this order"
    yield from columns([(stack.name, stack.holds) for stack in whole.stacks], indent="  ")
    yield "\nat rest, for as long as the stacks exist"
    if whole.at_rest.lines:
        yield from _costs(whole.at_rest, by_month=True)
    else:
        yield "  nothing of its own"
    for plan in plans:
        if is_shared:
            yield f"\nworkload {plan.environment.workload}"
        yield from _running(replace(plan, at_rest=whole.at_rest))
    yield ""
    yield from (f"note: {note}" for note in whole.notes)
    yield from _sources((whole, *plans), whole.room)


def _running(plan: Plan) -> Iterator[str]:
    yield "\nwhile the training job runs"
    yield from _costs(plan.training)
    yield from _totals(plan)
    yield from _of_gpus(plan)
    yield "\nafter it, one after the other"
    yield from _costs(plan.testing, total=False)
    yield "\naddresses in the training subnet"
    usage = f"one job takes {plan.addresses.job}, all else {plan.addresses.others}"
    subnet = plan.training_subnet
    yield f"  {usage}, of {plan.usable_addresses} in {subnet}" if subnet else f"  {usage}"


def _of_gpus(plan: Plan) -> Iterator[str]:
    room = plan.room
    if isinstance(room, str):
        yield from ("\nmemory of each GPU", f"  {UNKNOWN}: {room}") if room else ()
        return
    here = room.here
    yield f"\nmemory of each GPU at the fullest moment, an estimate, in GiB of {here.gpu.gib}"
    rows = [(what, f"{size / 2**30:.1f}") for what, size in here.need.memory.items()]
    rows.append(("together", f"{here.need.gib:.1f}"))
    yield from columns(rows, indent="  ", right=True)
    yield f"\nwhere the training would run, on nodes of {here.gpu.count} GPUs"
    steps = f"{here.need.steps:,} steps, " if here.need.steps else ""
    head = ("", "nodes", "GPU", "GiB", "it needs", "seconds a step", f"{steps}USD")
    yield from columns([head, *map(_run, room.runs)], indent="  ", right=True)
    yield from dict.fromkeys(
        f"  a step on {run.place.instance_type}: {run.place.need.source}"
        for run in room.runs
        if run.place.fits and run.place.need.step_s
    )


def _run(run: Run) -> tuple[str, ...]:
    place, need = run.place, run.place.need
    step = UNKNOWN if need.step_s is None else f"{need.step_s:.2f}"
    times = (step, _money(run.usd, run.each)) if place.fits else ("too small", "")
    kind = (place.instance_type, str(place.nodes), place.gpu.gpu, str(place.gpu.gib))
    return (*kind, f"{need.gib:.1f}", *times)


def _totals(plan: Plan) -> Iterator[str]:
    training, everything = plan.training, plan.while_training
    if training.unknown:
        return
    hours = plan.environment.training.max_runtime_s / 3600
    max_usd = _money(plan.max_training_usd, training)
    yield f"  at most {max_usd} USD for one job, which is stopped after {hours:g} h (max_runtime_s)"
    if not everything.unknown:
        usd = _money(everything.usd_per_hour, everything)
        yield f"  with what stands at rest: {usd} USD an hour"


def _costs(bill: Bill, *, by_month: bool = False, total: bool = True) -> Iterator[str]:
    rows = [("", "number", "USD an hour", "USD a month" if by_month else "")]
    for line in bill.lines:
        prices = _prices(line.usd_per_hour, line.each, by_month)
        rows.append((line.what, str(line.quantity), *prices))
    if total and len(bill.lines) > 1:
        what = "together" if not bill.unknown else f"together, without {', '.join(bill.unknown)}"
        rows.append((what, "", *_prices(bill.usd_per_hour, bill, by_month)))
    yield from columns(rows, indent="  ", right=True)


def _prices(usd_per_hour: float | None, of: Bill | Price | None, by_month: bool) -> tuple[str, str]:
    places = 4 if usd_per_hour is not None and usd_per_hour < 1 else 2
    usd_per_month = None if usd_per_hour is None else usd_per_hour * HOURS_A_MONTH
    month = _money(usd_per_month, of) if by_month else ""
    return _money(usd_per_hour, of, places), month


def _money(usd: float | None, of: Bill | Price | None, places: int = 2) -> str:
    """Return an amount, with a mark where the price that it is computed of is an estimate."""
    if usd is None:
        return UNKNOWN
    return f"{'~' if of and of.is_estimate else ''}{usd:,.{places}f}"


def _grant(grant: Grant) -> Iterator[str]:
    """Yield what the owner of a bucket adds to its policy, and to those of keys."""
    owner = f"\nfor account {grant.account} to add to the policy of its"
    yield f"{owner} bucket {grant.bucket}"
    yield json.dumps(grant.bucket_policy["Statement"], indent=2)
    for key, policy in grant.key_policies.items():
        yield f"\nand to the policy of the key {key}"
        yield json.dumps(policy["Statement"], indent=2)


def _sources(plans: Iterable[Plan], room: Room | str) -> Iterator[str]:
    bills = [bill for each in plans for bill in (each.at_rest, each.training, each.testing)]
    prices = [line.each for bill in bills for line in bill.lines if line.each]
    if isinstance(room, Room):
        prices += [run.each for run in room.runs if run.each and run.usd is not None]
    if any(price.is_estimate for price in prices):
        yield "~ is not from this region's price list:"
    yield from dict.fromkeys(f"  {price.date}: {price.source}" for price in prices)
    if any(bill.unknown for bill in bills):
        yield (
            f"{UNKNOWN}: Shoal's costs/prices.yaml has no price for this region;"
            " see https://aws.amazon.com/pricing/"
        )
