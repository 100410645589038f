"""Each kind of event has an id that never changes, and the catalog says what it means."""

import logging
import re
from pathlib import Path

import pytest

from taskengine.cli.commands import COMMANDS
from taskengine.telemetry.message_ids import MESSAGE_IDS
from taskengine.telemetry.wording import WORDING, level_of

CATALOG = Path(__file__).parents[2] / "systemd" / "taskengine.catalog"
NAMED = {"EXECUTION_ID", "TASK", "QUEUE", "ATTEMPT", "STORE", "WORKER", "SOURCE", "BY"}


def catalog() -> dict[str, tuple[str, str]]:
    """Subject and text of each entry, by its id."""
    text = re.sub(r"^#.*\n", "", CATALOG.read_text(), flags=re.MULTILINE)
    found = {}
    for part in re.split(r"^-- ", text, flags=re.MULTILINE)[1:]:
        head, _, body = part.partition("\n\n")
        id_, subject, by = head.splitlines()
        assert by == "Defined-By: TaskEngine"
        assert id_ not in found
        found[id_] = (subject.removeprefix("Subject: "), body.strip())
    return found


def test_ids_are_128_bits_and_each_is_its_own() -> None:
    assert all(re.fullmatch(r"[0-9a-f]{32}", each) for each in MESSAGE_IDS.values())
    assert len(set(MESSAGE_IDS.values())) == len(MESSAGE_IDS)


def test_what_is_logged_by_default_has_an_id() -> None:
    told = {event for event in WORDING if level_of(event) >= logging.INFO}
    assert told - set(MESSAGE_IDS) == set()
    assert set(MESSAGE_IDS) - set(WORDING) == set()


def test_so_has_each_step_of_an_executions_life() -> None:
    life = ("dispatched", "started", "snoozed", "retried", "succeeded", "failed", "cancelled")
    assert {f"execution.{step}" for step in life} - set(MESSAGE_IDS) == set()


def test_ids_that_people_may_have_written_down_stay() -> None:
    assert MESSAGE_IDS["execution.failed"] == "7861ee6068de4287b0103f8707763168"
    assert MESSAGE_IDS["execution.succeeded"] == "dfa821490af6453bb5153074a573e0e0"
    assert MESSAGE_IDS["process.failed"] == "2fcd5d024a7841888f285811a0f4448c"


def test_the_catalog_has_an_entry_for_each_and_for_no_other() -> None:
    assert set(catalog()) == set(MESSAGE_IDS.values())


@pytest.mark.parametrize("event", sorted(MESSAGE_IDS))
def test_an_entry_says_something_of_its_event_by_fields_that_it_has(event: str) -> None:
    subject, body = catalog()[MESSAGE_IDS[event]]
    has = {name.upper() for name in re.findall(r"{(\w+)", WORDING[event][1])} | NAMED
    assert subject
    assert body.endswith(".")
    assert set(re.findall(r"@(\w+)@", body)) - has == set()


@pytest.mark.parametrize("event", sorted(MESSAGE_IDS))
def test_every_command_that_an_entry_names_exists(event: str) -> None:
    _, body = catalog()[MESSAGE_IDS[event]]
    for command, verb in re.findall(
        r"\btaskengine ([a-z-]+)(?: ([a-z]+))?", " ".join(body.split())
    ):
        assert command in COMMANDS
        verbs = COMMANDS[command].verbs
        assert not verbs or verb in verbs.split("|")
