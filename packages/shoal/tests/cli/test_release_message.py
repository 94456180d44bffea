"""The text of a promotion's commit and pull request."""

from __future__ import annotations

from shoal.cli.commands.models.promote import message_of
from tests.settings.releases import CONTENT, RELEASE


def test_text_from_outside_makes_no_line_column_mention_or_tag() -> None:
    metrics = {"a\n\n[skip ci] | <b> @ada": 1.0}
    release = type(RELEASE)(**CONTENT | {"metrics": metrics})
    plain = message_of(RELEASE, "dev", "staging")
    message = message_of(release, "dev", "staging")
    assert len(message.splitlines()) == len(plain.splitlines())
    assert "| evaluation | a\\n\\n[skip ci] \\| &lt;b> @\u200bada 1 |" in message
