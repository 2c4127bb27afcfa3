"""Notes on data that is not the whole official set; results carry them."""

import logging
from functools import cache

logger = logging.getLogger(__name__)


def part_note(lead: str, count: int, official: int, what: str) -> str:
    """A note on a part of the official set, empty for the whole set.

    >>> part_note("SVHN prefix", 1083, 73257, "training digits")
    'SVHN prefix: 1,083 of 73,257 training digits'
    """
    return "" if count == official else f"{lead}: {count:,} of {official:,} {what}"


def join_notes(*notes: str) -> str:
    """The notes that are not empty, as one text; each is also logged, once in a process."""
    notes = tuple(dict.fromkeys(note for note in notes if note))
    for note in notes:
        _warn_once(note)
    return "; ".join(notes)


@cache
def _warn_once(note: str) -> None:
    logger.warning("%s", note)
