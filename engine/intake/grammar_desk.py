"""Has grammars tried before their requests are let in, so that a bomb hurts nobody else.

A trial is a process; one that takes too long is killed and replaced. What a trial said is kept.
"""

from __future__ import annotations

import collections
import hashlib
import json
import queue
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from engine import wire
from engine.intake.refusal import invalid

NUM_TRIALS = 2  # at once: behind one bomb, others' grammars still go on
MAX_SOURCE_CHARACTERS = 1_000_000
MAX_VERDICTS = 4096
_TOO_MUCH = "it takes too much time or memory to compile"

Verdict = tuple[int, str] | None


class GrammarDesk:
    """`check` answers at once or says when to ask again. Used by one thread."""

    def __init__(self) -> None:
        self._verdicts: collections.OrderedDict[str, Verdict] = collections.OrderedDict()
        self._running: dict[str, Future[Verdict]] = {}
        self._trials = [_Trial() for _ in range(NUM_TRIALS)]
        self._idle: queue.SimpleQueue[_Trial] = queue.SimpleQueue()
        for trial in self._trials:
            self._idle.put(trial)
        self._threads = ThreadPoolExecutor(NUM_TRIALS, thread_name_prefix="grammar-trial")

    def warm_up(self) -> None:
        """Start the trials' processes, so that the first request need not wait for that."""
        for _ in range(NUM_TRIALS):
            self._threads.submit(self._try, "[]")

    def check(self, grammars: Sequence[wire.Grammar]) -> bool:
        """True: all can be compiled. False: not known yet. Raises Refusal."""
        for grammar in grammars:
            _check_size(grammar)
        line = json.dumps([wire.to_plain(grammar) for grammar in grammars])
        key = hashlib.sha256(line.encode()).hexdigest()
        self._collect()
        if key not in self._verdicts:
            if key not in self._running:
                self._running[key] = self._threads.submit(self._try, line)
            elif self._running[key].done():  # without a verdict: that is for who asked for it
                self._running.pop(key).result()
            return False
        self._verdicts.move_to_end(key)
        _raise_for(self._verdicts[key], grammars)
        return True

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        for trial in self._trials:
            trial.kill()
        self._threads.shutdown(wait=True)
        for trial in self._trials:
            trial.bury()

    def _collect(self) -> None:
        for key, future in list(self._running.items()):
            if future.done() and future.exception() is None:
                self._verdicts[key] = self._running.pop(key).result()
        while len(self._verdicts) > MAX_VERDICTS:
            self._verdicts.popitem(last=False)

    def _try(self, line: str) -> Verdict:
        trial = self._idle.get()
        try:
            return trial.run(line)
        finally:
            self._idle.put(trial)


class _Trial:
    """One process for trials, replaced when it dies. Used by one thread at a time."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def run(self, line: str) -> Verdict:
        process = self.start()
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(line + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        except OSError:
            answer = ""
        if not answer:
            return 0, _TOO_MUCH
        verdict = json.loads(answer)
        return None if verdict is None else (verdict[0], verdict[1])

    def start(self) -> subprocess.Popen[str]:
        """The process, ready for a line."""
        if self._process is not None and self._process.poll() is None:
            return self._process
        self.bury()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "engine.intake.grammar_trial"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        self._process.stdout.readline()
        return self._process

    def kill(self) -> None:
        """From any thread: who waits for it reads an end."""
        if self._process is not None:
            self._process.kill()

    def bury(self) -> None:
        """Of a dead process: nothing of it stays behind."""
        if self._process is not None:
            self._process.communicate()
            self._process = None


def _check_size(grammar: wire.Grammar) -> None:
    if len(grammar.source) > MAX_SOURCE_CHARACTERS:
        raise invalid(
            grammar.param,
            f"{grammar.param} is too large: {len(grammar.source)} characters.",
            limit=MAX_SOURCE_CHARACTERS,
            given=len(grammar.source),
        )


def _raise_for(verdict: Verdict, grammars: Sequence[wire.Grammar]) -> None:
    if verdict is None:
        return
    number, reason = verdict
    param = grammars[number].param
    raise invalid(param, f"{param} cannot be used: {reason}.")
