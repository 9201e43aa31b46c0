"""Builds the site, checks it, and puts it beside other versions: `python -m docs_site FOLDER`."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from docs_site import browser, links
from docs_site.navigation import Navigation, as_toml
from docs_site.staging import ROOT, BrokenLinks, Staging
from docs_site.versions import publish
from kqueue import __version__

CONFIG = ROOT / "zensical.toml"
PAGES, BUILT, CHECKED = "pages", "html", "checked"
FAILED = 1
_WARNING = re.compile(r"^(?:griffe|mkdocstrings|WARNING)\b.*", re.MULTILINE)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class BuildFailed(Exception):
    """Zensical failed or warned of something. The message is what it said."""


def configuration(text: str, navigation: str) -> str:
    """Return the configuration of Zensical, to be put beside the pages, with their navigation."""
    head = "[project]\n"
    if not text.startswith(head):
        raise ValueError("zensical.toml: expected [project] in the first line")
    return f"{head}nav = {navigation}\ndocs_dir = '{PAGES}'\nsite_dir = '{BUILT}'\n{text.removeprefix(head)}"


def build(work: Path) -> Path:
    """Stage all pages in a folder, and build them there; return the folder of the HTML.

    Raises:
        BrokenLinks: a page links to a file that does not exist.
        BuildFailed: a warning fails too.
    """
    pages = Staging(work / PAGES).run()
    navigation = as_toml(Navigation(pages, work / PAGES).entries())
    config = work / CONFIG.name
    config.write_text(configuration(CONFIG.read_text(encoding="utf-8"), navigation), encoding="utf-8")
    shutil.copytree(ROOT / "docs_site" / "theme", work / PAGES / "theme", dirs_exist_ok=True)
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean", "-f", str(config)]
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, check=False, cwd=work, env=environment, capture_output=True, text=True)
    output = _COLOUR.sub("", done.stdout + done.stderr)
    if done.returncode != 0:
        raise BuildFailed(output)
    if warnings := _WARNING.findall(output):
        raise BuildFailed("\n".join(warnings))
    return work / BUILT


def check(built: Path, version: str, work: Path, with_browser: bool) -> list[str]:
    """Return what is wrong with the HTML, a sentence each.

    Args:
        work: a folder for a copy with the list of versions, as a server has it.
    """
    wrong = links.check(built)
    reason = "it was not asked for" if not with_browser else browser.why_no_browser()
    if reason:
        print(f"skipped, because {reason}: pages in Chromium")
        return wrong
    publish(built, work, version)
    for visit in browser.visit_all(work, [f"{version}/{page}" for page in browser.PAGES]):
        print(f"/{visit.page}: {visit.requests} requests, {len(visit.elsewhere)} to other hosts")
        wrong += [f"/{visit.page}: requests {url}" for url in visit.elsewhere]
        wrong += [f"/{visit.page}: {error}" for error in visit.errors]
    return wrong


def main(arguments: list[str] | None = None) -> int:
    """Build, check and publish; return the exit status: 1 if a page is wrong."""
    parser = argparse.ArgumentParser(prog="python -m docs_site", description="Builds and checks the documentation.")
    parser.add_argument("folder", type=Path, help="of all versions; made if it is missing")
    parser.add_argument("--version", default=".".join(__version__.split(".")[:2]), help="default: %(default)s")
    parser.add_argument("--no-browser", action="store_true", help="open no page in Chromium")
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help="write pictures of pages into a folder")
    options = parser.parse_args(arguments)
    work = options.folder.absolute() / ".work"
    work.mkdir(parents=True, exist_ok=True)
    try:
        built = build(work)
    except (BrokenLinks, BuildFailed) as error:
        print(error, file=sys.stderr)
        return FAILED
    wrong = check(built, options.version, work / CHECKED, not options.no_browser)
    if wrong:
        print("\n".join(wrong), file=sys.stderr)
        return FAILED
    publish(built, options.folder, options.version)
    if options.pictures is not None:
        browser.take_pictures(options.folder, options.pictures, [f"{options.version}/{page}" for page in browser.PAGES])
    print(f"{len(list(built.rglob('*.html')))} pages, whose links all lead somewhere, in {options.folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
