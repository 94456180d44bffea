"""`shoal chain`: the environments in the order in which they are deployed."""

from __future__ import annotations

import click

from shoal.cli.answers import answers, tell
from shoal.verbs.promote import chain as of
from shoal.verbs.workspace import Workspace


@click.command()
@click.option("--github", "host", flag_value="github", help="Print .github/workflows/deploy.yml.")
@click.option("--gitlab", "host", flag_value="gitlab", help="Print a child pipeline of GitLab's.")
@click.pass_obj
@answers(environments=list[dict[str, str]], workflow=str)
def chain(workspace: Workspace, host: str | None) -> None:
    """Print the environments, each after the one that it takes releases from."""
    links = of.chain(workspace.root)
    tell(environments=[link.facts for link in links])
    if host:
        text = of.workflow(links, host)
        tell(text.rstrip(), workflow=text)
        return
    for link in links:
        after = f"after {link.after}" if link.after else "first"
        tell(f"{link.environment:16} account {link.account}, {link.region}, {after}")
