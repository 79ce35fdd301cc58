"""What people should know about an answer that is no error: how a file was read, what was taken for what."""

from __future__ import annotations


class Notes(dict[str, None]):
    """Notes in the order in which they were made, each once.

    Examples
    --------
    >>> notes = Notes()
    >>> notes.add("text is ordered"); notes.add("text is ordered")
    >>> list(notes)
    ['text is ordered']
    """

    def add(self, *notes: str) -> None:
        """Keep notes that were not made before."""
        self.update(dict.fromkeys(notes))
