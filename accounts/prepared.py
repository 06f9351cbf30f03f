"""Queries that every request asks: their SQL is written once in a process. To build and compile one
with the ORM takes ten times as long as SQLite needs to answer it.

    @prepared
    def _emails(*, active: bool) -> QuerySet:
        return User.objects.filter(pk=Given("person"), is_active=active).values_list("email")

    rows = _emails(active=True).rows(person=7)
"""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable, Iterable
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.models import Expression, QuerySet


class Given(Expression):
    """Stands in a query for a value that each run brings, as the database stores it."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def as_sql(self, compiler: Any, connection: Any) -> Any:
        return "%s", [self]


class PreparedQuery:
    """May be used from any thread."""

    def __init__(self, build: Callable[[], QuerySet[Any, Any]]) -> None:
        self._build = build
        self._written: tuple[str, tuple[Any, ...], dict[int, Any]] | None = None

    def rows(self, **given: Any) -> list[tuple[Any, ...]]:
        connection = connections[DEFAULT_DB_ALIAS]
        if self._written is None:
            self._written = _write(self._build(), connection)
        sql, params, converters = self._written
        with connection.cursor() as cursor:
            cursor.execute(sql, [_filled(one, given, connection) for one in params])
            rows: Iterable[Any] = cursor.fetchall()
        return [_converted(row, converters, connection) for row in rows]


def prepared(build: Callable[..., QuerySet[Any, Any]]) -> Callable[..., PreparedQuery]:
    """Of each query that `build` makes of its arguments: a values_list(), with Given values."""

    @functools.cache
    def prepare(**shape: Any) -> PreparedQuery:
        return PreparedQuery(functools.partial(build, **shape))

    return prepare


def _write(query: QuerySet[Any, Any], connection: Any) -> tuple[str, tuple[Any, ...], Any]:
    compiler = query.query.get_compiler(connection=connection)
    sql, params = compiler.as_sql()
    return sql, tuple(params), compiler.get_converters([one[0] for one in compiler.select])


def _filled(param: Any, given: dict[str, Any], connection: Any) -> Any:
    value = given[param.name] if isinstance(param, Given) else param
    if isinstance(value, datetime.datetime):
        return connection.ops.adapt_datetimefield_value(value)
    return value


def _converted(row: Any, converters: dict[int, Any], connection: Any) -> tuple[Any, ...]:
    values = list(row)
    for place, (functions, expression) in converters.items():
        for function in functions:
            values[place] = function(values[place], expression, connection)
    return tuple(values)
