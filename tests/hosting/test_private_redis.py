"""The private Redis of `manage.py up` starts whatever a crash has left of its files."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

import kombu
import psutil
import redis

from engine import wire
from hosting.redis_server import is_answering, socket_path_of
from hosting.settings import celery_url
from tests.hosting.redis_alone import redis_alone
from tests.waiting import wait_until

SET = b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n"
TORN = SET + bytes(4096)  # a power cut leaves zeros


def test_files_that_cannot_be_read_are_put_aside(tmp_path: Path) -> None:
    (tmp_path / "redis").mkdir()
    (tmp_path / "redis" / "appendonly.aof").write_bytes(TORN)
    with redis_alone(tmp_path) as running:
        assert f"{tmp_path}/redis-unreadable" in running.output()
    assert (tmp_path / "redis-unreadable" / "appendonly.aof").read_bytes() == TORN


def test_files_that_break_while_it_runs_are_put_aside_too(tmp_path: Path) -> None:
    with redis_alone(tmp_path) as running:
        (server,) = (
            one
            for one in psutil.Process(running.supervisor.pid).children()
            if any("redis.sock" in word for word in one.cmdline())
        )
        for file in (tmp_path / "redis").rglob("*.aof"):
            file.write_bytes(TORN)
        server.kill()
        running.wait_for(f"{tmp_path}/redis-unreadable")
        socket_path = socket_path_of(wire.default_redis_url(str(tmp_path)))
        wait_until(lambda: is_answering(socket_path))


def test_one_that_a_killed_hearth_has_left_ends_before_another_begins(tmp_path: Path) -> None:
    url = wire.default_redis_url(str(tmp_path))
    with redis_alone(tmp_path) as running, redis.Redis.from_url(url) as client:
        client.set("kept", 1)
        server = _kill_all_but_redis(psutil.Process(running.supervisor.pid))
        assert client.ping()
    try:
        with redis_alone(tmp_path), redis.Redis.from_url(url) as client:
            assert not _is_alive(server)
            assert client.get("kept") == b"1"
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            server.kill()


def _is_alive(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def _kill_all_but_redis(supervisor: psutil.Process) -> psutil.Process:
    """As `pkill -9 python` does: who would end it is killed, too."""
    children = supervisor.children()
    (reaper,) = (one for one in children if any("reaper.py" in word for word in one.cmdline()))
    (server,) = (one for one in children if one != reaper)
    reaper.suspend()
    supervisor.kill()
    reaper.kill()
    return server


def test_what_former_lives_have_written_is_shortened(tmp_path: Path) -> None:
    """Redis does so when it has doubled since the start: never where each day adds a little."""
    folder = tmp_path / "redis"
    folder.mkdir()
    (folder / "appendonly.aof").write_bytes(SET * 100_000)
    url = wire.default_redis_url(str(tmp_path))
    with redis_alone(tmp_path), redis.Redis.from_url(url) as client:
        wait_until(lambda: client.info("persistence")["aof_current_size"] < 10_000)


def test_a_folder_may_have_a_name_that_an_address_cannot_have() -> None:
    with tempfile.TemporaryDirectory(suffix="c#+ 50%41?ü") as name, redis_alone(Path(name)):
        folder = Path(name)  # a short path: else its sockets lie elsewhere
        url = wire.default_redis_url(str(folder))
        with redis.Redis.from_url(url) as client, kombu.Connection(celery_url(url)) as connection:
            assert client.ping()
            connection.connect()
        assert (folder / "run" / "redis.sock").is_socket()
