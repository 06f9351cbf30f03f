"""`python -m hosting.download REPOSITORY FOLDER`: the files of a model from Hugging Face.

Who starts it reads lines of JSON: {"total_bytes": 100}, and {"error": "..."} where it fails. Files
that lie in the folder already, complete, are not fetched again. It ends with whoever started it:
when its standard input does.
"""

from __future__ import annotations

import fnmatch
import json
import logging
import os
import sys
import threading
from collections.abc import Callable

_WANTED = ["*.json", "*.safetensors", "*.jinja", "*.txt", "*.model", "*.tiktoken"]
_ORPHANED = 3

Tell = Callable[[dict[str, int | str]], None]


def main() -> int:
    tell = _teller()
    repo_id, folder = sys.argv[1:]
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
    try:
        tell({"total_bytes": _total_bytes(repo_id)})
        _download(repo_id, folder)
    except Exception as error:
        logging.warning("fetch failed: %s", repo_id, exc_info=True)
        tell({"error": _explain(repo_id, error)})
        return 1
    return 0


def _download(repo_id: str, folder: str) -> None:
    from huggingface_hub import snapshot_download  # slow to import: our end is watched before

    snapshot_download(repo_id, local_dir=folder, allow_patterns=_WANTED)


def _total_bytes(repo_id: str) -> int:
    from huggingface_hub import HfApi

    info = HfApi().model_info(repo_id, files_metadata=True)
    return sum(file.size or 0 for file in info.siblings or () if _is_wanted(file.rfilename))


def _is_wanted(name: str) -> bool:
    return any(fnmatch.fnmatch(name, pattern) for pattern in _WANTED)


def _explain(repo_id: str, error: Exception) -> str:
    from httpx2 import HTTPError
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    if isinstance(error, GatedRepoError):
        return f"{repo_id} asks for an agreement: accept it on huggingface.co and set HF_TOKEN."
    if isinstance(error, RepositoryNotFoundError):
        return f"Hugging Face has no model {repo_id}, or it is private (set HF_TOKEN)."
    if isinstance(error, (OSError, HTTPError)):
        return (
            f"{repo_id} could not be fetched: this machine does not reach huggingface.co or its "
            f"disk is full ({type(error).__name__}). Copy the folder here and register its path."
        )
    return f"{repo_id} could not be fetched: {type(error).__name__}."


def _teller() -> Tell:
    """What the library prints goes to the log, beside what is told here."""
    lines = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return lambda told: print(json.dumps(told), file=lines, flush=True)


def _end_with_parent() -> None:
    while os.read(sys.stdin.fileno(), 1):  # sys.stdin's own lock would be in the way of our end
        pass
    os._exit(_ORPHANED)


if __name__ == "__main__":
    sys.exit(main())
