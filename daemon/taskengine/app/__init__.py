"""The composition root: `build` puts a daemon together, `serve` runs it as a process.

Who calls `serve` calls `leave` last.
"""

from taskengine.app.build import Daemon, Guest, build
from taskengine.app.leaving import leave
from taskengine.app.process import serve

__all__ = ["Daemon", "Guest", "build", "leave", "serve"]
