"""How long an engine may show no life: first the service is not ready, then the engine is ended.

An engine beats once a second, and the supervisor looks twice a second: both kinds of trouble are
seen within 5 s. Red comes before the end, so that nobody is sent to an engine about to be ended.
"""

from __future__ import annotations

# Without a new heartbeat
SILENT_RED_SECONDS = 3.5
SILENT_END_SECONDS = 4.0
# With work, and without progress
STALLED_RED_SECONDS = 3.0
STALLED_END_SECONDS = 3.5
