"""Does the fast engine decide as the reference engine does? Many lanes of both, compared event by event."""
