"""`taskengine migrate`: the database's schema."""

from __future__ import annotations

from typing import Protocol

import typer

from taskengine.cli.options import Config, Json, new_app

app = new_app("Bring the database's schema up to date.")


class Migration(Protocol):
    """What is shown of a migration (the store is loaded only by a command that runs)."""

    @property
    def version(self) -> int: ...
    @property
    def name(self) -> str: ...


@app.command()
def up(config: Config = None, as_json: Json = False) -> None:
    """Apply what is pending; waits for whoever is migrating already."""
    from taskengine.cli import out
    from taskengine.cli.session import finish, load
    from taskengine.store import migrate

    settings = load(config).config.postgres
    applied = finish(lambda: migrate.up(settings))
    columns = [out.Column[migrate.Migration]("applied", lambda m: f"{m.version:04d}_{m.name}")]
    out.show(applied, columns, _shape, as_json=as_json, nothing="the schema is up to date")


@app.command()
def status(config: Config = None, as_json: Json = False) -> None:
    """What is applied and what is pending."""
    from taskengine.cli import out
    from taskengine.cli.session import finish, load
    from taskengine.store import migrate

    settings = load(config).config.postgres
    found = finish(lambda: migrate.status(settings))

    def word(migration: migrate.Migration) -> str:
        if f"{migration.version:04d}_{migration.name}" in found.changed:
            return "changed"
        return "applied" if migration.version in found.applied else "pending"

    columns = [
        out.Column[migrate.Migration]("version", lambda m: f"{m.version:04d}"),
        out.Column[migrate.Migration]("name", lambda m: m.name),
        out.Column[migrate.Migration]("state", word),
    ]
    out.show(
        migrate.migrations(),
        columns,
        lambda m: _shape(m) | {"state": word(m)},
        as_json=as_json,
        nothing="there are no migrations",
    )


@app.command()
def check(config: Config = None) -> None:
    """Whether the schema is what this version needs.

    Exit status 78 where it is not.
    """
    from taskengine.cli import out
    from taskengine.cli.session import finish, load
    from taskengine.store import migrate

    settings = load(config).config.postgres
    finish(lambda: migrate.check(settings))
    out.note("the schema is up to date")
    raise typer.Exit(0)


def _shape(migration: Migration) -> dict[str, object]:
    return {"version": migration.version, "name": migration.name}
