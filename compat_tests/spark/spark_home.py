"""A home of Spark whose Python packages are folders in place of archives."""

from __future__ import annotations

from pathlib import Path

import py4j
import pyspark

INSTALLED = Path(pyspark.__file__).parent


def spark_home(folder: Path) -> Path:
    """Make a home of the installed Spark in `folder`, and return it.

    Each Python process that Spark starts compiles what it imports from an archive. That is two
    thirds of its start, for which Spark gives some of them 10 s.
    """
    folder.mkdir(parents=True)
    for name in ("bin", "jars"):
        (folder / name).symlink_to(INSTALLED / name)
    for archive in (INSTALLED / "python" / "lib").glob("*.zip"):
        package = next(one for one in (pyspark, py4j) if archive.name.startswith(one.__name__))
        there = folder / "python" / "lib" / archive.name
        there.mkdir(parents=True)
        (there / package.__name__).symlink_to(Path(package.__file__).parent)
    return folder
