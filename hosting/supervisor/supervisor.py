"""The life of one installation: Redis, preparation, all processes, ready, and the end of it all.

    start:  redis ──► prepare ──► web, intake, engine, celery, beat, ledger ──► ready
    end:    web, intake, engine, celery, beat, ledger ──► redis

One event loop owns everything here. It never waits for a database or for Redis: that is done in
threads, which the end does not wait for.
"""

from __future__ import annotations

import asyncio
import dataclasses
import signal
import socket
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from hosting import redis_server
from hosting.engine_client import EngineUnavailable, get_client
from hosting.supervisor import openblas
from hosting.supervisor.child import Child
from hosting.supervisor.engines import Seat
from hosting.supervisor.log import CombinedLog
from hosting.supervisor.parts import NO_DJANGO, Part, Place, make_parts
from hosting.supervisor.ports import listen
from hosting.supervisor.prepare import prepare
from hosting.supervisor.readiness import why_not_ready
from hosting.supervisor.reaper import Reaper
from hosting.supervisor.watchdog import watch_engine

END_SECONDS = 6.0
REDIS_END_SECONDS = 2.0
KILLED_SECONDS = 0.5
IMPATIENT_SECONDS = 0.5  # one Ctrl-C may arrive twice, from the terminal and from a parent
REDIS_START_SECONDS = 30.0
POLL_SECONDS = 0.3
FAULTS_OF_FILES = 3  # so many ends with an exit code, and no answer in between
FIRST_COMPLAINT_SECONDS = 30.0

T = TypeVar("T")


class CannotStart(Exception):
    """The installation cannot start."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to run where. `setup_url` gives the link for the first administrator, or None."""

    names: tuple[str, ...]
    place: Place
    environ: Mapping[str, str]
    num_web_processes: int
    seats: Sequence[Seat]
    is_redis_private: bool
    setup_url: Callable[[str], str | None]


class Supervisor:
    """Call `run` once. Owner: the main thread's event loop."""

    def __init__(self, plan: Plan, log: CombinedLog) -> None:
        self._plan = plan
        self._place = plan.place
        self._log = log
        self._reaper = Reaper()
        self._stop = asyncio.Event()
        self._stopped_at = 0.0
        self._web_socket: socket.socket | None = None
        self._children: dict[Child, asyncio.Task[None]] = {}
        self._background: list[asyncio.Task[None]] = []

    async def run(self) -> int:
        """The exit code: 0 after a signal, 1 when something could not start."""
        self._listen_for_signals()
        try:
            await self._start()
            return await self._until_stopped()
        except CannotStart as error:
            self._log.say(str(error))
            return 1
        finally:
            await self._end_all()
            self._reaper.close()

    # -- start ----------------------------------------------------------------------------------

    async def _start(self) -> None:
        if await self._unless_stopped(self._start_redis()):
            return
        if await self._unless_stopped(self._prepare()):
            return
        self._mention_openblas()
        for part in make_parts(
            self._plan.names,
            self._place,
            self._plan.environ,
            num_web_processes=self._plan.num_web_processes,
            web_socket=self._listen(),
            seats=self._plan.seats,
        ):
            child = self._start_child(part)
            if part.engine is not None:
                self._start_task(watch_engine(child, get_client(), self._log.say))
        if "web" in self._plan.names:
            self._start_task(self._announce())

    async def _prepare(self) -> None:
        """Where only engines run, the database and the models are another machine's."""
        if set(self._plan.names) <= set(NO_DJANGO):
            return
        self._log.say("preparing the database and the models")
        await self._in_thread(prepare, self._place.data_dir / "run")

    def _listen(self) -> int:
        """Whoever connects while a web process starts or is replaced waits instead of failing."""
        if "web" in self._plan.names:
            try:
                self._web_socket = listen(self._place.bind, self._place.port)
            except OSError as error:
                raise CannotStart(
                    f"Nobody can listen on port {self._place.port}: {error}"
                ) from error
        return self._web_socket.fileno() if self._web_socket else -1

    async def _start_redis(self) -> None:
        if not self._plan.is_redis_private:
            await self._in_thread(check_redis, self._place.redis_url)
            return
        binary = redis_server.find_redis_server(self._plan.environ)
        socket_path = redis_server.socket_path_of(self._place.redis_url)
        folder = self._place.data_dir / "redis"
        redis_server.make_redis_folders(socket_path=socket_path, folder=folder)
        await self._end_forgotten_redis(socket_path)
        command = redis_server.redis_arguments(binary, socket_path=socket_path, folder=folder)
        self._log.say(f"private Redis {binary}")
        redis = self._start_child(Part(name="redis", command=tuple(command)))
        await self._wait_for_redis(redis, socket_path, folder)
        await asyncio.to_thread(redis_server.shorten_files, socket_path)
        self._start_task(self._look_after_redis(redis, socket_path, folder))

    async def _end_forgotten_redis(self, socket_path: Path) -> None:
        """Who killed supervisor and reaper together left it; two would write to the same files."""
        deadline = asyncio.get_running_loop().time() + REDIS_END_SECONDS
        while await asyncio.to_thread(redis_server.is_answering, socket_path):
            if asyncio.get_running_loop().time() > deadline:
                raise CannotStart(f"Another Redis answers at {socket_path} and does not end.")
            await asyncio.to_thread(redis_server.end, socket_path)

    async def _wait_for_redis(self, redis: Child, socket_path: Path, folder: Path) -> None:
        deadline = asyncio.get_running_loop().time() + REDIS_START_SECONDS
        may_be_files = True
        while not await asyncio.to_thread(redis_server.is_answering, socket_path):
            if may_be_files and (redis.last_returncode or 0) > 0:
                may_be_files = False
                self._put_aside(socket_path, folder)
            if asyncio.get_running_loop().time() > deadline:
                raise CannotStart("The private Redis does not answer; its own words are above.")
            await asyncio.sleep(POLL_SECONDS / 4)

    async def _look_after_redis(self, redis: Child, socket_path: Path, folder: Path) -> None:
        """For ever. Its files are put aside once in a time without an answer: what it writes then
        is not to take the place of what is aside."""
        num_faults, counted = 0, redis.started_at
        while True:
            await asyncio.sleep(POLL_SECONDS)
            if await asyncio.to_thread(redis_server.is_answering, socket_path):
                num_faults, counted = 0, redis.started_at
            elif redis.pid is None and redis.started_at != counted:
                counted = redis.started_at
                num_faults += (redis.last_returncode or 0) > 0
                if num_faults == FAULTS_OF_FILES:
                    self._put_aside(socket_path, folder)

    def _put_aside(self, socket_path: Path, folder: Path) -> None:
        """A crash may leave what Redis cannot read. The database has all that must be kept."""
        aside = redis_server.put_aside(folder)
        redis_server.make_redis_folders(socket_path=socket_path, folder=folder)
        self._log.say(f"Redis begins empty: what it had written may be broken, see {aside}")

    def _start_child(self, part: Part) -> Child:
        checkout = str(self._place.checkout)
        child = Child(part, reaper=self._reaper, write=self._log.write, folder=checkout)
        self._children[child] = asyncio.create_task(child.run())
        return child

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
        self._background.append(asyncio.create_task(work))

    def _mention_openblas(self) -> None:
        if "engine" not in self._plan.names or not openblas.is_wanted():
            return
        library = openblas.find_openblas(self._plan.environ)
        self._log.say(
            f"OpenBLAS for the engine: {library}"
            if library
            else f"no OpenBLAS found: MLX on this CPU runs about 20 times slower than it could. "
            f"{openblas.HOW_TO_GET_IT}"
        )

    async def _announce(self) -> None:
        """Say when all is ready, or what is missing if that takes long."""
        waited = 0.0
        while (reason := await asyncio.to_thread(why_not_ready, self._place)) is not None:
            await asyncio.sleep(POLL_SECONDS)
            waited += POLL_SECONDS
            if waited >= FIRST_COMPLAINT_SECONDS:
                self._log.say(f"not ready yet: {reason}")
                waited = 0.0
        url = self._place.public_url
        self._log.say(f"Hearth is ready at {url}   (Ctrl-C ends it)")
        setup_url = await self._in_thread(self._plan.setup_url, url)
        if setup_url is not None:
            self._log.say("Nobody administers this installation yet. This link works once:")
            self._log.say(f"    {setup_url}")

    # -- run and end ----------------------------------------------------------------------------

    def _listen_for_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
                continue  # under nohup: the end of the terminal is not the end of this
            loop.add_signal_handler(number, self._on_signal)

    def _on_signal(self) -> None:
        now = asyncio.get_running_loop().time()
        if not self._stop.is_set():
            self._stopped_at = now
            self._stop.set()
        elif now - self._stopped_at > IMPATIENT_SECONDS:  # again: at once
            for child in self._children:
                child.end()
                child.send(signal.SIGKILL)

    async def _until_stopped(self) -> int:
        """A task that ends with an error is a fault of the supervisor itself."""
        stop = asyncio.create_task(self._stop.wait())
        running: set[asyncio.Task[Any]] = {stop, *self._children.values(), *self._background}
        while not stop.done():
            done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for error in filter(None, (task.exception() for task in done)):
                stop.cancel()
                raise CannotStart(f"The supervisor itself has failed: {error!r}") from error
        return 0

    async def _unless_stopped(self, work: Awaitable[T]) -> bool:
        """Whether a signal came before the work was done. Raises CannotStart for its faults."""
        task, stop = asyncio.ensure_future(work), asyncio.create_task(self._stop.wait())
        await asyncio.wait([task, stop], return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        if not task.done():
            task.cancel()
            return True
        if (error := task.exception()) is not None:
            raise CannotStart(str(error)) from error
        return False

    async def _end_all(self) -> None:
        for task in self._background:
            task.cancel()
        if self._web_socket is not None:
            self._web_socket.close()
        if self._children:
            self._log.say("stopping")
        redis = [child for child in self._children if child.part.name == "redis"]
        await self._end([one for one in self._children if one not in redis], seconds=END_SECONDS)
        await self._end(redis, seconds=REDIS_END_SECONDS)

    async def _end(self, children: Iterable[Child], *, seconds: float) -> None:
        tasks = {self._children[child]: child for child in children}
        for child in tasks.values():
            child.end()
        if not tasks:
            return
        _, slow = await asyncio.wait(tasks, timeout=seconds)
        for task in slow:
            self._log.say(f"{tasks[task].part.name} did not stop in {seconds:g} s and is killed")
            tasks[task].send(signal.SIGKILL)
        await asyncio.wait(tasks, timeout=KILLED_SECONDS)

    async def _in_thread(self, function: Callable[..., T], *arguments: object) -> T:
        """Like asyncio.to_thread, but the interpreter's end does not wait for this thread."""
        loop, future = asyncio.get_running_loop(), asyncio.get_running_loop().create_future()
        threading.Thread(
            target=_call, args=(loop, future, function, arguments), daemon=True
        ).start()
        return await future  # type: ignore[no-any-return]


def _call(
    loop: asyncio.AbstractEventLoop,
    future: asyncio.Future[T],
    function: Callable[..., T],
    arguments: tuple[object, ...],
) -> None:
    def settle(result: T | None, error: Exception | None) -> None:
        if future.cancelled():
            return
        if error is None:
            future.set_result(result)  # type: ignore[arg-type]
        else:
            future.set_exception(error)

    try:
        result, error = function(*arguments), None
    except Exception as caught:  # the thread ends here; whoever awaits the future gets it
        result, error = None, caught
    if not loop.is_closed():
        loop.call_soon_threadsafe(settle, result, error)


def check_redis(url: str) -> None:
    """Raises CannotStart when the Redis that was named does not answer, or lets nobody in."""
    try:
        get_client().ping()
    except EngineUnavailable as error:
        reason = str(error).rstrip(".")
        raise CannotStart(f"The Redis at {_without_password(url)}: {reason}.") from error


def _without_password(url: str) -> str:
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"
