"""Downloads of a running service: cancelled, they leave nothing; interrupted, they go on."""

from __future__ import annotations

from collections.abc import Iterator

import psutil
import pytest

from tests.hub import REPOSITORY, Hub, running_hub
from tests.stack import Stack, running_stack

pytestmark = pytest.mark.stack
SOON_SECONDS = 5.0  # a second, on a machine that has nothing else to do
_CANCEL = """
from hosting.actions.hosted_models import cancel_fetch
from hosting.models import HostedModel
print(cancel_fetch(HostedModel.objects.get(name={name!r}), by=None))
"""


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[Stack, Hub]]:
    with running_hub() as hub, running_stack(HF_ENDPOINT=hub.address) as stack:
        yield stack, hub


@pytest.fixture
def stack(running: tuple[Stack, Hub]) -> Stack:
    return running[0]


@pytest.fixture
def hub(running: tuple[Stack, Hub]) -> Hub:
    """It keeps back the half of the weights, and has sent nothing yet."""
    hub = running[1]
    hub.sent.clear()
    hub.hold()
    return hub


def state(stack: Stack, name: str) -> tuple[str, float]:
    (row,) = stack.rows(
        f"SELECT state, fetch_fraction FROM hosting_hostedmodel WHERE name = '{name}'"
    )
    return row[0], row[1]


def folders(stack: Stack) -> list[str]:
    found = (stack.data_dir / "models").iterdir()
    return sorted(folder.name for folder in found if folder.is_dir())


def downloads(stack: Stack) -> list[psutil.Process]:
    worker = stack.processes().get("celery")
    try:
        found = worker.children() if worker else []
        return [child for child in found if "hosting.download" in child.cmdline()]
    except psutil.Error:  # it has ended meanwhile
        return []


def begin(stack: Stack, name: str) -> psutil.Process:
    stack.manage("add_model", REPOSITORY, "--name", name)
    small = stack.data_dir / "models" / "org--tiny.part" / "config.json"
    stack.wait_until(lambda: state(stack, name)[1] > 0.3 and small.exists(), "half of it is here")
    (child,) = downloads(stack)
    return child


def cancel(stack: Stack, name: str) -> str:
    return stack.manage("shell", "-c", _CANCEL.format(name=name))


def test_a_cancelled_download_leaves_nothing(stack: Stack, hub: Hub) -> None:
    child = begin(stack, "cancelled")
    assert cancel(stack, "cancelled") == "True"
    stack.wait_until(
        lambda: not child.is_running() and folders(stack) == [], "cleared", seconds=SOON_SECONDS
    )
    assert state(stack, "cancelled") == ("cancelled", 0.0)
    assert cancel(stack, "cancelled") == "False"


def test_a_download_whose_worker_is_killed_and_that_is_cancelled_then_leaves_nothing(
    stack: Stack, hub: Hub
) -> None:
    child = begin(stack, "orphaned")
    pid = stack.kill("celery")
    assert cancel(stack, "orphaned") == "True"
    stack.wait_restarted("celery", pid)
    stack.wait_until(lambda: not child.is_running() and folders(stack) == [], "cleared")
    assert state(stack, "orphaned") == ("cancelled", 0.0)


def test_a_download_goes_on_when_its_process_has_died(stack: Stack, hub: Hub) -> None:
    child = begin(stack, "interrupted")
    stack.kill("celery")
    stack.wait_until(lambda: hub.num_begun == 2, "fetching again")
    assert not child.is_running()
    hub.let_go()
    stack.wait_until(lambda: state(stack, "interrupted") == ("ready", 1.0), "fetched")
    assert folders(stack) == ["org--tiny"]
    assert hub.sent.count("config.json") == 1
