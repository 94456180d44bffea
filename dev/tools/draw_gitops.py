"""Draws docs/gitops.png: how a trained model becomes a commit, the commit a deployment, and a bad
one is taken back.

.venv/bin/python -m dev.tools.draw_gitops
"""

from __future__ import annotations

from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.patches import Circle

from dev.tools.draw_flow import END, GATE, INK, LINE, OUTPUT, SOURCE, STEP, TARGET, arrow, box

WIDTH, HEIGHT = 14.0, 6.3
BAD = "#e57373"
COMMITS = (
    (1.6, "staging pins release 2", STEP),
    (5.0, "prod pins release 2", STEP),
    (8.4, "prod pins release 3", BAD),
    (11.8, "git revert: prod\npins release 2 again", STEP),
)
"""Where a commit on main lies, what it says, and how it went."""
DEPLOYED = (
    ("staging\nrelease 2 answers", TARGET),
    ("prod, by canary\nreleases 1 and 2 answer side\nby side, then 2 alone", TARGET),
    ("prod, by canary\nrelease 3 fails under load:\nrolled back, 2 answers", GATE),
    ("prod\nrelease 2 answers, no drift", TARGET),
)


def main() -> None:
    """Writes the picture."""
    figure, axes = pyplot.subplots(figsize=(WIDTH, HEIGHT), dpi=130)
    axes.set_xlim(0, WIDTH)
    axes.set_ylim(0, HEIGHT)
    axes.axis("off")
    _dev(axes)
    _git(axes)
    _deployments(axes)
    figure.savefig(
        OUTPUT.with_name("gitops.png"), bbox_inches="tight", pad_inches=0.1, facecolor="white"
    )


def _dev(axes: Axes) -> None:
    """The account in which models are made and judged."""
    box(axes, 0.1, 4.75, 13.7, 1.45, "", "#f7f9fb")
    axes.text(
        0.3, 6.0, "dev: its own account", fontsize=9.5, color=LINE, style="italic", va="center"
    )
    steps = (
        ("shoal run\ntrain, evaluate", SOURCE),
        ("registry\nversion 2, pending", SOURCE),
        ("shoal approve\na person", END),
        (
            (
                "shoal promote: reads and hashes archive, image,\ndefinition, code; refuses what"
                " does not hold"
            ),
            GATE,
        ),
    )
    x = 0.5
    for index, (text, colour) in enumerate(steps):
        width = 4.75 if index == len(steps) - 1 else 2.3
        box(axes, x, 4.95, width, 0.8, text, colour, size=9)
        if index:
            arrow(axes, (x - 0.45, 5.35), (x, 5.35))
        x += width + 0.45


def _git(axes: Axes) -> None:
    """The branch main, on which every change of a release is a merge or a revert."""
    axes.text(0.3, 3.6, "git: main", fontsize=9.5, color=LINE, style="italic", va="center")
    arrow(axes, (0.3, 3.2), (13.8, 3.2))
    for x, text, colour in COMMITS:
        axes.add_patch(
            Circle((x, 3.2), 0.13, facecolor=colour, edgecolor=LINE, linewidth=1.2, zorder=3)
        )
        axes.text(
            x + 0.22, 3.55, text, ha="left", va="center", fontsize=9, color=INK, linespacing=1.3
        )
    for x in (1.6, 5.0, 8.4):
        arrow(axes, (x, 4.75), (x, 3.35))
    axes.text(
        5.2,
        4.25,
        "branch, pull request, review, merge",
        fontsize=9,
        color=LINE,
        style="italic",
        va="center",
    )


def _deployments(axes: Axes) -> None:
    """What each commit deploys: in the account of its environment, from its files alone."""
    for (x, _, _), (text, colour) in zip(COMMITS, DEPLOYED, strict=True):
        arrow(axes, (x, 3.05), (x, 2.15))
        box(axes, x - 1.45, 1.0, 2.95, 1.15, text, colour, size=8.8)
    axes.text(1.8, 2.6, "cdk deploy", fontsize=9, color=LINE, style="italic", va="center")
    box(
        axes,
        0.15,
        0.1,
        13.6,
        0.6,
        "every deployment proves that it took: live package, configuration and the weights' hash as"
        " pinned",
        END,
        size=9,
    )


if __name__ == "__main__":
    main()
