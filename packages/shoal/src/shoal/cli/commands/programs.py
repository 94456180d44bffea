"""`shoal docs | mcp`: the pages of this version, which its wheel packs, and the declared forms of
what verbs print with `--json`; verbs as the tools of an agent.
"""

import json
import re
from typing import Any

import click

from shoal.cli.answers import answers, group_of_all, schema_of, tell, verbs
from shoal.errors import ToolMissingError
from shoal.top_level import TOP_LEVEL
from shoal.verbs.workspace import Workspace

_SCHEMAS = "schemas"


@click.command()
@click.argument("page", metavar="[PAGE]", required=False)
@answers(pages=list[str], text=str | None, schemas=dict[str, dict[str, Any]])
def docs(page: str | None) -> None:
    """Print PAGE of the documentation, or the names of all pages.

    `schemas` are the JSON schemas of what verbs print with --json; one that fails prints `error`.
    """
    folder = TOP_LEVEL / "docs"
    files = {
        file.relative_to(folder).with_suffix("").as_posix(): file for file in folder.rglob("*.md")
    }
    if page is None:
        for name in sorted(files):
            title = files[name].read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")
            tell(f"{name:40} {title}", pages=[name])
        tell(f"{_SCHEMAS:40} What verbs print with --json", pages=[_SCHEMAS])
        return
    if page == _SCHEMAS:
        schemas = {
            name: command.callback.schema(name)  # type: ignore[union-attr]
            for name, command in verbs(group_of_all())
            if hasattr(command.callback, "schema")
        }
        schemas["error"] = schema_of({"error": dict[str, str | int]}, False, "error")
        text = json.dumps(schemas, indent=2)
        tell(text, text=text, schemas=schemas)
        return
    name = page.removeprefix("docs/").removesuffix(".md")
    if name not in files:
        raise click.UsageError(f"there is no page {page}; `shoal docs` lists all")
    text = files[name].read_text(encoding="utf-8")
    tell(text.rstrip(), text=text)


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
