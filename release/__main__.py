"""`python -m release`: makes a release of this checkout, and prints the commands that publish it.

It checks version, CHANGELOG.md and work tree, builds both distributions into `dist/` and checks
them, keeps a data folder of the version for the tests of later ones, commits it and sets the tag.
`--dry-run` does the same in a temporary folder, and changes nothing.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from release import checks, distributions

DATA_FOLDERS = Path("kqueue") / "tests" / "data" / "released"
REFUSED = 1


def main(arguments: list[str] | None = None, root: Path = distributions.ROOT) -> int:
    """Return the exit status: 0, or `REFUSED` with a line for each reason."""
    parser = argparse.ArgumentParser(prog="python -m release", description=__doc__)
    parser.add_argument("--dry-run", action="store_true", help="check and build all of it, and change nothing")
    is_dry = parser.parse_args(arguments).dry_run
    version = checks.version_of(root)
    if _report(checks.problems(root)):
        return REFUSED
    with tempfile.TemporaryDirectory(prefix="kqueue-release-") as work:
        print(f"building {version}")
        try:
            built = distributions.build(Path(work), root)
            _run(sys.executable, "-m", "twine", "check", "--strict", *map(str, built))
        except subprocess.CalledProcessError as error:
            print(error.stdout, error.stderr, sep="\n", file=sys.stderr)
            return REFUSED
        if _report([problem for path in built for problem in distributions.problems(path)]):
            return REFUSED
        for path in built:
            print(f"{path.name}: {path.stat().st_size:,} bytes, a {distributions.kind_of(path)}")
        print(f"filling a data folder of {version}")
        kept = Path(work) / "released" if is_dry else root / DATA_FOLDERS
        _run(sys.executable, "-m", "kqueue.tests.released", version, "--source", str(root), "--to", str(kept))
        if not is_dry:
            (root / "dist").mkdir(exist_ok=True)
            for path in built:
                shutil.copy(path, root / "dist" / path.name)
            _commit_and_tag(root, version)
    print(_next_steps(version, [path.name for path in built], is_dry=is_dry))
    return 0


def _report(problems: list[str]) -> bool:
    for problem in problems:
        print(f"not released: {problem}", file=sys.stderr)
    return bool(problems)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True, cwd=distributions.ROOT)


def _commit_and_tag(root: Path, version: str) -> None:
    checks.git(root, "add", DATA_FOLDERS.as_posix())
    if checks.git(root, "status", "--porcelain"):
        checks.git(root, "commit", "-m", f"Keep the data folder of {version}")
    notes = f"kqueue {version}\n\n{checks.notes_of(root, version)}\n"
    # else git takes the headings for comments
    checks.git(root, "tag", "-a", checks.tag_of(version), "--cleanup=verbatim", "-m", notes)


def _next_steps(version: str, names: list[str], *, is_dry: bool) -> str:
    files = " ".join(f"dist/{name}" for name in names)
    return (
        f"{version} {'could be released; nothing was changed' if is_dry else 'is tagged, and not published'}. "
        f"{'After a release these' if is_dry else 'These'} commands publish it:\n\n"
        f"  git push --follow-tags\n"
        f"  python -m twine upload {files}\n\n"
        "Compiled wheels of all platforms: `cibuildwheel` on the tag, then twine for them too."
    )


if __name__ == "__main__":
    sys.exit(main())
