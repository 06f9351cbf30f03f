"""Uploads through the real web process: larger than any other body, and never all in memory."""

from __future__ import annotations

from pathlib import Path

import httpx
import psutil

from hosting.models import HostedModel
from tests.hosting.web_process import started_web

MEGABYTE = 1024 * 1024
ALLOWED_MEGABYTES = 90


def post(url: str, api_key: str, num_bytes: int) -> httpx.Response:
    return httpx.post(
        f"{url}/files",
        files={"file": ("lines.jsonl", b"x" * num_bytes)},
        data={"purpose": "batch"},
        headers={"Authorization": f"Bearer {api_key}"},
        timeout=120,
    )


def test_a_large_file_is_taken_in_without_being_in_memory(
    api_key: str, model: HostedModel, redis_url: str, tmp_path: Path
) -> None:
    num_bytes = ALLOWED_MEGABYTES * MEGABYTE
    settings = {
        "HEARTH_MAX_FILE_MB": str(ALLOWED_MEGABYTES),
        "HEARTH_MIN_FREE_DISK_MB": "0",
        "HEARTH_DATA_DIR": str(tmp_path),
    }
    with started_web(redis_url, **settings) as (url, process):
        assert post(url, api_key, 1000).status_code == 200
        before = psutil.Process(process.pid).memory_info().rss
        response = post(url, api_key, num_bytes)
        assert (response.status_code, response.json()["bytes"]) == (200, num_bytes)
        after = psutil.Process(process.pid).memory_info().rss
        assert after - before < num_bytes / 3
        assert post(url, api_key, num_bytes + 1).json()["error"]["code"] == "file_too_large"
        refused = post(url, api_key, num_bytes + 2 * MEGABYTE)
        assert refused.status_code == 413
