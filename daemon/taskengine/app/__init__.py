"""The composition root: `build` puts a daemon together, `serve` runs it as a process."""

from taskengine.app.build import Daemon, Guest, build
from taskengine.app.process import serve

__all__ = ["Daemon", "Guest", "build", "serve"]
