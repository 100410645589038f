"""Cases of stopping, deploying and systemd: the side of the process."""

from __future__ import annotations

import asyncio
import configparser
import signal
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from taskengine.config import Config
from taskengine.errors import ServiceFailed
from taskengine.runtime.service import Periodic
from taskengine.runtime.supervisor import Limits, Supervisor, Tier, exit_status
from taskengine.store import migrate
from tests.cases import case_jobs as jobs
from tests.cases.support import Ground
from tests.support.daemon import Daemon
from tests.support.make import INTERRUPTED, Hands, Spare, a_job
from tests.support.until import until

UNIT = Path(__file__).parents[2] / "systemd" / "taskengine.service"


async def ended(daemon: Daemon, within: float = 30.0) -> int:
    """Its exit status, once it has ended."""
    await until(lambda: not daemon.runs, within)
    return daemon.stop()


def unit(key: str) -> str:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(UNIT)
    return parser["Service"][key]


@pytest.mark.slow
async def test_c53_a_stop_drains_then_puts_back_and_exits_zero(ground: Ground) -> None:
    daemon = ground.daemon(workers={"drain_timeout": 1.0})
    await ground.engine.dispatch(jobs.slow.call(seconds=3600))
    await ground.until_count("state = 'running'", 1)
    begun = time.monotonic()
    assert await asyncio.to_thread(daemon.stop) == 0
    assert time.monotonic() - begun > 1.0, "the grace was given"
    assert await ground.count("state = 'pending' and attempt = 1 and interruptions = 1") == 1


def test_c53_the_unit_waits_longer_than_the_drain_and_signals_the_daemon_alone() -> None:
    drain = Config().workers.drain_timeout
    assert float(unit("TimeoutStopSec").removesuffix("s")) > drain + 20
    assert unit("KillMode") == "mixed"


@pytest.mark.slow
async def test_c54_five_deploys_use_up_no_attempt(ground: Ground) -> None:
    sent = await ground.engine.dispatch(jobs.endless.call())
    for _ in range(5):
        daemon = ground.daemon(workers={"drain_timeout": 0})
        await ground.until_count("state = 'running'", 1)
        assert await asyncio.to_thread(daemon.stop) == 0
    (row,) = await ground.sql("select * from task_executions where id = $1", sent.execution_id)
    assert (row["state"], row["attempt"], row["interruptions"]) == ("pending", 1, 5)


async def test_c54_but_an_endless_row_of_them_is_bounded(hands: Hands) -> None:
    await hands.know(a_job(max_interruptions=3))
    claim = await hands.running()
    for _ in range(2):
        assert (await hands.settle(claim, INTERRUPTED))[0].state == "pending"
        claim = await hands.take_again(claim.id)
    assert (await hands.settle(claim, INTERRUPTED))[0].state == "failed"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["swallows-cancel", "stuck-thread"])
async def test_c56_a_body_that_cannot_be_stopped_does_not_keep_the_process(
    ground: Ground, name: str
) -> None:
    daemon = ground.daemon(workers={"drain_timeout": 0})
    sent = await ground.engine.dispatch(name)
    await until(ground.runs)
    daemon.send(signal.SIGTERM)
    daemon.send(signal.SIGTERM)
    assert await ended(daemon) == 0
    told = ground.logged("execution.left_running")
    assert [line["execution_id"] for line in told] == [sent.execution_id]
    ground.daemon()
    await ground.until_count("state = 'succeeded' and attempt = 2 and orphanings = 1", 1)


@pytest.mark.slow
async def test_c57_a_connection_in_a_long_query_does_not_keep_the_process(ground: Ground) -> None:
    daemon = ground.daemon(workers={"drain_timeout": 0})
    await ground.engine.dispatch("holds-a-connection")
    await until(ground.runs)
    assert await asyncio.to_thread(daemon.stop) == 0


async def test_c58_a_loop_that_fails_for_good_ends_the_process_with_a_status_of_its_own(
    hands: Hands,
) -> None:
    class Broken(Periodic):
        name = "broken"

        async def tick(self) -> bool:
            raise ValueError("each time")

    broken = Broken(hands.parts.clock, 0.001)
    tiers = (Tier("breaks", (broken,)),)
    supervisor = Supervisor(tiers, hands.parts.clock, Limits(drain=1.0))
    with pytest.raises(ServiceFailed) as failed:
        await supervisor.run(asyncio.Event())
    assert exit_status(failed.value) not in (0, 78)


@pytest.mark.slow
async def test_c58_a_bad_configuration_is_78_and_the_unit_does_not_restart_it(
    ground: Ground,
) -> None:
    daemon = ground.daemon(workers={"slots": 0})
    assert await ended(daemon) == 78
    assert unit("RestartPreventExitStatus") == "78"
    assert unit("Restart") == "always"


@pytest.mark.slow
async def test_c59_it_waits_for_stores_that_come_up_later(spare: Spare, tmp_path: Path) -> None:
    path, log = tmp_path / "late.toml", tmp_path / "late.log"
    path.write_text(
        f'[postgres]\ndsn = "{spare.servers.dsn}"\nschema = "late"\n'
        f'[redis]\nurl = "{spare.servers.redis_url}"\nprefix = "late"\n[web]\nport = 0\n'
    )
    await migrate.up(Config.load(path).postgres)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.setblocking(False)
        said: list[str] = []
        spare.embedded.postgres.stop()
        spare.embedded.valkey.stop()
        try:
            daemon = Daemon(path, log, {"NOTIFY_SOCKET": str(tmp_path / "notify")})
            daemon.start()
            await until(lambda: _hears(manager, said, "EXTEND_TIMEOUT_USEC=30000000"))
            assert not any("READY=1" in each for each in said)
        finally:
            spare.embedded.postgres.start()
            spare.embedded.valkey.start()
        await until(lambda: _hears(manager, said, "READY=1"))
        assert await asyncio.to_thread(daemon.stop) == 0


def _hears(manager: socket.socket, said: list[str], word: str) -> bool:
    while True:
        try:
            said.append(manager.recv(4096).decode())
        except BlockingIOError:
            return any(word in each for each in said)


async def test_c60_a_migration_under_load_costs_nobody_anything(hands: Hands) -> None:
    async def body(ctx: Any) -> None:
        await asyncio.sleep(0.001)

    await hands.know(a_job(body=body))
    async with hands.working():
        for turn in range(10):
            for _ in range(20):
                await hands.dispatch()
            for table in ("task_executions", "task_job_definitions"):
                await hands.sql(f"alter table {table} add column added_{turn} integer")
        unfinished = "select from task_executions where state <> 'succeeded'"

        async def done() -> bool:
            return not await hands.sql(unfinished)

        await until(done)
    rows = await hands.sql("select attempt, count(*) n from task_executions group by 1")
    assert [(row["attempt"], row["n"]) for row in rows] == [(1, 200)]
