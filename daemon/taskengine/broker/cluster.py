"""On a Redis Cluster all keys of a script must lie in one slot: the prefix must hold a hash tag."""

from __future__ import annotations

import re

from taskengine.broker.client import Client
from taskengine.broker.keys import Keys
from taskengine.errors import ConfigError

_HASH_TAG = re.compile(r"\{[^}]+\}")


async def check_cluster(client: Client, keys: Keys) -> None:
    """`ConfigError` where the server is a cluster's and the prefix has no hash tag."""
    found = await client.command("INFO", "cluster")
    enabled = isinstance(found, dict) and str(found.get("cluster_enabled", 0)) == "1"
    if enabled and not _HASH_TAG.search(keys.prefix):
        raise ConfigError(
            f"[redis] prefix = {keys.prefix!r}: on a Redis Cluster it must hold a hash tag, "
            f"such as '{{{keys.prefix}}}'"
        )
