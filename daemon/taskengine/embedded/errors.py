"""What can go wrong with the private servers, in words for the person at the terminal."""

from taskengine.errors import TaskEngineError


class EmbeddedError(TaskEngineError):
    """The private servers cannot be had; the text says why and what to do about it."""
