"""The page of the pictures, each with the table that says the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dev.tools.pictures import network, roles, stacks
from dev.tools.pictures.deployment import Deployment
from dev.tools.pictures.mermaid import Chart, drawn
from tests.identity.templates import Templates


def stacks_page(standard: Templates, everything: Templates, note: str) -> str:
    """Return the page of an environment, and of the same one with everything that is optional;
    `note` says who writes it.
    """
    usual, whole = Deployment(standard), Deployment(everything)

    def picture(chart: Callable[[Deployment], Chart]) -> str:
        return drawn(chart(usual), chart(whole))

    in_usual, in_whole = stacks.chart(usual, whole), stacks.chart(whole, whole)
    parts = [
        "# Stacks, network and roles",
        note,
        "Drawn from the templates of an environment with one workload. Solid is what every"
        " environment has, dashed what a key of its file adds.",
        "## What is in which stack",
        "An arrow leads to the stack that is deployed before; what follows from other arrows is"
        " left out. What options add to a stack stands in brackets. Policies, log groups and the"
        " like are in the sum only.",
        drawn(in_usual, in_whole),
        _table(
            ("stack", "there with", "resources"),
            (
                (f"`{name}`", _KEYS.get(name, "every environment"), ", ".join(node.lines[1:]))
                for name, node in (in_whole.nodes | in_usual.nodes).items()
            ),
        ),
        "Where an environment has several workloads, each has its own `image`, `pipeline`,"
        " `monitoring` and `serving`. The stacks `delivery` and `release-pipeline` are one for each"
        " account, not for each environment: [gitops.md](../gitops.md).",
        "## Network: places and routes",
        "Training has one subnet in one zone, because EFA cannot leave a zone. A way to the"
        " internet exists with `network.nat` only.",
        picture(network.places),
        "## Network: who may connect to whom",
        "A box is a security group. An arrow means that both ends have a rule for the connection;"
        " behind `any address` lies S3's gateway endpoint, and the internet with `network.nat`.",
        picture(network.connections),
        "## Roles of a pipeline",
        "Each role trusts one service, and only on behalf of this account. Below its name stand the"
        " services that it may call. The role `pipeline` hands the jobs their roles; it may hand"
        " over no other.",
        picture(roles.trust),
        "## All roles",
        _table(
            ("role", "stack", "assumed by", "what it is for", "may call"),
            (
                (f"`{role.name}`", f"`{role.stack}`", role.principal, *_use(role))
                for role in roles.roles(whole)
            ),
        ),
        "Conditions, and what each role is refused: [identity.md](../identity.md).",
        "## Who reads and writes which objects",
        "Arrows follow the data: from a prefix to the role that reads it, from a role to the prefix"
        " that it writes. Left out are the CDK's bucket with the code, and other environments'"
        " buckets.",
        picture(roles.objects),
    ]
    return "\n\n".join(parts) + "\n"


_KEYS = {
    "file-system": "`file_system`",
    "image": "`training.build_image`",
    "serving": "`serving` and a `release`",
}


def _use(role: roles.Role) -> tuple[str, str]:
    return role.description, ", ".join(role.services)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = (head, tuple("---" for _ in head), *rows)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
