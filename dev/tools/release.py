"""Make a release in dist/: both wheels, what they need (SBOM), notes and hashes; publish nothing.

    make release VERSION=0.2.0

While the files name another version, this writes it into them, for a person to commit and tag. Then
it builds what is committed: twice, in different folders, and the bytes must be the same.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DIST = ROOT / "dist"
TOOLS = ROOT / ".shoal" / "release" / "bin"
PACKAGES = ("packages/shoal", "packages/shoal-local")
CHANGELOGS = ("CHANGELOG.md", "packages/shoal-local/CHANGELOG.md")


def main(arguments: list[str]) -> None:
    """Prepare or build the release `arguments[0]`; raise SystemExit for a mistake."""
    version = arguments[0] if len(arguments) == 1 else ""
    if not re.fullmatch(r"\d+\.\d+\.\d+(rc\d+)?", version):
        raise SystemExit("usage: make release VERSION=1.2.3, or 1.2.3rc1")
    if git("status", "--porcelain"):
        raise SystemExit("make release: a release is built from a commit; commit first")
    epoch, committed_at = git("log", "-1", "--format=%ct %cI").split()
    prepare(version, committed_at[:10])
    if git("status", "--porcelain"):
        print(f"review, commit, `git tag v{version}`, and run this again, which then builds")
        return
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    wheels = build(DIST, epoch)
    subprocess.check_call([TOOLS / "twine", "check", "--strict", *wheels])
    # What `shoal init` and `shoal new` copy is no module (W004), and some files are equal (W002).
    subprocess.check_call([TOOLS / "check-wheel-contents", "--ignore=W002,W004", *wheels])
    (DIST / "NOTES.md").write_text("\n\n".join(notes(name, version) for name in CHANGELOGS))
    (DIST / f"shoal-{version}.cdx.json").write_text(sbom(version, committed_at))
    digests = {file.name: hashlib.sha256(file.read_bytes()) for file in sorted(DIST.iterdir())}
    sums = "".join(f"{digest.hexdigest()}  {name}\n" for name, digest in digests.items())
    (DIST / "SHA256SUMS").write_text(sums)
    print(sums, end="")


def prepare(version: str, day: str) -> None:
    """Write the version of both packages, and the section of each changelog, if it is not there."""
    for package in PACKAGES:
        file = ROOT / package / "pyproject.toml"
        line = f'version = "{version}"'
        file.write_text(re.sub('^version = ".*"$', line, file.read_text(), flags=re.MULTILINE))
    for name in CHANGELOGS:
        text, heading = (ROOT / name).read_text(), f"\n## {version} - "
        if heading not in text:
            text = text.replace("## Unreleased\n", f"## Unreleased\n{heading}{day}\n", 1)
            (ROOT / name).write_text(text)


def build(folder: Path, epoch: str) -> list[Path]:
    """Build the wheels of HEAD into `folder`; raise SystemExit unless a second build equals them.

    hatchling takes the time of every file from SOURCE_DATE_EPOCH.
    """
    variables = os.environ | {"SOURCE_DATE_EPOCH": epoch}
    with tempfile.TemporaryDirectory() as scratch:
        for target in (folder, second := Path(scratch, "wheels")):
            sources = Path(tempfile.mkdtemp(dir=scratch))
            archive = subprocess.check_output(["git", "archive", "HEAD"], cwd=ROOT)
            subprocess.run(["tar", "-x", "-C", sources], input=archive, check=True)
            build_one = [f"{TOOLS}/hatchling", "build", "-t", "wheel", "-d", f"{target}"]
            for package in PACKAGES:
                subprocess.check_call(build_one, cwd=sources / package, env=variables)
        wheels = sorted(folder.glob("*.whl"))
        if any(wheel.read_bytes() != (second / wheel.name).read_bytes() for wheel in wheels):
            raise SystemExit(f"make release: two builds of {git('rev-parse', 'HEAD')} differ")
    return wheels


def notes(changelog: str, version: str) -> str:
    """Return the changelog's section of `version`."""
    _, _, rest = (ROOT / changelog).read_text().partition(f"\n## {version} - ")
    return rest.partition("\n")[2].partition("\n## ")[0].strip()


def sbom(version: str, committed_at: str) -> str:
    """Return what the wheels need, in the versions that were tested, as CycloneDX JSON.

    uv writes one for a project, so the locks become one for a moment. Its random number goes and
    its time is the commit's, because the same commit gives the same bytes.
    """
    locks = "".join((ROOT / f"requirements{name}.txt").read_text() for name in ("", "-local"))
    pins = re.findall(r"^[^\s#]+==[^\s;\\]+", locks, re.MULTILINE)
    head = f'name = "shoal"\nversion = "{version}"\nrequires-python = ">=3.11,<3.13"'
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "pyproject.toml").write_text(f"[project]\n{head}\ndependencies = {pins}\n")
        command = [sys.executable, "-m", "uv", "export", "--quiet", "--format", "cyclonedx1.5"]
        document = json.loads(subprocess.check_output(command, cwd=folder))
    document.pop("serialNumber", None)
    document["metadata"]["timestamp"] = committed_at
    return json.dumps(document, indent=1, sort_keys=True) + "\n"


def git(*arguments: str) -> str:
    """Return what git prints."""
    return subprocess.check_output(["git", *arguments], cwd=ROOT, text=True).strip()


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except subprocess.CalledProcessError as error:  # the tool has said why
        sys.exit(f"make release: {error}")
