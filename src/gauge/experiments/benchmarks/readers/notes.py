"""What a result has to say about data that is not the whole official set."""

import logging
from functools import cache

logger = logging.getLogger(__name__)


def part_note(lead: str, found: int, official: int, what: str) -> str:
    """Nothing when all of the official set is there.

    >>> part_note("SVHN prefix", 1083, 73257, "training digits")
    'SVHN prefix: 1,083 of 73,257 training digits'
    """
    return "" if found == official else f"{lead}: {found:,} of {official:,} {what}"


def join_notes(*notes: str) -> str:
    """The notes that say something, as one; each is also logged, once in a process."""
    notes = tuple(dict.fromkeys(note for note in notes if note))
    for note in notes:
        _warn_once(note)
    return "; ".join(notes)


@cache
def _warn_once(note: str) -> None:
    logger.warning("%s", note)
