"""What is decided before a process starts: parts, ports, locks, back-off, OpenBLAS, Redis."""

from __future__ import annotations

import os
import platform
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from hosting import redis_server
from hosting.engine_client import EngineClient
from hosting.supervisor import heap, openblas, ports, supervisor
from hosting.supervisor.backoff import HEALTHY_SECONDS, LONGEST_DELAY_SECONDS, Backoff
from hosting.supervisor.engines import Seat
from hosting.supervisor.locks import AlreadyRunning, PartLocks
from hosting.supervisor.parts import (
    NAMES,
    Part,
    Place,
    UnknownPart,
    chosen_names,
    find_num_web_processes,
    make_parts,
)
from hosting.supervisor.ports import PortTaken, check_port


def place(tmp_path: Path, *, bind: str = "127.0.0.1") -> Place:
    return Place(
        checkout=tmp_path,
        data_dir=tmp_path,
        redis_url=f"unix://{tmp_path}/r.sock",
        bind=bind,
        port=8123,
    )


def parts_of(
    names: Sequence[str],
    tmp_path: Path,
    *,
    num_web_processes: int = 1,
    seats: Sequence[Seat] = (Seat(name="engine-1"),),
) -> list[Part]:
    return make_parts(
        names,
        place(tmp_path),
        {},
        num_web_processes=num_web_processes,
        web_socket=7,
        seats=seats,
    )


def test_all_parts_start_unless_some_are_chosen() -> None:
    assert chosen_names(None) == NAMES
    assert chosen_names("engine, web") == ("web", "engine")


def test_an_unknown_part_is_named_with_those_there_are() -> None:
    with pytest.raises(UnknownPart, match=r"'wbe'.*web, intake"):
        chosen_names("wbe")


def test_each_part_is_a_plain_command(tmp_path: Path) -> None:
    made = parts_of(NAMES, tmp_path)
    parts = {part.name: part for part in made}
    assert set(parts) == set(NAMES) - {"redis"}
    assert parts["engine"].command == (sys.executable, "-m", "engine", "--name", "engine-1")
    assert all(part.environment["HEARTH_DATA_DIR"] == str(tmp_path) for part in parts.values())


@pytest.mark.parametrize(("num_cpus", "expected"), [(None, 1), (2, 1), (8, 2), (10, 2), (64, 4)])
def test_web_processes_follow_the_processors(num_cpus: int | None, expected: int) -> None:
    assert find_num_web_processes({}, num_cpus=num_cpus) == expected
    assert find_num_web_processes({"HEARTH_WEB_PROCESSES": "3"}, num_cpus=num_cpus) == 3


def test_all_web_processes_accept_from_one_socket(tmp_path: Path) -> None:
    parts = parts_of(["web"], tmp_path, num_web_processes=2)
    assert [part.name for part in parts] == ["web", "web-2"]
    for part in parts:
        assert part.inherits == (7,)
        assert part.command[part.command.index("--fd") + 1] == "7"


@pytest.mark.parametrize(
    ("bind", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8123"),
        ("0.0.0.0", "http://127.0.0.1:8123"),
        ("::", "http://[::1]:8123"),
        ("::1", "http://[::1]:8123"),
        ("192.168.1.5", "http://192.168.1.5:8123"),
    ],
)
def test_the_printed_address_can_be_opened(tmp_path: Path, bind: str, url: str) -> None:
    assert place(tmp_path, bind=bind).base_url == url


def test_a_taken_port_names_the_next_free_one() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        with pytest.raises(PortTaken, match=r"PORT=\d+"):
            check_port("127.0.0.1", port)


@pytest.mark.parametrize(("others", "bind"), [("0.0.0.0", "127.0.0.1"), ("127.0.0.1", "0.0.0.0")])
def test_a_port_that_only_macos_lets_two_have_is_taken(
    monkeypatch: pytest.MonkeyPatch, others: str, bind: str
) -> None:
    """One at all addresses, one at a single one, which gets its connections."""
    monkeypatch.setattr(ports, "_bound", lambda *_: socket.socket())
    with socket.socket() as listener:
        listener.bind((others, 0))
        listener.listen()
        port = listener.getsockname()[1]
        with pytest.raises(PortTaken, match=r"PORT=\d+"):
            check_port(bind, port)
    check_port(bind, port)


def test_a_data_folder_has_one_supervisor_a_part(tmp_path: Path) -> None:
    first, second = PartLocks(tmp_path / "run"), PartLocks(tmp_path / "run")
    first.take("web")
    second.take("engine")
    with pytest.raises(AlreadyRunning, match="web process"):
        second.take("web")
    first.release()
    second.take("web")
    second.release()


def test_short_lives_wait_longer_and_a_healthy_one_forgives() -> None:
    backoff = Backoff()
    delays = [backoff.next_delay(lived_seconds=0.1) for _ in range(10)]
    assert delays[:4] == [0.1, 0.5, 1.0, 2.0]
    assert max(delays) == LONGEST_DELAY_SECONDS
    assert backoff.next_delay(lived_seconds=HEALTHY_SECONDS) == 0.1


def test_the_engine_preloads_the_openblas_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    environ = {"HEARTH_OPENBLAS": "/lib/a.so", "LD_PRELOAD": "/lib/b.so"}
    assert openblas.engine_environment(environ, num_cpus=4) == {
        "LD_PRELOAD": "/lib/a.so:/lib/b.so",
        "OPENBLAS_NUM_THREADS": "2",
    }


def test_nothing_is_preloaded_on_a_mac(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert openblas.engine_environment({"HEARTH_OPENBLAS": "/lib/a.so"}, num_cpus=4) == {}


_ROUNDS = """
import resource
import numpy as np

def num_faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

for number in range(20):
    if number == 10:
        before = num_faults()
    parts = [np.ones(3 * 2**17) for _ in range(40)]  # 3 MiB each
    del parts
print(num_faults() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="it is glibc's heap")
def test_what_the_engine_frees_it_has_again_without_asking_the_system(
    tmp_path: Path,
) -> None:
    (engine,) = parts_of(["engine"], tmp_path)
    faults = subprocess.run(
        [sys.executable, "-c", _ROUNDS],
        env={**os.environ, **engine.environment},
        check=True,
        capture_output=True,
        timeout=60,
    )
    assert int(faults.stdout) < 1_000  # of 307,200 pages


def test_the_heap_is_as_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    chosen = {"MALLOC_TRIM_THRESHOLD_": "1000"}
    assert heap.engine_environment(chosen).items() > chosen.items()
    monkeypatch.setattr(sys, "platform", "darwin")
    assert heap.engine_environment(chosen) == {}


def fake_redis(path: Path, version: str) -> str:
    path.write_text(f"#!/bin/sh\necho 'Redis server v={version} sha=0'\n")
    path.chmod(0o755)
    return str(path)


def test_the_redis_that_is_named_wins(tmp_path: Path) -> None:
    named = fake_redis(tmp_path / "my-redis", "7.2.1")
    found = redis_server.find_redis_server({"REDIS_SERVER_BIN": named, "PATH": ""})
    assert (found.path, found.version, found.is_bundled) == (named, (7, 2, 1), False)


def test_a_redis_that_is_named_and_cannot_be_used_is_told(tmp_path: Path) -> None:
    old = fake_redis(tmp_path / "my-redis", "6.0.9")
    for named in (old, str(tmp_path / "nowhere")):
        with pytest.raises(redis_server.NoRedisServer, match=f"REDIS_SERVER_BIN={named}"):
            redis_server.find_redis_server({"REDIS_SERVER_BIN": named})


def test_a_redis_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    fake_redis(tmp_path / "redis-server", "6.0.9")
    found = redis_server.find_redis_server({"PATH": str(tmp_path)})
    assert found.version >= redis_server.OLDEST_VERSION


def test_without_any_redis_the_message_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_server, "USUAL_FOLDERS", ())
    monkeypatch.setattr(redis_server, "WHEELS", ())
    with pytest.raises(redis_server.NoRedisServer, match="brew install valkey"):
        redis_server.find_redis_server({"PATH": ""})


def test_nobody_else_can_reach_the_private_redis(tmp_path: Path) -> None:
    socket_path = tmp_path / "run" / "r.sock"
    redis_server.make_redis_folders(socket_path=socket_path, folder=tmp_path / "redis")
    assert socket_path.parent.stat().st_mode & 0o077 == 0
    binary = redis_server.RedisBinary(path="redis-server", version=(7, 0, 0), is_bundled=False)
    arguments = redis_server.redis_arguments(
        binary, socket_path=socket_path, folder=tmp_path / "redis"
    )
    assert arguments[arguments.index("--port") + 1] == "0"
    assert arguments[arguments.index("--unixsocketperm") + 1] == "700"


def test_a_redis_that_lets_nobody_in_is_told_without_its_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis_url: str
) -> None:
    monkeypatch.setattr(supervisor, "get_client", lambda: EngineClient(f"{redis_url}?password=x"))
    with pytest.raises(supervisor.CannotStart) as refused:
        supervisor.check_redis("redis://:x@redis.example.org/0")
    told = str(refused.value)
    assert told.startswith("The Redis at redis://redis.example.org/0: ") and "password" in told
