"""`taskengine` and `python -m taskengine`."""

from __future__ import annotations

import sys

from taskengine.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
