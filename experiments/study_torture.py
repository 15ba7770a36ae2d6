"""Does a study survive anything? Kills, device counts, processes and faults, each compared byte for byte.

    python -m experiments.study_torture [--studies 4] [--seed 0]

Every study here is the same one. It is run once undisturbed; then, several times over, killed at five moments of its
life and resumed, by 1, 2 and 4 devices and by 2 processes of 2 devices in turn; run with each of these undisturbed;
damaged; run on a full and on a read-only file system (both need the right to mount one) and by two runners at once.
After each, the chunk files must be those of the undisturbed run.
"""

import argparse
import concurrent.futures
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time

from omm_jax import study

SPEC = """
replicates = 2400
lanes = 16
[data]
source = "clusters"
n = 1000
d = 20
r = 6.0
[learners.e-OMM]
rho = [0.0, 0.5, 1.0]
"""


# Devices of every process of a run.
CREWS = ((1,), (2,), (4,), (2, 2))


def begin(work: pathlib.Path, folder: pathlib.Path, crew: tuple[int, ...]) -> list[subprocess.Popen]:
    """Start `omm-jax study run` in the background, one process for every entry of the crew."""
    arguments = [sys.executable, "-m", "omm_jax.cli", "study", "run", str(work / "study.toml"), "--out", str(folder)]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        together = ["--coordinator", "{}:{}".format(*free.getsockname()), "--processes", str(len(crew)), "--process-id"]
    return [
        subprocess.Popen(
            [*arguments, "--devices", str(devices), *([*together, str(k)] if len(crew) > 1 else [])],
            stderr=subprocess.PIPE,
            text=True,
        )
        for k, devices in enumerate(crew)
    ]


def finish(processes: list[subprocess.Popen]) -> tuple[int, str]:
    """Wait for a run; its worst exit code and what its first process said last."""
    with concurrent.futures.ThreadPoolExecutor() as pool:
        said = [errors for _, errors in pool.map(subprocess.Popen.communicate, processes)]
    lines = said[0].strip().splitlines()
    return max((process.returncode for process in processes), key=abs), lines[-1] if lines else ""


def count(folder: pathlib.Path) -> int:
    """How many chunk files there are."""
    return len(list(folder.glob("chunks/*.parquet")))


def contents(folder: pathlib.Path) -> dict[str, bytes]:
    """The chunk files of a study."""
    return {path.name: path.read_bytes() for path in (folder / "chunks").iterdir()}


class Torture:
    """The experiments, and whether all went well."""

    def __init__(self, work: pathlib.Path):
        self.work, self.well = work, True
        (work / "study.toml").write_text(SPEC)
        started = time.monotonic()
        run = begin(work, work / "reference", (1,))
        while not count(work / "reference"):
            time.sleep(0.005)
        self.start_up = time.monotonic() - started
        code, words = finish(run)
        assert code == 0, words
        self.expected = contents(work / "reference")
        self.rows = study.load(work / "reference")
        print(f"reference: {len(self.expected)} chunks, {len(self.rows):,} rows, ", end="")
        print(f"the first after {self.start_up:.1f} s: {words}", flush=True)

    def check(self, name: str, folder: pathlib.Path, ok: bool = True, note: str = "") -> None:
        """Compare a folder with the reference and print the verdict."""
        same = contents(folder) == self.expected and study.load(folder).equals(self.rows)
        self.well &= same and ok
        print(f"{name}: {'same bytes' if same else 'DIFFERENT'}{'' if ok else ', WRONG ANSWER'}  {note}", flush=True)

    def kills(self, studies: int, seed: int) -> None:
        """kill -9 at five moments of every study, then run it to its end.

        Moments are stratified: all studies together are killed about evenly along their chunks (three times each) and
        along their start-up, imports and compilation (twice each: when there is nothing yet, and when resuming).
        """
        draw, turn, fell = random.Random(seed), 0, list[int]()
        chunks = [(k + draw.random()) / (3 * studies) * (len(self.expected) - 8) for k in range(3 * studies)]
        seconds = [(k + draw.random()) / (2 * studies) * self.start_up for k in range(2 * studies)]
        for number in range(studies):
            folder, crews, at = self.work / f"killed-{number}", list[str](), list[str]()
            first, second, third = (int(chunk) for chunk in chunks[number::studies])
            begun, resumed = seconds[2 * number : 2 * number + 2]
            for target, pause in ((0, begun), (first, 0.0), (second, 0.0), (0, resumed), (third, 0.0)):
                crew, turn = CREWS[turn % len(CREWS)], turn + 1
                processes = begin(self.work, folder, crew)
                while count(folder) < target and any(process.poll() is None for process in processes):
                    time.sleep(0.002)
                time.sleep(pause or draw.uniform(0, 0.02))
                for process in processes:
                    process.send_signal(signal.SIGKILL)
                code, words = finish(processes)
                self.well &= code == -signal.SIGKILL
                there = count(folder)
                fell.append(there)
                moment = f" and {pause:.1f} s after a start" if pause else ""
                at.append(f"{there}{moment}" if code == -signal.SIGKILL else f"NOT KILLED ({words})")
                crews.append("x".join(map(str, crew)))
            code, words = finish(begin(self.work, folder, CREWS[turn % len(CREWS)]))
            note = f"killed at chunk {', '.join(at)}; run by {', '.join(crews)} devices; then {words}"
            self.check(f"study {number}", folder, code == 0, note)
        print(f"{len(fell)} kills; of {len(self.expected)} chunks there were at each: {sorted(fell)}", flush=True)

    def crews(self) -> None:
        """2 and 4 devices, then 2 processes of 2 devices; the reference was made by 1."""
        for crew in CREWS[1:]:
            folder = self.work / f"crew-{sum(crew)}-{len(crew)}"
            code, words = finish(begin(self.work, folder, crew))
            self.check(f"{len(crew)} process(es) of {crew[0]} device(s)", folder, code == 0, words)

    def damage(self) -> None:
        """A truncated chunk, a flipped byte, a deleted chunk, a deleted manifest: run again."""
        folder = self.work / "crew-2-1"
        chunks = sorted((folder / "chunks").iterdir())
        chunks[3].write_bytes(chunks[3].read_bytes()[:-7])
        flipped = bytearray(chunks[7].read_bytes())
        flipped[len(flipped) // 3] ^= 4
        chunks[7].write_bytes(flipped)
        chunks[11].unlink()
        (folder / "manifest.json").unlink()
        status = subprocess.run(
            [sys.executable, "-m", "omm_jax.cli", "study", "status", str(folder)], capture_output=True, text=True
        )
        code, words = finish(begin(self.work, folder, (2,)))
        found = status.returncode == 3 and "2 damaged" in status.stdout
        self.check("truncated, flipped, deleted, no manifest", folder, code == 0 and found, words)

    def full_disk(self) -> None:
        """A tmpfs too small for the study, made larger after the message."""
        folder = self.work / "small"
        folder.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=700k", "tmpfs", str(folder)]).returncode:
            print("full disk: NOT TRIED, mounting is not permitted here")
            return
        try:
            code, words = finish(begin(self.work, folder / "out", (2,)))
            leftovers = list((folder / "out" / "chunks").glob(".*"))
            clear = code == 1 and "the disk is full" in words and not leftovers
            print(f"full disk: exit {code}: {words}")
            subprocess.run(["mount", "-o", "remount,size=100m", str(folder)], check=True)
            code, words = finish(begin(self.work, folder / "out", (2,)))
            self.check("full disk, then room", folder / "out", clear and code == 0, words)
            subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
            sorted_code, words = finish(begin(self.work, folder / "out", (2,)))
            self.check("read-only folder", folder / "out", sorted_code == 1 and "cannot be written" in words, words)
        finally:
            subprocess.run(["umount", str(folder)], check=True)

    def two_runners(self) -> None:
        """Two runners on one folder at once: one works, the other is told."""
        folder = self.work / "two"
        first = begin(self.work, folder, (2,))
        while not (folder / "runner-0-of-1.lock").exists():
            time.sleep(0.05)
        time.sleep(0.5)
        code, words = finish(begin(self.work, folder, (2,)))
        answer, _ = finish(first)
        self.check("two runners", folder, answer == 0 and code == 1 and "is at work" in words, words)


def main() -> int:
    """Run everything; 0 if all went well."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as work:
        torture = Torture(pathlib.Path(work))
        torture.kills(options.studies, options.seed)
        torture.crews()
        torture.damage()
        torture.full_disk()
        torture.two_runners()
    print(f"{time.monotonic() - started:.0f} s in all")
    print("all well" if torture.well else "SOMETHING WENT WRONG")
    return 0 if torture.well else 1


if __name__ == "__main__":
    sys.exit(main())
