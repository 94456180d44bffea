"""The pages of an environment's runs, live, on this machine only.

Only who has the address, in which a secret stands, gets an answer, and only under the name or
number of the loopback: a page elsewhere that has its name point here gets none.
"""

from __future__ import annotations

import html
import json
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from shoal.verbs.errors import AWS_ERRORS, ShoalError, refusal
from shoal.verbs.logs import LogCopy
from shoal.verbs.runs import history
from shoal.verbs.runs.history import is_over
from shoal.verbs.runs.page import live_page, page_of_text
from shoal.verbs.runs.place import Place
from shoal.verbs.runs.record import json_text
from shoal.verbs.workspace import Session

LISTED = 50
"""Runs of each workload in the list."""
REMEMBERED_S = 30.0
"""How long an ended run stays as it was read: an approval, a later cleanup or a call that was
refused may change it.
"""
Record = Mapping[str, Any]


class Pages(ThreadingHTTPServer):
    """Serves the list of runs at `address`, and each run's page below it."""

    daemon_threads = True

    def __init__(self, session: Session, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.sessions = {each.environment.workload: each for each in session.each}
        self.title = session.title
        self.secret = secrets.token_urlsafe(24)
        self._ended: dict[tuple[str, bool], tuple[float, Record]] = {}
        self._logs: dict[str, LogCopy] = {}

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/{self.secret}/"

    def record(self, place: Place, arn: str, *, with_logs: bool = True) -> Record:
        """Return a run; one that has ended and left nothing is not read again for a while."""
        until, found = self._ended.get((arn, with_logs), (0.0, {}))
        if time.monotonic() < until:
            return found
        if with_logs:
            found = history.whole(place, arn, self._logs.setdefault(arn, LogCopy()))
        else:
            found = history.brief(place, arn)
        if is_over(found):
            self._logs.pop(arn, None)
            self._ended[arn, with_logs] = (time.monotonic() + REMEMBERED_S, found)
        return found

    def page_of(self, session: Session, arn: str) -> Record:
        """Return a run with those that it is compared with."""
        return history.with_others(session.place, arn, self.record)

    def rows(self) -> Iterator[tuple[str, str, dict[str, Any] | str]]:
        """Yield workload, id and row of each of the newest runs: why, if one cannot be read."""
        for workload, session in self.sessions.items():
            for each in session.pipeline.executions()[:LISTED]:
                arn = str(each["PipelineExecutionArn"])
                row: dict[str, Any] | str
                try:
                    row = history.row_of(self.record(session.place, arn, with_logs=False))
                except (ShoalError, *AWS_ERRORS) as error:
                    row = refusal(error)
                yield workload, arn.rpartition("/")[2], row

    def address_of(self, workload: str, run: str) -> str:
        """Return the address of a run's page."""
        return f"{self.address}{workload}/{run}/"


class _Handler(BaseHTTPRequestHandler):
    server: Pages

    def do_GET(self) -> None:
        with suppress(ConnectionError):  # nobody waits for the answer any more
            self._get()

    def _get(self) -> None:
        hosts = {f"{name}:{self.server.server_port}" for name in ("127.0.0.1", "localhost")}
        secret, _, rest = self.path.removeprefix("/").partition("/")
        known = secrets.compare_digest(secret.encode(), self.server.secret.encode())
        if self.headers.get("Host") not in hosts or not known:
            self._answer("unknown address: take the one that the command printed", status=404)
            return
        workload, _, rest = rest.partition("/")
        run, _, part = rest.partition("/")
        try:
            self._show(workload, run, part)
        except (ShoalError, *AWS_ERRORS) as error:
            self._answer(refusal(error), status=502)

    def _show(self, workload: str, run: str, part: str) -> None:
        session = self.server.sessions.get(workload)
        if not workload:
            self._answer(_list(self.server), "text/html")
        elif session is None or part not in ("", "events"):
            self._answer("there is no such page", status=404)
        elif part:
            self._send_events(session, session.pipeline.find(run))
        else:
            found = self.server.page_of(session, session.pipeline.find(run))
            self._answer(live_page(found, session.workspace.root), "text/html")

    def _send_events(self, session: Session, arn: str) -> None:
        """Send the run each time that it has changed, until it has ended and left nothing, or
        nobody listens. A refused call is told, and made again.
        """
        self.send_response(HTTPStatus.OK)
        self._send_headers("text/event-stream")
        last, over = "", False
        while not over:
            said = ": still there"
            try:
                found = self.server.page_of(session, arn)
                text = json_text({**found, "observed_at": None})
                if text != last:
                    last, said = text, f"data: {json_text(found)}"
                if is_over(found):
                    over, said = True, f"{said}\n\nevent: ended\ndata: "
            except (ShoalError, *AWS_ERRORS) as error:
                last, said = "", f"event: refused\ndata: {json.dumps(refusal(error))}"
            self.wfile.write(f"{said}\n\n".encode())
            if not over:
                time.sleep(session.poll_s)

    def _answer(self, text: str, kind: str = "text/plain", status: int = 200) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self._send_headers(kind)
        self.wfile.write(body)

    def _send_headers(self, kind: str) -> None:
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        for name, value in (
            ("Cache-Control", "no-store"),
            ("Referrer-Policy", "no-referrer"),
            ("X-Content-Type-Options", "nosniff"),
            ("X-Frame-Options", "DENY"),
        ):
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Print nothing: the terminal is the command's."""


_HEADS = (
    "run",
    "workload",
    "status",
    "started (UTC)",
    "took",
    "measured",
    "gate",
    "commit",
    "cost",
    "parameters that differ",
)


def _list(pages: Pages) -> str:
    listed = list(pages.rows())
    parameters = {
        workload: history.differing_parameters(
            [row for name, _, row in listed if name == workload and not isinstance(row, str)]
        )
        for workload in pages.sessions
    }
    rows = "".join(
        f'<tr><td><a href="{workload}/{run}/">{html.escape(run)}</a></td>'
        f"<td>{html.escape(workload)}</td>{_cells(row, parameters[workload])}</tr>"
        for workload, run, row in listed
    )
    head = "".join(f"<th>{name}</th>" for name in _HEADS)
    return page_of_text(
        f"Runs of {pages.title}",
        f"<h1>Runs of {html.escape(pages.title)}</h1><div class='scroll'><table>"
        f"<thead><tr>{head}</tr></thead>"
        f"<tbody>{rows}</tbody></table></div>" + ("" if rows else "<p>no runs yet</p>"),
    )


def _cells(row: dict[str, Any] | str, parameters: Mapping[str, Mapping[str, str]]) -> str:
    if isinstance(row, str):
        return f"<td colspan={len(_HEADS) - 2}>{html.escape(row)}</td>"
    values = {name: of_runs[row["run"]] for name, of_runs in parameters.items()}
    differing = ", ".join(f"{name} {value}" for name, value in values.items() if value)
    return (
        f"<td>{row['status']}</td><td>{row['started_at'][:16].replace('T', ' ')}</td>"
        f"<td>{row['seconds']:,.0f} s</td><td>{_metrics(row['metrics'])}</td>"
        f"<td>{history.gate_of(row)}</td><td>{history.short(row['commit'])}</td>"
        f"<td>{_money(row['usd'])}</td><td>{html.escape(differing)}</td>"
    )


def _metrics(values: Mapping[str, float | None]) -> str:
    return html.escape(
        ", ".join(f"{name} {value:.5g}" for name, value in values.items() if value is not None)
    )


def _money(usd: float | None) -> str:
    return "unknown" if usd is None else f"${usd:,.4f}"
