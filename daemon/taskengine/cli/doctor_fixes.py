"""What `doctor --fix` does about which finding: what is safe, and nothing else."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, NamedTuple

from taskengine.errors import TaskEngineError
from taskengine.insight import divergence
from taskengine.insight.doctor.delivery import next_without_message
from taskengine.insight.doctor.finding import Finding
from taskengine.lifecycle import mend
from taskengine.lifecycle.parts import Parts

Fix = Callable[[Parts, Finding, str], Awaitable[str]]


class Mended(NamedTuple):
    """What was done about a finding; `error`: why it could not be."""

    code: str
    about: str
    did: str | None
    error: str | None


def _ids(found: Finding) -> list[int]:
    return [each for each in found.ids if isinstance(each, int)]


async def _deliver(parts: Parts, found: Finding, _by: str) -> str:
    """One by one where all of them are known; a queue that lacks more is written anew."""
    if len(found.ids) >= divergence.MOST:
        return await mend.queue(parts, found.about)
    return await mend.deliveries(parts, found.about, _ids(found))


async def _wake(parts: Parts, _found: Finding, _by: str) -> str:
    rows = await next_without_message(parts)
    for name in sorted({row.queue for row in rows}):
        await mend.deliver_missing(parts, name, [row for row in rows if row.queue == name])
    return f"woke {len(rows)} that waited for a free key"


FIXES: Final[Mapping[str, Fix]] = {
    "redis.wrong_type": lambda parts, _found, _by: mend.keys(parts),
    "redis.forgetful": lambda parts, _found, _by: mend.memory(parts),
    "delivery.pending_without_message": _deliver,
    "delivery.message_without_row": lambda parts, found, _by: mend.messages(
        parts, found.about, found.ids
    ),
    "delivery.processing_without_owner": lambda parts, found, _by: mend.reservations(
        parts, found.about
    ),
    "delivery.delayed_past_due": lambda parts, found, _by: mend.promotions(parts, found.about),
    "key.unheld": _wake,
    "worker.left_running": lambda parts, _found, by: mend.left_running(parts, by),
    "execution.past_deadline": lambda parts, _found, by: mend.late(parts, by),
}


async def fix(parts: Parts, found: Sequence[Finding], by: str) -> list[Mended]:
    """Mend what can be mended, in the order of the list above; one that fails stops no other."""
    done = []
    seen = set()
    for each in sorted(found, key=_order):
        if each.code not in FIXES or (each.code, each.about) in seen:
            continue
        seen.add((each.code, each.about))
        done.append(await _fix(parts, each, by))
    return done


async def _fix(parts: Parts, found: Finding, by: str) -> Mended:
    try:
        did = await FIXES[found.code](parts, found, by)
    except TaskEngineError as error:
        return Mended(found.code, found.about, None, str(error))
    return Mended(found.code, found.about, did, None)


def _order(found: Finding) -> int:
    known = list(FIXES)
    return known.index(found.code) if found.code in known else len(known)
