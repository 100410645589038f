"""The way from `taskengine …` to the command that it names, and from an error to an exit status.

Guarantees: `--help` answers at once, because a command's module is imported only when it is run; an
error of the engine's family is one message on stderr, without traceback and without secrets;
results go to stdout, messages to stderr.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

from taskengine.cli.commands import COMMANDS, overview

USAGE = 2
INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit status."""
    args = config_last(list(sys.argv[1:] if argv is None else argv))
    _tame_output()
    try:
        status = _choose(args)
        sys.stdout.flush()
    except BrokenPipeError:  # `… | head`: whoever read us has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return status


def config_last(args: list[str]) -> list[str]:
    """`--config` may stand before the command, too: it is moved to where the command reads it."""
    if args and args[0] in ("--config", "-c") and len(args) > 2:
        given, rest = args[:2], args[2:]
    elif args and args[0].startswith("--config=") and len(args) > 1:
        given, rest = args[:1], args[1:]
    else:
        return args
    end = rest.index("--") if "--" in rest else len(rest)
    return [*rest[:end], *given, *rest[end:]]


def _tame_output() -> None:
    """Whatever users have stored can be written, whatever the terminal's encoding is."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _choose(args: list[str]) -> int:
    if not args:
        print(overview(), file=sys.stderr)  # noqa: T201
        return USAGE
    if args[0] == "help" and args[1:2] and args[1] in COMMANDS:
        args = [*args[1:], "--help"]
    if args[0] in ("-h", "--help", "help"):
        print(overview())  # noqa: T201
        return 0
    name = "version" if args[0] in ("-V", "--version") else args[0]
    if name not in COMMANDS:
        import difflib

        close = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f", did you mean {close[0]!r}?" if close else "; `taskengine --help` lists them"
        print(f"taskengine: no command {name!a}{hint}", file=sys.stderr)  # noqa: T201
        return USAGE
    return _invoke(name, args[1:])


def _invoke(name: str, args: list[str]) -> int:
    """Load the command's module and hand it its arguments."""
    import importlib

    # As `python -m` does, but last: the modules of [jobs] may lie in the folder one works in.
    if "" not in sys.path and (here := os.getcwd()) not in sys.path:  # noqa: PTH109
        sys.path.append(here)
    try:
        module = importlib.import_module(f"taskengine.cli.{COMMANDS[name].module}")
        app: Any = module.app
        app(args=args, prog_name=f"taskengine {name}")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        from taskengine.cli.failure import report

        return report(error)
    return 0
