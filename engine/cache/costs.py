"""Whether loading from disk beats computing again: a line fitted to what restores really took.

    seconds = per_record * records + bytes / bandwidth

Both coefficients are exponentially weighted averages, from the first measurement on. A disk that is
passed over is not measured: each time it is believed to be a little quicker, until it is tried
again, for what it was read with may have been a busy hour. It knows no clock and no disk.
"""

from __future__ import annotations

SMOOTHING = 0.2
FIRST_BYTES_PER_SECOND = 2e9  # an SSD's; what it is like is seen when it is read
FIRST_RECORD_SECONDS = 0.5e-3
LARGE_RESTORE_BYTES = 1 << 20
DOUBT = 0.01


class RestoreCosts:
    def __init__(self) -> None:
        self.bytes_per_second = FIRST_BYTES_PER_SECOND
        self.record_seconds = FIRST_RECORD_SECONDS
        self._has_bandwidth = False
        self._quicker = 1.0  # than measured, as it is believed to be

    def load_seconds(self, num_bytes: int, num_records: int) -> float:
        seconds = num_records * self.record_seconds + num_bytes / self.bytes_per_second
        return seconds / self._quicker

    def learn(self, num_bytes: int, num_records: int, seconds: float) -> None:
        """Large restores tell the bandwidth, small ones what a record costs by itself."""
        if num_records == 0 or seconds <= 0:
            return
        self._quicker = 1.0
        if num_bytes >= LARGE_RESTORE_BYTES:
            measured, weight = num_bytes / seconds, SMOOTHING if self._has_bandwidth else 1.0
            self.bytes_per_second += weight * (measured - self.bytes_per_second)
            self._has_bandwidth = True
        else:
            measured = seconds / num_records
            self.record_seconds += SMOOTHING * (measured - self.record_seconds)

    def note_passed_over(self) -> None:
        """It was thought to be slower than computing."""
        self._quicker *= 1 + DOUBT
