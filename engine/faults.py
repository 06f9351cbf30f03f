"""What is told, and logged, of a request that its model could not go on with."""

from __future__ import annotations

import logging

from engine import wire
from engine.sizing.exhaustion import is_out_of_memory

logger = logging.getLogger(__name__)


def engine_error(
    request_id: str, *, model: str, usage: wire.Usage, error: Exception
) -> wire.Failed:
    fields = {"request_id": request_id, "model": model}
    logger.error("request failed", extra=fields, exc_info=error)
    detail = f"The model could not go on with this request ({type(error).__name__})."
    if is_out_of_memory(error):
        detail = "The device has no memory left for this request; other programs may use it too."
    return wire.Failed(code=wire.Code.ENGINE_ERROR, detail=detail, usage=usage)
