"""The names of everything that the engine keeps in Redis."""

from __future__ import annotations


class Keys:
    """Keys under one prefix. On a Redis Cluster the prefix holds a hash tag."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.epoch = f"{prefix}:epoch"
        self.scheduler_lock = f"{prefix}:scheduler:lock"
        self.wake = f"{prefix}:wake"

    def queue(self, name: str) -> str:
        return f"{self.prefix}:queue:{name}"

    def processing(self, name: str) -> str:
        return f"{self.prefix}:processing:{name}"

    def delayed(self, name: str) -> str:
        return f"{self.prefix}:delayed:{name}"
