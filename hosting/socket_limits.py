"""How much a websocket may send, and leave unread: beyond what any page of ours does we hang up.

Autobahn copies all that is unread for each frame of it, and Daphne's queue of messages has no end:
two megabytes of tiny frames held up everybody for 10 s. What we send waits in memory until it is
read. It knows nothing of what messages say.
"""

from __future__ import annotations

import time
from typing import Any

from daphne.ws_protocol import WebSocketProtocol

MAX_EARLY_BYTES = 64 * 1024  # before it is let in; a browser sends nothing but the head
MAX_MESSAGE_BYTES = 16 * 1024  # a page's longest has some 200
MAX_FRAMES = 1000  # in each window; a page that catches up with 64 answers sends some 200 a second
WINDOW_SECONDS = 2.0
MAX_UNSENT_BYTES = 16 * 2**20  # 64 answers with 512 events each that are not acknowledged


class LimitedSocket(WebSocketProtocol):
    """Daphne's, with an end to what is unread, to each message, and to their number."""

    _num_frames = 0
    _window_ends_at = 0.0

    def dataReceived(self, data: bytes) -> None:
        is_early = self.state == self.STATE_CONNECTING
        if is_early and len(self.data) + len(data) > MAX_EARLY_BYTES:
            self.transport.abortConnection()
        else:
            super().dataReceived(data)

    def onMessageFrameBegin(self, length: int) -> None:
        """Autobahn's own limit would bind what we send, too."""
        super().onMessageFrameBegin(length)
        if self.message_data_total_length > MAX_MESSAGE_BYTES:
            self.dropConnection(abort=True)

    def onFrameBegin(self) -> None:
        """Pings and pieces of messages count too: each costs the same."""
        super().onFrameBegin()
        if self._is_too_fast():
            self.dropConnection(abort=True)

    def serverSend(self, content: Any, binary: bool = False) -> None:
        """It follows the hang-up for a moment."""
        if self.state != self.STATE_CLOSED:
            super().serverSend(content, binary)

    def sendData(self, *arguments: Any, **options: Any) -> None:
        super().sendData(*arguments, **options)
        if self._num_unsent > MAX_UNSENT_BYTES:
            self.dropConnection(abort=True)

    @property
    def _num_unsent(self) -> int:
        """What Twisted's connection compares with its own limit, which nobody here obeys."""
        return len(self.transport.dataBuffer) + self.transport._tempDataLen

    def _is_too_fast(self) -> bool:
        now = time.monotonic()
        if now > self._window_ends_at:
            self._num_frames, self._window_ends_at = 0, now + WINDOW_SECONDS
        self._num_frames += 1
        return self._num_frames > MAX_FRAMES
