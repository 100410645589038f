"""The wake-up: "there is work in an empty queue", or, naming none, "look at all of them anew".

Losing one costs one poll interval, or for a queue that was resumed one beat.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from taskengine.broker.client import BROKEN, Client, connect
from taskengine.config import Redis as RedisSettings
from taskengine.errors import BrokerUnavailable

_PING_SECONDS = 10.0


class Wake:
    """The subscription, on a connection of its own that has no read time-out."""

    def __init__(self, settings: RedisSettings, channel: str) -> None:
        self._settings = settings
        self._channel = channel

    async def listen(self, wake: Callable[[str], None]) -> None:
        """Call `wake(queue)` for each message, until Redis is away (`BrokerUnavailable`).

        `wake("")` is called once subscribed: what was published before is not known.
        """
        redis = connect(self._settings, timeout=_PING_SECONDS + 5, connections=2)
        pubsub = redis.pubsub()
        try:
            await pubsub.subscribe(self._channel)
            while True:
                message = await pubsub.get_message(timeout=_PING_SECONDS)
                if message is None:
                    await pubsub.ping()
                elif message["type"] == "subscribe":
                    wake("")
                elif message["type"] == "message":
                    wake(message["data"].decode("utf-8", "replace"))
        except BROKEN as error:
            raise BrokerUnavailable(f"{type(error).__name__}: {error}") from error
        finally:
            with contextlib.suppress(*BROKEN):
                await pubsub.aclose()  # type: ignore[no-untyped-call]
                await redis.aclose()


async def publish(client: Client, channel: str, queue: str = "") -> None:
    """Wake idle workers by hand; without a queue they also look anew at which ones are paused."""
    await client.command("PUBLISH", channel, queue)
