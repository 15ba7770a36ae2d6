"""How far a study is: a bar on a terminal, a line now and then in a log file."""

import sys
import time
from typing import TextIO

_LOG_EVERY = 10.0  # seconds between lines of a log
_BAR_EVERY = 0.2
_MEMORY = 30.0  # seconds over which the speed is averaged


class Progress:
    """Counts finished lanes and says so.

    Args:
        total: lanes to run.
        out: where to write, standard error unless given.
        clock: seconds, for tests.
        unit: what is counted, if not lanes.
    """

    def __init__(self, total: int, out: TextIO | None = None, clock=time.monotonic, unit: str = "lanes"):
        self.total, self.done, self.unit = total, 0, unit
        self.out = sys.stderr if out is None else out
        self.clock = clock
        self.started = self.last_said = clock()
        self.recent = [(self.started, 0)]
        self.terminal = self.out.isatty()

    def advance(self, lanes: int, what: str = "") -> None:
        """Note that so many lanes are finished; `what` names the cell they belong to."""
        self.done += lanes
        self.total = max(self.total, self.done)
        now = self.clock()
        self.recent.append((now, self.done))
        while len(self.recent) > 2 and now - self.recent[1][0] > _MEMORY:
            self.recent.pop(0)
        if now - self.last_said >= (_BAR_EVERY if self.terminal else _LOG_EVERY):
            self.say(what)

    def say(self, what: str = "") -> None:
        """Write the state of things now."""
        self.last_said = self.clock()
        (then, before), (now, done) = self.recent[0], self.recent[-1]
        speed = (done - before) / (now - then) if now > then else 0.0
        left = duration((self.total - self.done) / speed) if speed > 0 else "unknown"
        percent = f"{100 * self.done / self.total:5.1f} %"
        words = f"{percent}  {self.done:,}/{self.total:,} {self.unit}  {speed:,.0f} {self.unit}/s  left {left}  {what}"
        if self.terminal:
            filled = 24 * self.done // self.total
            self.out.write(f"\r\x1b[2K[{'#' * filled}{'.' * (24 - filled)}] {words}")
        else:
            self.out.write(words.rstrip() + "\n")
        self.out.flush()

    def say_once(self, words: str) -> None:
        """Write one line of its own."""
        self.out.write(words + "\n")
        self.out.flush()

    def close(self) -> None:
        """Write the last line, with the time and the speed of the whole."""
        seconds = self.clock() - self.started
        speed = self.done / seconds if seconds > 0 else 0.0
        if self.terminal:
            self.out.write("\r\x1b[2K")
        self.out.write(f"{self.done:,} {self.unit} in {duration(seconds)}, {speed:,.0f} {self.unit}/s\n")
        self.out.flush()


def duration(seconds: float) -> str:
    """Seconds in words.

    Example:
        >>> duration(42.3), duration(200), duration(7300)
        ('42.3 s', '3 min 20 s', '2 h 1 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{int(seconds) // 60} min {int(seconds) % 60} s"
    return f"{int(seconds) // 3600} h {int(seconds) % 3600 // 60} min"
