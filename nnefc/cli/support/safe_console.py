"""A console of rich that writes control characters of names out, as errors do."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from nnefc.support.errors import escaped


class SafeConsole(Console):
    """A console whose `print` escapes control characters in texts: they may move the cursor."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Print texts escaped, other objects as `Console` does."""
        texts = (escaped(each) if isinstance(each, str) else each for each in objects)
        super().print(*texts, **options)
