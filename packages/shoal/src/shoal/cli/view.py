"""Choose how events look: live on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys

from rich.console import Console

from shoal.cli.live_view import LiveView
from shoal.cli.plain_view import PlainView


def open_view() -> LiveView | PlainView:
    """Return a context manager that takes events."""
    console = Console()
    return (
        LiveView(console)
        if console.is_terminal and not console.is_dumb_terminal
        else PlainView(sys.stdout)
    )
