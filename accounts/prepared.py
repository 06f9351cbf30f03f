"""Queries that every request asks: their SQL is written once in a process. To build and compile one
with the ORM takes ten times as long as SQLite needs to answer it.

    @prepared
    def _emails(*, active: bool) -> QuerySet:
        return User.objects.filter(pk=Given("person"), is_active=active).values_list("email")

    rows = _emails(active=True).rows(person=7)

Without values_list() it gives `objects(person=7)`.

    @prepared_update
    def _add() -> Update:
        rows = Spending.objects.filter(day=Given("day"))
        return Update(rows, {"tokens": F("tokens") + Given("more")})

    num_rows = _add(day=today, more=5)

    update_rows(User, {7: {"name": "Ann"}, 8: {"name": "Bob"}})
    insert_rows([Generation(...)])
"""

from __future__ import annotations

import datetime
import functools
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.models import AutoField, Expression, Model, QuerySet
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


class Update(NamedTuple):
    """`values` by field, of Given values too."""

    rows: QuerySet[Any, Any]
    values: dict[str, Any]


def prepared_update(build: Callable[[], Update]) -> Callable[..., int]:
    """A function of the Given values: how many rows it has changed."""

    @functools.cache
    def written() -> tuple[str, tuple[Any, ...]]:
        return _write_update(build())

    def update(**given: Any) -> int:
        connection, (sql, params) = connections[DEFAULT_DB_ALIAS], written()
        with connection.cursor() as cursor:
            cursor.execute(sql, [_filled(one, given, connection) for one in params])
            return int(cursor.rowcount)

    return update


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


def insert_rows(made: Sequence[Model]) -> None:
    """As bulk_create() of rows of one model without parents and without values that the database
    makes; but numbers that it gives as primary keys are not read, and no signal is sent."""
    if not made:
        return
    fields = _inserted_fields(type(made[0]), has_key=made[0].pk is not None)
    connection = connections[DEFAULT_DB_ALIAS]
    params = [
        [field.get_db_prep_save(field.pre_save(one, add=True), connection) for field in fields]
        for one in made
    ]
    with connection.cursor() as cursor:
        cursor.executemany(_written_insert(fields), params)
    for one in made:
        one._state.adding = False
        one._state.db = DEFAULT_DB_ALIAS


@functools.cache
def _inserted_fields(model: type[Model], *, has_key: bool) -> tuple[Any, ...]:
    fields: Iterable[Any] = model._meta.concrete_fields
    return tuple(one for one in fields if has_key or not isinstance(one, AutoField))


@functools.cache
def _written_insert(fields: tuple[Any, ...]) -> str:
    names = connections[DEFAULT_DB_ALIAS].ops.quote_name
    columns = ", ".join(names(field.column) for field in fields)
    places = ", ".join("%s" for _ in fields)
    return f"INSERT INTO {names(fields[0].model._meta.db_table)} ({columns}) VALUES ({places})"


@functools.cache
def _written_update(model: type[Model], names: tuple[str, ...]) -> str:
    rows = model._base_manager.filter(pk=Given("pk"))
    return _write_update(Update(rows, {name: Given(name) for name in names}))[0]


def _write_update(update: Update) -> tuple[str, tuple[Any, ...]]:
    query: Any = update.rows.query.chain(UpdateQuery)
    query.add_update_values(update.values)
    sql, params = query.get_compiler(DEFAULT_DB_ALIAS).as_sql()
    return sql, tuple(params)


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
    if isinstance(value, datetime.date):
        return connection.ops.adapt_datefield_value(value)
    if isinstance(value, uuid.UUID) and not connection.features.has_native_uuid_field:
        return value.hex
    return value


def _converted(row: Any, converters: dict[int, Any], connection: Any) -> Row:
    values = list(row)
    for place, (functions, expression) in converters.items():
        for function in functions:
            values[place] = function(values[place], expression, connection)
    return tuple(values)
