"""Delivering: push what is due, delay what is not. Never a reason to fail: the sweep delivers."""

from __future__ import annotations

from collections.abc import Sequence

from taskengine.errors import BrokerUnavailable
from taskengine.lifecycle.parts import Parts
from taskengine.model.execution import Delivery
from taskengine.telemetry.events import emit


async def deliver(parts: Parts, deliveries: Sequence[Delivery]) -> bool:
    """Whether the messages are in Redis."""
    if not parts.config.redis.enabled:
        return False  # nothing is ever pushed: the workers look for themselves
    due = [d for d in deliveries if d.due]
    later = [d for d in deliveries if not d.due]
    try:
        if due:
            await parts.queues.push(due)
        if later:
            await parts.queues.delay(later)
    except BrokerUnavailable:
        emit("execution.undelivered", count=len(deliveries))
        return False
    return True
