"""Whether loading from disk beats computing again: a line fitted to what restores really took.

    seconds = per_record * records + bytes / bandwidth

Both coefficients are exponentially weighted averages; it knows no clock and no disk.
"""

from __future__ import annotations

SMOOTHING = 0.2
FIRST_BYTES_PER_SECOND = 500e6
FIRST_RECORD_SECONDS = 0.5e-3
LARGE_RESTORE_BYTES = 1 << 20


class RestoreCosts:
    def __init__(self) -> None:
        self.bytes_per_second = FIRST_BYTES_PER_SECOND
        self.record_seconds = FIRST_RECORD_SECONDS

    def load_seconds(self, num_bytes: int, num_records: int) -> float:
        return num_records * self.record_seconds + num_bytes / self.bytes_per_second

    def learn(self, num_bytes: int, num_records: int, seconds: float) -> None:
        """Large restores tell the bandwidth, small ones what a record costs by itself."""
        if num_records == 0 or seconds <= 0:
            return
        if num_bytes >= LARGE_RESTORE_BYTES:
            measured = num_bytes / seconds
            self.bytes_per_second += SMOOTHING * (measured - self.bytes_per_second)
        else:
            measured = seconds / num_records
            self.record_seconds += SMOOTHING * (measured - self.record_seconds)
