"""TaskEngine: the queue delivers, the database decides."""

__version__ = "0.1.0"
