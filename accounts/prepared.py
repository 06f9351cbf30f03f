"""Queries that every request asks: their SQL is written once in a process. To build and compile one
with the ORM takes ten times as long as SQLite needs to answer it.

    @prepared
    def _emails(*, active: bool) -> QuerySet:
        return User.objects.filter(pk=Given("person"), is_active=active).values_list("email")

    rows = _emails(active=True).rows(person=7)

Without values_list() it gives `objects(person=7)`.

    update_rows(User, {7: {"name": "Ann"}, 8: {"name": "Bob"}})
    insert_row(Generation(...))
"""

from __future__ import annotations

import datetime
import functools
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.models import Expression, Model, QuerySet
from django.db.models.query import get_related_populators
from django.db.models.sql import UpdateQuery


class Given(Expression):
    """Stands in a query for a value that each run brings, as the database stores it."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def as_sql(self, compiler: Any, connection: Any) -> Any:
        return "%s", [self]


Row = tuple[Any, ...]


class _Written(NamedTuple):
    """`make`: a row's model instance, if it is one's."""

    sql: str
    params: tuple[Any, ...]
    converters: dict[int, Any]
    make: Callable[[Row], Any] | None


class PreparedQuery:
    """May be used from any thread."""

    def __init__(self, build: Callable[[], QuerySet[Any, Any]]) -> None:
        self._build = build
        self._known: _Written | None = None

    def rows(self, **given: Any) -> list[Row]:
        connection = connections[DEFAULT_DB_ALIAS]
        written = self._written(connection)
        with connection.cursor() as cursor:
            cursor.execute(written.sql, [_filled(one, given, connection) for one in written.params])
            rows: Iterable[Any] = cursor.fetchall()
        return [_converted(row, written.converters, connection) for row in rows]

    def objects(self, **given: Any) -> list[Any]:
        """Instances of the model, and of what the query's select_related() names."""
        make = self._written(connections[DEFAULT_DB_ALIAS]).make
        assert make is not None, "a values_list() has none"
        return [make(row) for row in self.rows(**given)]

    def _written(self, connection: Any) -> _Written:
        if self._known is None:
            self._known = _write(self._build(), connection)
        return self._known


def prepared(build: Callable[..., QuerySet[Any, Any]]) -> Callable[..., PreparedQuery]:
    """Of each query that `build` makes of its arguments: a values_list(), with Given values."""

    @functools.cache
    def prepare(**shape: Any) -> PreparedQuery:
        return PreparedQuery(functools.partial(build, **shape))

    return prepare


def update_rows(model: type[Model], rows: Mapping[Any, Mapping[str, Any]]) -> None:
    """Give these rows, by primary key, new values: the same fields in each."""
    if not rows:
        return
    names = tuple(next(iter(rows.values())))
    fields: list[Any] = [*map(model._meta.get_field, names), model._meta.pk]
    connection = connections[DEFAULT_DB_ALIAS]
    params = [
        [
            field.get_db_prep_save(value, connection)
            for field, value in zip(fields, (*(values[name] for name in names), pk), strict=True)
        ]
        for pk, values in rows.items()
    ]
    with connection.cursor() as cursor:
        cursor.executemany(_written_update(model, names), params)


def insert_row(made: Model) -> None:
    """As save(force_insert=True) of a row that brings its primary key, of a model without parents
    and without values that the database makes; no signal is sent."""
    connection = connections[DEFAULT_DB_ALIAS]
    params = [
        field.get_db_prep_save(field.pre_save(made, add=True), connection)
        for field in made._meta.concrete_fields
    ]
    with connection.cursor() as cursor:
        cursor.execute(_written_insert(type(made)), params)
    made._state.adding = False
    made._state.db = DEFAULT_DB_ALIAS


@functools.cache
def _written_insert(model: type[Model]) -> str:
    names = connections[DEFAULT_DB_ALIAS].ops.quote_name
    fields: Sequence[Any] = model._meta.concrete_fields
    columns = ", ".join(names(field.column) for field in fields)
    places = ", ".join("%s" for _ in fields)
    return f"INSERT INTO {names(model._meta.db_table)} ({columns}) VALUES ({places})"


@functools.cache
def _written_update(model: type[Model], names: tuple[str, ...]) -> str:
    query: Any = model._base_manager.filter(pk=Given("pk")).query.chain(UpdateQuery)
    query.add_update_values({name: Given(name) for name in names})
    return str(query.get_compiler(DEFAULT_DB_ALIAS).as_sql()[0])


def _write(query: QuerySet[Any, Any], connection: Any) -> _Written:
    compiler = query.query.get_compiler(connection=connection)
    sql, params = compiler.as_sql()
    converters = compiler.get_converters([one[0] for one in compiler.select])
    make = _maker(compiler.klass_info, compiler.select) if compiler.klass_info else None
    return _Written(sql, tuple(params), converters, make)


def _maker(info: dict[str, Any], select: Any) -> Callable[[Row], Any]:
    """As django.db.models.query.ModelIterable does it."""
    columns = info["select_fields"]
    names = [select[column][0].target.attname for column in columns]
    # The stubs know Django 6's
    related = get_related_populators(info, select, DEFAULT_DB_ALIAS)  # type: ignore[call-arg]

    def make(row: Row) -> Any:
        made = info["model"].from_db(DEFAULT_DB_ALIAS, names, [row[one] for one in columns])
        for one in related:
            one.populate(row, made)
        return made

    return make


def _filled(param: Any, given: dict[str, Any], connection: Any) -> Any:
    value = given[param.name] if isinstance(param, Given) else param
    if isinstance(value, datetime.datetime):
        return connection.ops.adapt_datetimefield_value(value)
    if isinstance(value, uuid.UUID) and not connection.features.has_native_uuid_field:
        return value.hex
    return value


def _converted(row: Any, converters: dict[int, Any], connection: Any) -> Row:
    values = list(row)
    for place, (functions, expression) in converters.items():
        for function in functions:
            values[place] = function(values[place], expression, connection)
    return tuple(values)
