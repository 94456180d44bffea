"""`shoal mcp`: verbs as the tools of an agent."""

from __future__ import annotations

import re

import click

from shoal.cli.answers import group_of_all, verbs
from shoal.errors import ToolMissingError
from shoal.verbs.workspace import Workspace


@click.command()
@click.option(
    "--allow-writes",
    "account",
    metavar="ACCOUNT_ID",
    help="Also offer verbs that change something, for environments of this account.",
)
@click.pass_obj
def mcp(workspace: Workspace, account: str | None) -> None:
    """Answer an agent's calls of verbs, over MCP.

    It speaks on stdin and stdout, changes nothing without --allow-writes, and never approves,
    promotes or destroys.
    """
    if account is not None and not re.fullmatch("[0-9]{12}", account):
        raise click.UsageError(f"{account!r} is not an account id, which has twelve digits")
    try:
        from shoal.cli.agent import server_of
    except ImportError as error:
        raise ToolMissingError(f"{error}; install it: `pip install 'shoal[mcp]'`") from error
    commands = dict(verbs(group_of_all()))
    server_of(workspace, commands, account).run("stdio")
