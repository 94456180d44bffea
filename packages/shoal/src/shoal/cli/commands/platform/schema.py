"""`shoal schema`: the declared forms of what verbs print with `--json`."""

from __future__ import annotations

import json

import click

from shoal.cli.answers import answers, group_of_all, schema_of, tell, verbs


@click.command()
@click.argument("verb", metavar="[VERB]...", nargs=-1)
@answers(schemas=dict[str, dict[str, object]])
def schema(verb: tuple[str, ...]) -> None:
    """Print the schemas of what verbs print with --json.

    Of VERB, such as `schedule list`, only that one. A verb that fails prints that of `error`.
    """
    name, schemas = (
        "-".join(verb),
        {"error": schema_of(1, {"error": dict[str, str | int]}, False, "error")},
    )
    for each, command in verbs(group_of_all()):
        if declared := getattr(command.callback, "schema", None):
            schemas[each] = declared(each)
    if name and name not in schemas:
        raise click.UsageError(f"no schema of {name}; there are: {', '.join(schemas)}")
    chosen = {name: schemas[name]} if name else schemas
    tell(json.dumps(chosen, indent=2), schemas=chosen)
