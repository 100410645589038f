"""Several daemons on a host, and what is said when systemd gives one up."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.system.host import Host, with_daemon

pytestmark = [pytest.mark.system, pytest.mark.slow]

UNITS = ("taskengine-http.socket", "taskengine.service")
SECOND = "taskengine@second.service"
CONFIG = """
[workers]
queues = ["default"]
[web]
port = 0
[jobs]
modules = ["slow_jobs"]
"""
# As Postfix has it: the program is anybody's, the folder that it writes to is its group's alone.
SENDMAIL = """
groupadd --system drop && install -d -g drop -m 0730 /var/lib/drop
install -g drop -m 2755 /usr/bin/tee /usr/sbin/drop
printf '#!/bin/sh\\nexec /usr/sbin/drop /var/lib/drop/mail\\n' >/usr/sbin/sendmail
chmod 755 /usr/sbin/sendmail
"""


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    """Two daemons: one of all queues, one of `default` alone."""
    with with_daemon() as host:
        host.writes("/etc/taskengine/second.toml", CONFIG)
        host.say("systemctl", "start", SECOND, "taskengine")
        yield host


def pid(host: Host, unit: str) -> str:
    return host.shows(unit, "MainPID")


def test_all_units_are_clean_to_systemd(host: Host) -> None:
    names = (*UNITS, SECOND, "taskengine.slice", "taskengine-failed@taskengine.service.service")
    for name in names:
        told = host.run("systemd-analyze", "verify", name)
        assert (told.returncode, told.stderr) == (0, ""), name


def test_each_has_its_state_and_both_are_in_the_slice(host: Host) -> None:
    groups = {host.shows(unit, "ControlGroup") for unit in ("taskengine.service", SECOND)}
    assert groups == {f"/taskengine.slice/{unit}" for unit in ("taskengine.service", SECOND)}
    assert {"locks", "second"} <= host.lists("/var/lib/taskengine")
    assert host.lists("/var/lib/taskengine/second") == {"locks"}


def test_each_is_asked_by_its_own_socket_and_reloads_its_own_file(host: Host) -> None:
    for options, unit in (((), "taskengine.service"), (("--instance", "second"), SECOND)):
        told = json.loads(host.say("taskengine", "ctl", "status", "--json", *options))
        assert str(told["pid"]) == pid(host, unit)
    host.writes("/etc/taskengine/second.toml", CONFIG + "[logs]\nlevel = 'loud'\n")
    assert host.run("systemctl", "reload", SECOND).returncode == 1
    host.say("systemctl", "reload", "taskengine")
    host.writes("/etc/taskengine/second.toml", CONFIG)
    host.say("systemctl", "reload", SECOND)


def test_while_one_is_stopped_the_other_works_on(host: Host) -> None:
    """The first one is stopped, and its folder alone goes with it."""
    before = pid(host, SECOND)
    host.say("systemctl", "stop", *UNITS)
    number = json.loads(host.say("taskengine", "dispatch", "hands", "--json"))["execution_id"]
    host.becomes(lambda: host.states([number]) == {("succeeded", 1)})
    assert host.executions()[number]["worker"].endswith(f"/{before}")
    assert not host.exists("/run/taskengine")
    assert host.exists("/run/taskengine-second")
    host.say("systemctl", "start", "taskengine")
    assert pid(host, SECOND) == before


def test_one_that_is_killed_is_proven_dead_by_its_lock(host: Host) -> None:
    """The lock file is in the other's folder, which this one can only read."""
    dropin = "/run/systemd/system/taskengine.service.d/late.conf"
    host.writes(dropin, "[Service]\nRestartSec=1h\n")
    config = "/etc/taskengine/second.toml"
    host.writes(config, CONFIG + "[heartbeat]\nlease = 3600\n")
    host.say("systemctl", "daemon-reload")
    host.say("systemctl", "stop", *UNITS)
    host.say("systemctl", "restart", SECOND)
    host.say("systemctl", "start", "taskengine")
    ids = host.dispatch(1, 50)
    host.becomes(lambda: host.states(ids) == {("running", 1)})
    host.say("kill", "-KILL", pid(host, "taskengine"))
    host.becomes(lambda: "is dead" in host.say("journalctl", "-u", SECOND, "-o", "cat"))
    host.becomes(lambda: host.states(ids) == {("pending", 2)})
    host.say("rm", dropin)
    host.say("systemctl", "daemon-reload")
    host.say("systemctl", "stop", *UNITS)


def test_what_systemd_gives_up_is_said_in_the_journal_and_by_mail(host: Host) -> None:
    """By its start limit: a program that dies at once, each time."""
    host.say("sh", "-c", SENDMAIL)
    dropin = f"/run/systemd/system/{SECOND}.d/dies.conf"
    host.writes(dropin, "[Service]\nExecStart=\nExecStart=/bin/false\nRestartSec=100ms\n")
    host.say("systemctl", "daemon-reload")
    host.run("systemctl", "restart", SECOND)
    host.becomes(lambda: host.shows(SECOND, "ActiveState") == "failed")
    host.becomes(lambda: host.run("test", "-s", "/var/lib/drop/mail").returncode == 0)
    assert int(host.shows(SECOND, "NRestarts")) > 1
    mail = host.say("cat", "/var/lib/drop/mail").splitlines()
    assert mail[0] == "To: root"
    assert mail[1].startswith(f"Subject: {SECOND} on ")
    told = host.say("journalctl", "-p", "crit", "-t", "taskengine", "-o", "cat").splitlines()
    assert [line for line in told if line.startswith(f"{SECOND} has failed")] == told != []
    assert host.run("systemctl", "is-active", UNITS[0]).stdout.strip() != "failed"
