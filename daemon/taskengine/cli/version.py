"""`taskengine version`."""

from __future__ import annotations

import platform

from taskengine import __version__
from taskengine.cli.options import Json, new_app

app = new_app()


@app.command()
def version(as_json: Json = False) -> None:
    """The version of the engine and of the Python that it runs on."""
    from taskengine.cli import out

    if as_json:
        out.line({"taskengine": __version__, "python": platform.python_version()})
    else:
        out.put(f"taskengine {__version__} (Python {platform.python_version()})")
