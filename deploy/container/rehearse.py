"""Does what `docker build` and `docker run` do with the Dockerfile beside it, where there is no
builder.

    sudo python deploy/container/rehearse.py --folder /tmp/rehearsal

The RUN, COPY, ENV, USER and CMD instructions are read from the file, so that both can't differ.
What stands in for the images that it begins from:

- the first stage: this machine (Debian 12) below an overlay, which alone is written to;
- the second: the packages of Debian of which distroless makes its image, from the package index.

Then the broker runs in the result as in a container: as the user of the file and as process 1, with
that folder as its root, which can't be written to, a folder for /data, and a network of its own.
The health check, a topic with records, and the stop signal are tried. The report is one line of
JSON; the exit status is 0 if all of it went well and the image is below the limit. Needs root,
unshare(1) and nsenter(1).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

CHECKOUT = Path(__file__).resolve().parents[2]
DOCKERFILE = Path(__file__).with_name("Dockerfile")
IMAGE_BYTES_MAX = 100_000_000
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# What the package indexes of this machine need is for the builder, not for the image.
PASSED_ON = re.compile(r"PIP_|UV_|SSL_CERT_|REQUESTS_CA_BUNDLE\Z|(https?|no)_proxy\Z", re.IGNORECASE)
# Of which distroless/python3-debian12 is made.
BASE_PACKAGES = (
    "base-files", "netbase", "tzdata", "ca-certificates",
    "libc6", "libgcc-s1", "libgomp1", "libssl3", "libstdc++6",
    "libbz2-1.0", "libcom-err2", "libcrypt1", "libdb5.3", "libexpat1", "libffi8", "libgssapi-krb5-2",
    "libk5crypto3", "libkeyutils1", "libkrb5-3", "libkrb5support0", "liblzma5", "libncursesw6", "libnsl2",
    "libpython3.11-minimal", "libpython3.11-stdlib", "libreadline8", "libsqlite3-0", "libtinfo6", "libtirpc3",
    "libuuid1", "python3-distutils", "python3.11-minimal", "zlib1g",
)  # fmt: skip
NOT_IN_BASE = ("usr/share/doc", "usr/share/man", "usr/share/lintian", "usr/share/bug")
_FILES = {
    "hosts": "127.0.0.1\tlocalhost\n::1\tlocalhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    "passwd": "root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n",
}
START_S, STOP_S = 60, 30
# SIOCSIFFLAGS with IFF_UP, IFF_LOOPBACK and IFF_RUNNING: a new network has its loopback down.
LOOPBACK_UP = "import fcntl, socket, struct; fcntl.ioctl(socket.socket(), 0x8914, struct.pack('16sh', b'lo', 0x49))"


class RehearsalFailed(Exception):
    """A step went wrong; the message has its output."""


class Instruction(NamedTuple):
    """One of a Dockerfile, with its continued lines joined. `name`: in upper case."""

    name: str
    text: str


@dataclass
class Stage:
    """The instructions from one FROM to the next."""

    base: str
    name: str
    instructions: list[Instruction] = field(default_factory=list)

    def last(self, name: str) -> str:
        """Return the text of the last instruction of this name. Raises RehearsalFailed: none."""
        texts = [one.text for one in self.instructions if one.name == name]
        if not texts:
            raise RehearsalFailed(f"the stage from {self.base} has no {name}")
        return texts[-1]

    def words(self, name: str) -> list[str]:
        """Return the words of the last instruction of this name, which is in JSON's form."""
        words: list[str] = json.loads(self.last(name))
        return words

    @property
    def environment(self) -> dict[str, str]:
        """The variables of ENV."""
        given = [word for one in self.instructions if one.name == "ENV" for word in shlex.split(one.text)]
        return dict(word.split("=", 1) for word in given)


def parse(text: str, arguments: Mapping[str, str] | None = None) -> list[Stage]:
    """Return the stages of a Dockerfile.

    Args: arguments: values of ARGs, in place of their defaults.
    Raises: RehearsalFailed: an instruction that this script does not know.
    """
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    stages: list[Stage] = []
    variables: dict[str, str] = {}
    for line in re.sub(r"\\\n", " ", "\n".join(lines)).splitlines():
        name, _, rest = line.strip().partition(" ")
        instruction = Instruction(name.upper(), " ".join(rest.split()))
        if instruction.name == "ARG":
            key, _, default = instruction.text.partition("=")
            variables[key] = (arguments or {}).get(key, default)
        elif instruction.name == "FROM":
            base, _, alias = re.sub(r"\$\{(\w+)\}", lambda one: variables[one[1]], instruction.text).partition(" AS ")
            stages.append(Stage(base, alias))
        elif instruction.name in _KNOWN:
            stages[-1].instructions.append(instruction)
            continue
        else:
            raise RehearsalFailed(f"{instruction.name} is not known to {Path(__file__).name}: {line}")
        if instruction.name == "ARG" and stages:
            stages[-1].instructions.append(Instruction("ARG", f"{key}={variables[key]}"))
    return stages


_KNOWN = frozenset(
    "RUN COPY ENV WORKDIR USER VOLUME EXPOSE STOPSIGNAL HEALTHCHECK ENTRYPOINT CMD".split()  # noqa: SIM905
)


class BuildStage:
    """The first stage, in an overlay over this machine. `upper`: what it has written."""

    def __init__(self, stage: Stage, folder: Path) -> None:
        self._stage = stage
        self.upper = folder / "upper"
        self._work, self._merged = folder / "work", folder / "merged"
        self._variables: dict[str, str] = {}
        self._current = "/"

    def run(self) -> None:
        """Do all instructions. Raises RehearsalFailed."""
        for one in (self.upper, self._work, self._merged):
            one.mkdir(parents=True)
        for instruction in self._stage.instructions:
            match instruction.name:
                case "WORKDIR":
                    self._current = instruction.text
                    self._in_upper(instruction.text).mkdir(parents=True, exist_ok=True)
                case "ARG" | "ENV":
                    self._variables |= dict(word.split("=", 1) for word in shlex.split(instruction.text))
                case "COPY":
                    self._copy(instruction.text)
                case "RUN" if _has_packages(instruction.text):
                    print(f"left out, as this machine has the packages: {instruction.text}", file=sys.stderr)
                case "RUN":
                    print(f"RUN {instruction.text}", file=sys.stderr)
                    self._run(instruction.text)

    def _copy(self, text: str) -> None:
        *sources, target = text.split()
        folder = self._in_upper(str(Path(self._current, target)))
        for source in sources:
            path = CHECKOUT / source
            if path.is_dir():
                shutil.copytree(path, folder, ignore=shutil.ignore_patterns("__pycache__", "*.so", "tests"))
            else:
                shutil.copy2(path, folder / path.name if target.endswith("/") else folder)

    def _run(self, command: str) -> None:
        merged = shlex.quote(str(self._merged))
        layers = f"lowerdir=/,upperdir={self.upper},workdir={self._work}"
        script = (
            f"set -e; mount -t overlay overlay -o {shlex.quote(layers)} {merged}; mount --rbind /dev {merged}/dev; "
            f'mount -t proc proc {merged}/proc; exec chroot {merged} /bin/sh -c "$1"'
        )
        passed_on = {name: value for name, value in os.environ.items() if PASSED_ON.match(name)}
        _done(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script, "sh",
             f"cd {self._current} && {command}"],
            env={**passed_on, "PATH": DEFAULT_PATH, "HOME": "/root", **self._variables},
        )  # fmt: skip

    def _in_upper(self, path: str) -> Path:
        return self.upper / path.lstrip("/")


def _has_packages(command: str) -> bool:
    """Return whether a RUN only installs packages that this machine has."""
    match = re.match(r"apt-get update && apt-get install -y --no-install-recommends ([\w\s.+-]+) &&", command)
    if match is None:
        return False
    asked = subprocess.run(
        ["dpkg-query", "-W", "-f=${Status}\n", *match[1].split()], capture_output=True, text=True, check=False
    )
    return asked.returncode == 0 and set(asked.stdout.splitlines()) == {"install ok installed"}


def make_base(root: Path, packages: Path) -> None:
    """Unpack the packages of the base into `root`. Raises RehearsalFailed."""
    packages.mkdir(parents=True, exist_ok=True)
    shutil.chown(packages, "_apt") if _has_user("_apt") else None
    _done(["apt-get", "download", "-q", *BASE_PACKAGES], cwd=packages)
    root.mkdir()
    for package in sorted(packages.glob("*.deb")):
        _done(["dpkg-deb", "-x", str(package), str(root)])
    for name in NOT_IN_BASE:
        shutil.rmtree(root / name, ignore_errors=True)
    for name in ("bin", "lib", "lib64", "sbin"):  # packages of Debian 12 have them both ways
        _merge_into_usr(root, name)
    for name in ("python3", "python"):
        (root / "usr/bin" / name).unlink(missing_ok=True)
        (root / "usr/bin" / name).symlink_to("python3.11")
    for name in ("proc", "dev", "tmp", "etc"):
        (root / name).mkdir(exist_ok=True)
    for name, text in _FILES.items():  # of distroless; /etc/hosts is the runtime's
        (root / "etc" / name).write_text(text)


def _has_user(name: str) -> bool:
    return re.search(rf"^{name}:", Path("/etc/passwd").read_text(), re.MULTILINE) is not None


def _merge_into_usr(root: Path, name: str) -> None:
    top, usr = root / name, root / "usr" / name
    if top.is_symlink():
        return
    if top.is_dir():
        shutil.copytree(top, usr, symlinks=True, dirs_exist_ok=True)
        shutil.rmtree(top)
    usr.mkdir(parents=True, exist_ok=True)
    top.symlink_to(f"usr/{name}")


def copy_into(stage: Stage, root: Path, built: Path) -> None:
    """Do the COPY instructions of the last stage. Raises RehearsalFailed: a source is missing."""
    for instruction in stage.instructions:
        if instruction.name != "COPY":
            continue
        *words, source, target = instruction.text.split()
        options = dict(word.removeprefix("--").split("=", 1) for word in words)
        path = built / source.lstrip("/") if "from" in options else CHECKOUT / source
        destination = root / target.lstrip("/")
        destination.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            raise RehearsalFailed(f"COPY {instruction.text}: {source} is not there")
        if path.is_dir():
            shutil.copytree(path, destination, symlinks=True, dirs_exist_ok=True)
        else:
            shutil.copy2(path, destination)
        if "chown" in options:
            user, group = map(int, options["chown"].split(":"))
            os.chown(destination, user, group)


class Container:
    """A process in the image, as `docker run --read-only --tmpfs /tmp` starts it.

    Args: data: the folder in place of the volume.
    """

    def __init__(self, stage: Stage, root: Path, data: Path) -> None:
        self._stage, self._root, self._data = stage, root, data
        self._user, self._group = stage.last("USER").split(":")
        self._process: subprocess.Popen[str] | None = None

    def start(self, variables: Mapping[str, str], log: Path) -> None:
        """Start its command; `log` gets what it prints."""
        self._data.mkdir(mode=0o700)
        os.chown(self._data, int(self._user), int(self._group))
        root, volume = shlex.quote(str(self._root)), self._stage.last("VOLUME")
        script = (
            f"set -e; {shlex.quote(sys.executable)} -c {shlex.quote(LOOPBACK_UP)}; "
            f"mount --bind {root} {root}; mount -o remount,bind,ro {root}; "
            f"mount -t tmpfs -o size=16m,mode=1777 tmpfs {root}/tmp; "
            f"mount --bind {shlex.quote(str(self._data))} {root}{volume}; "
            f"mount --rbind /dev {root}/dev; mount -t proc proc {root}/proc; "
            f'exec /usr/sbin/chroot --userspec={self._user}:{self._group} {root} /usr/bin/python3 -c "$0" "$@"'
        )
        # as a builder's runtime: the working folder, then the command in place of this process
        change = f"import os, sys; os.chdir({self._stage.last('WORKDIR')!r}); os.execvp(sys.argv[1], sys.argv[1:])"
        words = [*self._stage.words("ENTRYPOINT"), *self._stage.words("CMD")]
        with log.open("w") as output:
            self._process = subprocess.Popen(
                ["unshare", "--mount", "--pid", "--net", "--fork", "--kill-child", "sh", "-c", script, change, *words],
                env={**self._stage.environment, **variables},
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, text=True,
            )  # fmt: skip

    def execute(self, words: list[str], given: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command beside it, as `docker exec -i`."""
        first = self._first()
        if first is None:
            raise RehearsalFailed("the broker has ended")
        inside = ["nsenter", f"--target={first}", "--mount", "--pid", "--net", "--root", "--setuid", self._user,
                  "--setgid", self._group, "--", *words]  # fmt: skip
        return subprocess.run(
            inside, env=self._stage.environment, input=given, capture_output=True, text=True, timeout=60, check=False
        )

    def is_healthy(self) -> bool:
        """Run the health check once."""
        command = json.loads(self._stage.last("HEALTHCHECK").partition(" CMD ")[2])
        return self.is_running and self._first() is not None and self.execute(command).returncode == 0

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._process is not None and self._process.poll() is None

    def stop(self) -> int:
        """Send the stop signal; return the exit status. Raises RehearsalFailed: it did not stop."""
        first = self._first()
        if self._process is None or first is None:
            raise RehearsalFailed("the broker has ended")
        os.kill(first, signal.Signals[self._stage.last("STOPSIGNAL")])
        try:
            return self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            raise RehearsalFailed(f"the broker did not stop within {STOP_S} s") from None

    def kill(self) -> None:
        """End it, if it has not ended. Its process 1 takes all others of the container with it."""
        if self._process is None:
            return
        first = self._first()
        if first is not None:  # --kill-child ends with a change of the user
            os.kill(first, signal.SIGKILL)
        self._process.kill()
        self._process.wait()

    def _first(self) -> int | None:
        """Return the number of its process 1 outside; None: it has not begun, or has ended."""
        if self._process is None:
            return None
        try:
            children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        except FileNotFoundError:
            return None
        return int(children[0]) if children else None


def try_out(container: Container, log: Path) -> dict[str, Any]:
    """Start the broker, use it, and stop it. Raises RehearsalFailed."""
    started_s = time.monotonic()
    container.start({"KQUEUE_ALLOW_INSECURE": "true"}, log)
    try:
        while not container.is_healthy():
            if not container.is_running or time.monotonic() - started_s > START_S:
                raise RehearsalFailed(f"the broker did not become healthy:\n{log.read_text()[-3000:]}")
            time.sleep(0.2)
        healthy_s = time.monotonic() - started_s
        for words, given, expected in (
            (["topics", "create", "orders"], "", None),
            (["produce", "orders"], "two coffees\n", None),
            (["consume", "orders", "--from-beginning", "--max-messages", "1"], "", "two coffees\n"),
        ):
            done = container.execute(["kqueue", *words], given)
            if done.returncode != 0 or expected not in (None, done.stdout):
                raise RehearsalFailed(f"kqueue {' '.join(words)}: {done.returncode} {done.stdout}{done.stderr}")
        written = container.execute(["python3", "-c", "open('/opt/x', 'w')"])
        if "Read-only file system" not in written.stderr:
            raise RehearsalFailed(f"the root can be written to: {written.stderr}")
        left = container.execute(["python3", "-c", "import os; print(sorted(os.listdir('/tmp')))"]).stdout.strip()
        version = container.execute(["kqueue", "version"]).stdout.partition("\n")[0]
        return {"version": version, "healthy_s": round(healthy_s, 1), "in_tmp": left, "stop_status": container.stop()}
    finally:
        container.kill()


def size_of(root: Path) -> int:
    """Return the bytes of the files below `root`; a file with several names counts once."""
    return sum({(one.st_dev, one.st_ino): one.st_size for one in _files(root)}.values())


def _files(root: Path) -> Iterator[os.stat_result]:
    for folder, _, names in os.walk(root):
        for name in names:
            yield (Path(folder) / name).lstat()


def _done(command: list[str], **options: Any) -> None:
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=900, **options
    )
    if done.returncode != 0:
        raise RehearsalFailed(f"{shlex.join(command)} ended with {done.returncode}:\n{done.stdout[-3000:]}")


def rehearse(folder: Path, arguments: Mapping[str, str]) -> dict[str, Any]:
    """Do all of it in `folder`, which is empty or missing; return the report.

    Args: arguments: values of ARGs, in place of their defaults.
    Raises: RehearsalFailed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    first, last = parse(DOCKERFILE.read_text(), arguments)
    build = BuildStage(first, folder / "build")
    build.run()
    root = folder / "image"
    make_base(root, folder / "packages")
    base_bytes = size_of(root)
    copy_into(last, root, build.upper)
    image_bytes = size_of(root)
    packed = subprocess.run(
        ["sh", "-c", f"tar -C {shlex.quote(str(root))} -c . | gzip -6 | wc -c"],
        capture_output=True,
        text=True,
        check=True,
    )
    report = {"bytes": image_bytes, "base_bytes": base_bytes, "compressed_bytes": int(packed.stdout)}
    return {**report, **try_out(Container(last, root, folder / "data"), folder / "log")}


def main() -> int:
    """Return the exit status."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--folder", type=Path, required=True, help="where it works: empty, or not there yet")
    options.add_argument(
        "--build-arg", action="append", default=[], metavar="NAME=VALUE", help="in place of an ARG's default"
    )
    given = options.parse_args()
    folder: Path = given.folder.absolute()
    if os.geteuid() != 0:
        print("root is needed, for mounts and for another user", file=sys.stderr)
        return 2
    if folder.exists() and any(folder.iterdir()):
        print(f"{folder} is not empty", file=sys.stderr)
        return 2
    try:
        report = rehearse(folder, dict(one.split("=", 1) for one in given.build_arg))
    except RehearsalFailed as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps(report))
    return 0 if report["bytes"] <= IMAGE_BYTES_MAX and report["stop_status"] == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
