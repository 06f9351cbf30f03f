"""Who reaches the service by a name that it does not answer to is told which setting knows it."""

from __future__ import annotations

import pytest
from django.test import Client

HOST = {"host": "studio.example.org"}


def test_a_script_is_told_in_json() -> None:
    response = Client().get("/v1/models", headers=HOST)
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (400, "unknown_host")
    assert "HEARTH_ALLOWED_HOSTS" in error["message"]


def test_it_is_told_in_anthropics_dialect_where_that_is_spoken() -> None:
    version = {"anthropic-version": "2023-06-01"}
    response = Client().post("/v1/messages", headers=HOST | version)
    assert response.status_code == 400
    assert response.json()["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize("path", ["/", "/accounts/sign-in/", "/admin/"])
def test_people_are_told_on_a_page(path: str) -> None:
    response = Client().get(path, headers=HOST)
    assert response.status_code == 400
    page = response.content.decode()
    assert "HEARTH_ALLOWED_HOSTS" in page
    assert "Back to the chat" not in page  # it would lead here


def test_the_log_has_one_line_for_it(caplog: pytest.LogCaptureFixture) -> None:
    Client().get("/v1/models", headers=HOST)
    (record,) = caplog.records
    assert (record.levelname, record.exc_info) == ("WARNING", None)
    assert HOST["host"] in record.getMessage()


def test_the_log_has_none_where_only_errors_are_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("ERROR")
    Client().get("/v1/models", headers=HOST)
    assert caplog.records == []
