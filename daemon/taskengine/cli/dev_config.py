"""What `taskengine dev` sets in the configuration: the private servers, and what the examples need.

Everything else stays as the project's own config.toml and the environment say. Other commands in
that folder set the examples, too: what the daemon knows, they know.
"""

from __future__ import annotations

import os
import random
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

from taskengine.config import Config
from taskengine.embedded import Servers

EXAMPLES = "taskengine.examples.jobs"
SOURCE = "example"
_QUEUES = {"payroll", "default", "low"}  # those of the examples
_KEY = "example-webhook-key"


def dev_config(own: Config, path: Path | None, servers: Servers, port: int | None) -> Config:
    """The project's configuration `own` (of `path`) with the private servers put in."""
    overrides: dict[str, dict[str, Any]] = {
        "postgres": {"dsn": servers.dsn},
        "redis": {"url": servers.redis_url, "enabled": True},
        "migrate": {"auto": True},
        "web": {
            "enabled": True,
            "port": free_port(own.web.host, own.web.port if port is None else port),
        },
    }
    if own.logs.format == "auto":
        overrides["logs"] = {"format": "console"}
    overrides |= _examples(own, webhook_key(servers.state))
    return Config.load(path, overrides=overrides)


def examples_of(own: Config, servers: Servers) -> dict[str, dict[str, Any]]:
    """What the examples need, where `taskengine dev` has begun to show them; else nothing."""
    file = servers.state / _KEY
    return _examples(own, file.read_text().strip()) if file.is_file() else {}


def _examples(own: Config, key: str) -> dict[str, dict[str, Any]]:
    if not _QUEUES.issubset(own.workers.queues):
        return {}
    source = {"scheme": "everee", "keys": [key], "job": "example-hello"}
    others = [module for module in own.jobs.modules if module != EXAMPLES]
    return {
        "jobs": {"modules": [*others, EXAMPLES]},
        "webhooks": {"sources": {SOURCE: source}},
    }


def free_port(host: str, wanted: int) -> int:
    """`wanted` where it can be had, else one of the nine after it, else any."""
    nearby = range(wanted, min(wanted + 10, 65_536)) if wanted else ()
    for port in (*nearby, 0):
        with suppress(OSError), socket.create_server((host, port), family=_family(host)) as found:
            return int(found.getsockname()[1])
    return wanted  # the web service says what is wrong with the host


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def webhook_key(state: Path) -> str:
    """The key of the example source: drawn at the first start, for this folder's owner alone."""
    file = state / _KEY
    if not file.exists():
        aside = file.with_suffix(".new")
        aside.unlink(missing_ok=True)
        with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as new:
            new.write(f"{random.SystemRandom().getrandbits(256):064x}\n")
        aside.rename(file)
    return file.read_text().strip()
