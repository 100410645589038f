"""The private, real Postgres and Valkey of `taskengine dev` and of the tests.

Guarantees: reached over Unix sockets in private folders only; nothing that existed before has its
permissions changed; the data outlives the process, the servers do not.
"""

from taskengine.embedded.errors import EmbeddedError
from taskengine.embedded.servers import EmbeddedServers, Servers, find_running

__all__ = ["EmbeddedError", "EmbeddedServers", "Servers", "find_running"]
