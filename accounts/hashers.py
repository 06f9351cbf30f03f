"""How passwords are kept: as Django's Argon2 makes them, of which each takes 100 MiB for a moment.

Anybody may send passwords, many at once, and every thread of a web process would look at one.
"""

from __future__ import annotations

import threading

from django.contrib.auth.hashers import Argon2PasswordHasher

AT_ONCE = 2  # in a process; the others wait

_turns = threading.BoundedSemaphore(AT_ONCE)


class Argon2(Argon2PasswordHasher):
    def encode(self, password: str, salt: str) -> str:
        with _turns:
            return super().encode(password, salt)

    def verify(self, password: str, encoded: str) -> bool:
        with _turns:
            return super().verify(password, encoded)
