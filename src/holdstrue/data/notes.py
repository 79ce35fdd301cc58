"""What people should know about an answer that is no error: how a file was read, what was taken for what."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


class Notes:
    """Notes in the order in which they were made, each once.

    Examples
    --------
    >>> notes = Notes()
    >>> notes.add("text is ordered"); notes.add("text is ordered")
    >>> list(notes)
    ['text is ordered']
    """

    def __init__(self, notes: Iterable[str] = ()) -> None:
        self._notes = dict.fromkeys(notes)

    def add(self, *notes: str) -> None:
        """Keep notes that were not made before."""
        self._notes.update(dict.fromkeys(notes))

    def __iter__(self) -> Iterator[str]:
        return iter(self._notes)

    def __len__(self) -> int:
        return len(self._notes)
