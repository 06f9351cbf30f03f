"""One supervised process: start it, read its output, start it again when it dies, end it.

Each child leads a session of its own: a Ctrl-C at the terminal reaches the supervisor only, and a
signal to the group reaches what the child has started.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable

from hosting.supervisor.backoff import Backoff
from hosting.supervisor.parts import Part
from hosting.supervisor.reaper import Reaper, signal_group

LONGEST_LINE_BYTES = 1024 * 1024
LAST_WORDS_SECONDS = 0.5


class Child:
    """States: waiting → running (pid is set) → waiting → ... → ended. Owner: the event loop."""

    def __init__(
        self, part: Part, *, reaper: Reaper, write: Callable[[str, str], None], folder: str
    ) -> None:
        self.part = part
        self.pid: int | None = None
        self.last_returncode: int | None = None
        self.started_at = 0.0
        self._reaper = reaper
        self._write = write
        self._folder = folder
        self._backoff = Backoff()
        self._ending = asyncio.Event()

    async def run(self) -> None:
        """Keep the process alive until `end` is called."""
        while not self._ending.is_set():
            self.started_at = time.monotonic()
            how = await self._live_once()
            if self._ending.is_set():
                return
            lived = time.monotonic() - self.started_at
            delay = self._backoff.next_delay(lived_seconds=lived)
            self._say(f"{how} after {lived:.0f} s; starts again in {delay:g} s")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), delay)

    def end(self) -> None:
        """Ask the process to stop, and do not start it again."""
        self._ending.set()
        self._send_end()

    def send(self, number: int) -> None:
        if self.pid is not None:
            signal_group(self.pid, number)

    def _send_end(self) -> None:
        self.send(signal.SIGTERM)
        self.send(signal.SIGCONT)  # a stopped process cannot act on SIGTERM

    async def _live_once(self) -> str:
        """How it ended, in words."""
        try:
            process, read_end = await self._start()
        except OSError as error:  # out of memory, processes or files: that may pass
            return f"could not start ({error})"
        self.pid = process.pid
        self._reaper.watch(process.pid)
        if self._ending.is_set():  # asked to end while it was being started
            self._send_end()
        output = asyncio.create_task(self._copy_output(read_end))
        returncode = await process.wait()
        self.pid, self.last_returncode = None, returncode
        signal_group(process.pid, signal.SIGKILL)  # what it started does not outlive it
        self._reaper.forget(process.pid)
        await asyncio.wait([output], timeout=LAST_WORDS_SECONDS)
        output.cancel()
        return f"ended {_how(returncode)}"

    async def _start(self) -> tuple[asyncio.subprocess.Process, int]:
        """The process and the end of the pipe to read its output from."""
        read_end, write_end = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                *self.part.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=write_end,
                stderr=write_end,
                cwd=self._folder,
                env={**os.environ, **self.part.environment},
                start_new_session=True,
                pass_fds=self.part.inherits,
            )
        except OSError:
            os.close(read_end)
            raise
        finally:
            os.close(write_end)
        return process, read_end

    async def _copy_output(self, read_end: int) -> None:
        # The pipe is ours and not asyncio's, so that wait() is about the process and not about
        # whoever else has inherited its output.
        reader = asyncio.StreamReader(limit=LONGEST_LINE_BYTES)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(read_end, "rb")
        )
        with contextlib.closing(transport):
            while line := await _read_line(reader):
                self._say(line.decode("utf-8", "replace").rstrip())

    def _say(self, text: str) -> None:
        self._write(self.part.name, text)


async def _read_line(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readline()
    except ValueError:  # longer than the limit; what was read so far is dropped
        return b"(a very long line was left out)\n"


def _how(returncode: int) -> str:
    if returncode >= 0:
        return f"with exit code {returncode}"
    return f"by {signal.Signals(-returncode).name}"
