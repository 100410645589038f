"""The commands there are, and where each one is. Read for `--help`: it must import next to nothing.

Guarantees: the overview and the dispatch of commands come from one table, so neither knows a
command that the other does not.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Command(NamedTuple):
    """A command: the module whose `app` (Typer) it is, its sub-commands, and a line of help."""

    module: str
    verbs: str
    help: str


COMMANDS: Final[dict[str, Command]] = {
    "dev": Command("develop", "", "Try it: private Postgres and Valkey, example jobs, the daemon."),
    "run": Command("run", "", "Run the daemon in the foreground."),
    "migrate": Command("migrate", "up|status|check", "Bring the database's schema up to date."),
    "status": Command("status", "", "How the whole installation is doing."),
    "doctor": Command("doctor", "", "What is wrong, what it means, what mends it; --fix mends it."),
    "why": Command("why", "", "Why an execution waits, has not run, ran twice or failed."),
    "rebuild-delivery": Command("rebuild_delivery", "", "Write Redis anew from Postgres."),
    "dispatch": Command("dispatch", "", "Dispatch a job."),
    "executions": Command(
        "executions", "list|show|redrive|retry|cancel", "Look at executions, run them again."
    ),
    "jobs": Command("jobs", "list|show|set|enable|disable|diff", "Jobs and their settings."),
    "schedules": Command("schedules", "list|next|missed", "What fires when, and what was missed."),
    "queues": Command("queues", "list|pause|resume", "Queues, and what they hold."),
    "stores": Command("stores", "list|add|close", "The stores that per-store jobs run for."),
    "webhooks": Command("webhooks", "list|reprocess", "Webhook events."),
    "ctl": Command("ctl", "status|reload|drain", "Ask the daemon of this host itself."),
    "config": Command("config", "show", "The configuration, and where each value is from."),
    "version": Command("version", "", "The version."),
}

_FOOT = """\
Every command takes --config PATH (else $TASKENGINE_CONFIG, else ./config.toml) and --help; those
that show something take --json: one object a line.

Exit status: 0 ok, 1 failure, 2 usage, 3 not found, 4 refused, 5 a store is unreachable,
75 try again later, 78 configuration. `doctor`: 0 well, 1 warnings, 2 errors."""


def overview() -> str:
    """The text of `taskengine --help`."""
    names = [f"{name} {command.verbs}".rstrip() for name, command in COMMANDS.items()]
    width = max(map(len, names))
    lines = [
        f"  {name:<{width}}  {command.help}"
        for name, command in zip(names, COMMANDS.values(), strict=True)
    ]
    listed = "\n".join(lines)
    return f"Usage: taskengine COMMAND [OPTIONS] [ARGUMENTS]\n\nCommands:\n{listed}\n\n{_FOOT}"
