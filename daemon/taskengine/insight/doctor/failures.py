"""What needs a person, and whether that person was told."""

from __future__ import annotations

from taskengine.insight.doctor.finding import Finding, finding
from taskengine.insight.words import brief, plural
from taskengine.lifecycle.parts import Parts
from taskengine.store import doctor
from taskengine.store.reports import DAY

NOTICES = "taskengine.notify-failure"
_MOST = 2000  # failed ones that are looked at
_GRACE = 600.0  # a notice collects for a minute, then it is an execution like any other


async def quarantined(parts: Parts) -> list[Finding]:
    """Failed because nobody can know whether they were done."""
    async with parts.store.connection() as c:
        ids = await doctor.quarantined(c, DAY, _MOST)
    if not ids:
        return []
    text = (
        f"{plural(len(ids), 'execution')} of the last day left to a person: cut short, and nobody "
        "can know whether the work was done; look before `taskengine executions redrive ID`"
    )
    return [finding("execution.quarantined", text, ids=ids)]


async def notices(parts: Parts) -> list[Finding]:
    """Notices that reached nobody."""
    async with parts.store.connection() as c:
        found = await doctor.notices(c, NOTICES, DAY, _GRACE)
    if not found:
        return []
    error = next((f": {brief(each.error)}" for each in found if each.error), "")
    text = f"{plural(len(found), 'notice')} of failures reached nobody{error}"
    return [finding("notice.undelivered", text, ids=[each.id for each in found])]


async def unreported(parts: Parts) -> list[Finding]:
    """Failures that were told to nobody."""
    async with parts.store.connection() as c:
        found = await doctor.unreported(c, DAY, _GRACE)
    return [
        finding(
            "notice.unreported",
            f"{plural(count, 'failure')} of {job!r} were reported to nobody",
            job,
            count=count,
        )
        for job, count in found.items()
    ]
