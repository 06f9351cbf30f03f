"""A server that computes nothing and writes into every frame when it sent it.

`python -m tests.bench.null_server PORT`. All streams step together, as the rows of a batch do.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

STEP_SECONDS = 0.01
STAMP = "{:.6f} "  # the sent time, as text of the answer

_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
    b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
)


class NullServer:
    def __init__(self, *, step_seconds: float = STEP_SECONDS) -> None:
        self._step_seconds = step_seconds

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if (await _request_line(reader)).startswith(b"GET"):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        else:
            await self._stream(writer, max_tokens=(await _body(reader))["max_tokens"])
        await writer.drain()
        writer.close()

    async def _stream(self, writer: asyncio.StreamWriter, *, max_tokens: int) -> None:
        writer.write(_HEAD)
        for _ in range(max_tokens):
            await self._next_step()
            content = STAMP.format(time.perf_counter())
            writer.write(_frame({"choices": [{"delta": {"content": content}}]}))
        writer.write(_frame({"choices": [{"delta": {}, "finish_reason": "length"}]}))
        usage = {"prompt_tokens": 1, "completion_tokens": max_tokens}
        writer.write(_frame({"choices": [], "usage": usage}))
        writer.write(_chunk(b"data: [DONE]\n\n") + _chunk(b""))

    async def _next_step(self) -> None:
        now = asyncio.get_running_loop().time()
        await asyncio.sleep(self._step_seconds - now % self._step_seconds)


async def _request_line(reader: asyncio.StreamReader) -> bytes:
    return await reader.readline()


async def _body(reader: asyncio.StreamReader) -> dict[str, int]:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = int(head.partition(b"content-length:")[2].split(b"\r\n")[0])
    body: dict[str, int] = json.loads(await reader.readexactly(length))
    return body


def _frame(plain: dict[str, object]) -> bytes:
    return _chunk(b"data: " + json.dumps(plain).encode() + b"\n\n")


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


async def main(port: int) -> None:
    server = await asyncio.start_server(NullServer().serve, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
