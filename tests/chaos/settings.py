"""The configuration of the daemons under test: everything is quick, so that a recovery can be seen."""

from __future__ import annotations

from pathlib import Path

KEY_OF_HOOKS = "chaos-0123456789abcdef"

_TOML = """
[postgres]
dsn = "postgresql://taskengine@127.0.0.1:{postgres}/taskengine?sslmode=disable"
pool_max = 6
command_timeout = 4
[redis]
url = "redis://127.0.0.1:{redis}/0"
timeout = 1.0
[workers]
slots = 50
threads = 4
poll_interval = 0.5
drain_timeout = 4
direct_after = 3.0
lock_dir = "{folder}/locks"
[jobs]
modules = [{modules}]
[heartbeat]
beat = 1.0
lease = 4.0
stall_limit = 10
[recovery]
reserve_grace = 2
delivery_sweep = 1
over_time_sweep = 1
divergence = 1
check_after = 3
[retention]
succeeded = 60
failed = 60
every = 5
[webhooks]
min_age = 5
every = 2
max_recoveries = 1000
[webhooks.sources.chaos]
scheme = "everee"
keys = ["{key}"]
job = "hook"
[web]
port = {web}
[logs]
format = "json"
"""


def configuration(
    folder: Path, postgres: int, redis: int, web: int, *, knows_all: bool = True
) -> str:
    """The file's text, for a daemon that reaches its stores by these ports."""
    modules = '"tests.chaos.jobs"' + (', "tests.chaos.rare_jobs"' if knows_all else "")
    return _TOML.format(
        folder=folder, postgres=postgres, redis=redis, web=web, modules=modules, key=KEY_OF_HOOKS
    )
