"""`shoal docs`: the pages of this version, which its wheel packs."""

from __future__ import annotations

import click

from shoal.cli.answers import answers, tell
from shoal.top_level import TOP_LEVEL


@click.command()
@click.argument("page", metavar="[PAGE]", required=False)
@answers(pages=list[str], text=str)
def docs(page: str | None) -> None:
    """Print PAGE of the documentation, or the names of all pages."""
    folder = TOP_LEVEL / "docs"
    files = {
        file.relative_to(folder).with_suffix("").as_posix(): file for file in folder.rglob("*.md")
    }
    if page is None:
        for name in sorted(files):
            title = files[name].read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")
            tell(f"{name:40} {title}", pages=[name])
        return
    name = page.removeprefix("docs/").removesuffix(".md")
    if name not in files:
        raise click.UsageError(f"there is no page {page}; `shoal docs` lists all")
    text = files[name].read_text(encoding="utf-8")
    tell(text.rstrip(), text=text)
