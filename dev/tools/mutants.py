"""Measure which share of a fixed sample of mutants the tests kill, before and after a change.

    V=/tmp/mutmut-venv; python3 -m venv $V; $V/bin/pip install mutmut==3.8.1
    $V/bin/python dev/tools/mutants.py draw TREE dev/mutants.jsonl  # once
    TREE/.venv/bin/pip install coverage==7.17.5
    TREE/.venv/bin/python dev/tools/mutants.py run TREE RESULTS.jsonl [--sample dev/mutants.jsonl]
    python3 dev/tools/mutants.py report BEFORE.jsonl [AFTER.jsonl]

TREE is a checkout of its own: `run` writes one mutant after the other into it. `run` can be stopped
at any time; started again with the same file, it goes on behind the last line.

draw    Each of the rooms gets mutants in proportion to its lines. Within a room: a file by its
        lines, a kind of node (call, comparison, string ...), one of its mutations that changes one
        line of a function. mutmut's operators, without annotations and decorators.
run     First, each file of tests runs alone under coverage.py, with the processes that it starts,
        which says which mutants' lines it reaches and how long it takes (RESULTS.jsonl.map). Code
        that jobs' own interpreters run does not count. Then, for each mutant, pytest -x runs the
        files that reach it, cheapest first, as many as fit into 60 s and one at least. The limit is
        60 s plus three times what they took. Tests without a network but loopback; without those of
        `nightly` and `registry`.
found   again: a mutant is its function's qualified name and its line, so that files may move and be
        renamed. `gone`: no such function; `changed`: the function no longer has that line.
results killed, timeout (counts as killed), survived, uncovered (no test reaches it), gone, changed.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOMS = (
    "config",
    "images",
    "pipelines",
    "shoal",
    "stacks",
    "packages/shoal-local/src/shoal_local",
    "packages",
)
"""Where product and shoal-local have their code, today and once it is in packages/."""
EXCLUDED = ("tests", "templates", "template", "stand_ins", "stand-ins")
COUNT, SEED = 400, 20261127
BUDGET_S = 60.0
KILLED = ("killed", "timeout")
Mutant = dict[str, Any]


class Place(NamedTuple):
    """Where a mutant is in a tree; `line` counts from 0."""

    file: str
    line: int


def main() -> None:
    """Run one of the three verbs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    draw_verb, run_verb = verbs.add_parser("draw"), verbs.add_parser("run")
    for verb in (draw_verb, run_verb):
        verb.add_argument("tree", type=Path)
        verb.add_argument("file", type=Path)
    run_verb.add_argument(
        "--sample", type=Path, default=Path(__file__).parents[1] / "mutants.jsonl"
    )
    report_verb = verbs.add_parser("report")
    report_verb.add_argument("results", type=Path, nargs="+")
    options = parser.parse_args()
    if options.verb == "draw":
        sample = draw(options.tree.resolve())
        options.file.write_text("".join(json.dumps(each) + "\n" for each in sample))
    elif options.verb == "run":
        run(options.tree.resolve(), read(options.sample), options.file.resolve())
    else:
        report([read(path) for path in options.results])


def read(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a JSONL file; none where it does not exist."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def sources(tree: Path, pattern: str = "*.py") -> list[str]:
    """Return the product's and shoal-local's Python files, relative to the tree."""
    command = ["git", "-C", str(tree), "ls-files", *(f"{room}/{pattern}" for room in ROOMS)]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [name for name in listed.splitlines() if not set(EXCLUDED) & set(Path(name).parts)]


def room_of(file: str) -> str:
    """Return the folder that stands for a room: two levels, below shoal_local's `src` four."""
    parts = Path(file).parts[:-1]
    return "/".join(parts[: 4 if parts[0] == "local" else 2])


def functions(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield the qualified name, first and last line (from 0) of each function, outer ones first."""

    def walk(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, int, int]]:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                name = f"{prefix}{node.name}"
                if not isinstance(node, ast.ClassDef):
                    yield name, node.lineno - 1, (node.end_lineno or node.lineno) - 1
                yield from walk(node.body, f"{name}.")

    yield from walk(ast.parse(text).body, "")


def draw(tree: Path) -> list[Mutant]:
    """Return the seeded sample of a tree, in the order of its files."""
    choose = random.Random(SEED)  # noqa: S311 (a sample, no secret)
    lines = {name: len((tree / name).read_text().splitlines()) for name in sources(tree)}
    rooms = Counter[str]()
    for name, count in lines.items():
        rooms[room_of(name)] += count
    exact = {room: COUNT * count / rooms.total() for room, count in rooms.items()}
    shares = {room: int(share) for room, share in exact.items()}
    by_rest = sorted(exact, key=lambda room: exact[room] - shares[room], reverse=True)
    for room in by_rest[: COUNT - sum(shares.values())]:  # largest remainder
        shares[room] += 1
    drawn: dict[tuple[str, ...], Mutant] = {}
    for room, share in shares.items():
        files = [name for name in lines if room_of(name) == room]
        before, tries = len(drawn), 0
        while len(drawn) < before + share and (tries := tries + 1) < 100 * (share + 1):
            (name,) = choose.choices(files, [lines[each] for each in files])
            if mutant := _mutant(name, (tree / name).read_text(), choose):
                key = (name, mutant["function"], mutant["before"], mutant["after"])
                drawn.setdefault(key, mutant)
    ordered = sorted(drawn.values(), key=lambda each: (each["file"], each["before"]))
    return [{"id": number, **mutant} for number, mutant in enumerate(ordered)]


def _mutant(name: str, text: str, choose: random.Random) -> Mutant | None:
    """Return a random mutant of a file, or none if that one changes more than a function's line."""
    from mutmut.mutation.file_mutation import create_mutations  # not installed where mutants run

    module, mutations, _, _ = create_mutations(name, text)
    kinds = sorted({type(each.original_node).__name__ for each in mutations})
    if not kinds:
        return None
    kind = choose.choice(kinds)
    mutation = choose.choice([e for e in mutations if type(e.original_node).__name__ == kind])
    changed = module.deep_replace(mutation.original_node, mutation.mutated_node).code
    old, new = text.splitlines(), changed.splitlines()
    places = [i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b]
    if len(old) != len(new) or len(places) != 1:
        return None
    (line,) = places
    inside = [each for each in functions(text) if each[1] < line <= each[2]]
    if not inside or old[line].lstrip() == old[line]:
        return None
    function, first, _ = inside[-1]
    same = sum(each.strip() == old[line].strip() for each in old[first:line])
    return {
        "file": name,
        "function": function,
        "before": old[line].strip(),
        "after": new[line].strip(),
        "nth": same,
        "operator": kind,
    }


def locate(tree: Path, sample: list[Mutant]) -> dict[int, Place | str]:
    """Return each mutant's place by its id, or `gone` or `changed`."""
    wanted = {mutant["function"] for mutant in sample}
    bodies: dict[str, list[tuple[str, int, list[str]]]] = {}
    for name in sources(tree):
        text = (tree / name).read_text()
        for function, first, last in functions(text):
            if function in wanted:
                body = [line.strip() for line in text.splitlines()[first : last + 1]]
                bodies.setdefault(function, []).append((name, first, body))
    return {mutant["id"]: _place(mutant, bodies.get(mutant["function"], [])) for mutant in sample}


def _place(mutant: Mutant, bodies: list[tuple[str, int, list[str]]]) -> Place | str:
    def likeness(body: tuple[str, int, list[str]]) -> float:
        return difflib.SequenceMatcher(None, body[0], mutant["file"]).ratio()

    having = [body for body in bodies if body[2].count(mutant["before"]) > mutant["nth"]]
    if not having:
        return "changed" if bodies else "gone"
    name, first, lines = max(having, key=likeness)
    indices = [i for i, line in enumerate(lines) if line == mutant["before"]]
    return Place(name, first + indices[mutant["nth"]])


class Tree:
    """A checkout whose tests run for one mutant after the other."""

    def __init__(self, root: Path) -> None:
        self.root, self.python = root, str(root / ".venv" / "bin" / "python")
        pure = "import sysconfig; print(sysconfig.get_path('purelib'))"
        found = subprocess.run(
            [self.python, "-c", pure], check=True, capture_output=True, text=True
        )
        self.hook = Path(found.stdout.strip()) / "a0_mutants.pth"  # before coverage.py's own

    def tests(self) -> list[str]:
        """Return the files of tests; those of dev are about other things."""
        command = ["git", "-C", str(self.root), "ls-files", "*/test_*.py"]
        listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        return [
            name for name in listed.splitlines() if not name.startswith("packages/shoal/tests/dev/")
        ]

    def pytest(self, files: list[str], limit_s: float, prefix: list[str]) -> tuple[int, float, str]:
        """Run tests until the first fails; return exit code (-1 out of time), seconds and output.

        In namespaces of their own, whose processes all end with the first.
        """
        own = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", self.python]
        own.append(str(Path(__file__).with_name("loopback.py")))
        marks = ["-x", "-p", "no:cacheprovider", "-m", "not nightly and not registry"]
        started_at = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="mutant-", ignore_cleanup_errors=True) as folder:
            variables = os.environ | {"TMPDIR": folder, "PYTHONDONTWRITEBYTECODE": "1"}
            with (Path(folder) / "output").open("w+") as output:
                process = subprocess.Popen(
                    [*own, self.python, *prefix, "-m", "pytest", *marks, *files],
                    cwd=self.root,
                    env=variables,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                )
                try:
                    code = process.wait(limit_s)
                except subprocess.TimeoutExpired:
                    code = -1
                finally:
                    process.kill()
                    process.wait()
                output.seek(0)
                return code, time.monotonic() - started_at, output.read()

    def coverage_of(self, test: str, places: dict[int, Place]) -> dict[str, Any]:
        """Return which mutants a file of tests reaches, how long it takes, and its exit code."""
        import coverage

        with tempfile.TemporaryDirectory(prefix="mutants-map-") as folder:
            settings, data = Path(folder) / "rc", Path(folder) / "data"
            files = "".join(f"\n  {self.root / p.file}" for p in set(places.values()))
            settings.write_text(
                f"[run]\nparallel = true\nsigterm = true\ndata_file = {data}\ninclude = {files}\n"
            )
            # A line of its own in site-packages: programs start each other with a clean environment
            start = f"os.environ.setdefault('COVERAGE_PROCESS_START', {str(settings)!r})"
            self.hook.write_text(
                f"import os; {start}; import coverage; coverage.process_startup()\n"
            )
            try:
                code, seconds, output = self.pytest([test], 1800, [])
            finally:
                self.hook.unlink()
            measured = coverage.Coverage(data_file=str(data), config_file=str(settings))
            measured.combine([folder], strict=False)
            lines = {
                p.file: set(measured.get_data().lines(str(self.root / p.file)) or ())
                for p in places.values()
            }
        reached = [i for i, place in places.items() if place.line + 1 in lines[place.file]]
        return {
            "test": test,
            "s": round(seconds, 1),
            "code": code,
            "mutants": reached,
            "last": "" if code in (0, 5) else output.strip().splitlines()[-1:],
        }

    def result_of(self, mutant: Mutant, place: Place, tests: list[tuple[float, str]]) -> Mutant:
        """Return what the tests that reach a mutant, with their seconds, say about it."""
        if not tests:
            return {"result": "uncovered"}
        chosen: list[str] = []
        total_s = 0.0
        for seconds, test in sorted(tests):
            if chosen and total_s + seconds > BUDGET_S:
                break
            chosen.append(test)
            total_s += seconds
        path = self.root / place.file
        original, stat = path.read_text(), path.stat()
        lines = original.splitlines(keepends=True)
        lines[place.line] = lines[place.line].replace(mutant["before"], mutant["after"])
        try:
            path.write_text("".join(lines))
            code, seconds, output = self.pytest(chosen, BUDGET_S + 3 * total_s, [])
        finally:
            path.write_text(original)
            os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # its bytecode stays valid
        result = {-1: "timeout", 0: "survived"}.get(code, "killed")
        failed = [line for line in output.splitlines() if line.startswith(("FAILED", "ERROR"))]
        return {"result": result, "s": round(seconds), "tests": chosen, "by": failed[:1]}


def run(root: Path, sample: list[Mutant], results: Path) -> None:
    """Write the map of the tests, then a line for each mutant; skip what is written already."""
    dirty = ["git", "-C", str(root), "status", "--porcelain", "--untracked-files=no"]
    if shutil.which("unshare") is None or subprocess.check_output(dirty):
        sys.exit("mutants: needs unshare(1) and a checkout without changes (`git checkout .`)")
    tree, found = Tree(root), locate(root, sample)
    tree.hook.unlink(missing_ok=True)
    places = {number: place for number, place in found.items() if isinstance(place, Place)}
    mapped = results.with_name(results.name + ".map")
    done = {each["test"] for each in read(mapped)}
    for test in tree.tests():
        if test not in done:
            append(mapped, tree.coverage_of(test, places))
    reaching: dict[int, list[tuple[float, str]]] = {}
    for each in read(mapped):
        for number in each["mutants"] if each["code"] == 0 else ():
            reaching.setdefault(number, []).append((each["s"], each["test"]))
    written = {each["id"] for each in read(results)}
    for mutant in sample:
        number = mutant["id"]
        if number in written:
            continue
        place = found[number]
        if isinstance(place, Place):
            said = tree.result_of(mutant, place, reaching.get(number, []))
            append(results, {"id": number, "at": f"{place.file}:{place.line + 1}", **said})
        else:
            append(results, {"id": number, "result": place})


def append(path: Path, line: Mutant) -> None:
    """Add a line to a JSONL file."""
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")
    print(line.get("test") or line, flush=True)


def report(runs: list[list[Mutant]]) -> None:
    """Print the killed share of each run; of two, of what both have, and what newly survives."""
    outcomes = [{each["id"]: each["result"] for each in run} for run in runs]
    both = set.intersection(
        *({n for n, r in o.items() if r not in ("gone", "changed")} for o in outcomes)
    )
    for outcome in outcomes:
        killed = sum(outcome[number] in KILLED for number in both)
        share = 100 * killed / max(len(both), 1)
        print(f"{share:.1f} % of {len(both)} killed; all: {dict(Counter(outcome.values()))}")
    if len(outcomes) == 2:
        for number in sorted(both):
            before, after = outcomes[0][number], outcomes[1][number]
            if before in KILLED and after not in KILLED:
                print(f"newly {after}: {next(each for each in runs[1] if each['id'] == number)}")


if __name__ == "__main__":
    main()
