"""Does a study survive anything? Kills, device counts, processes and faults, each compared byte for byte.

    python -m experiments.study_torture [--kills 20] [--seed 0]

Every study here is the same one. It is run once undisturbed; then it is killed at random moments and resumed, run with
1, 2 and 4 devices and as 2 processes of 2 devices, damaged, run on a full and on a read-only file system (both need
the right to mount one) and by two runners at once. After each, the chunk files must be those of the undisturbed run.
"""

import argparse
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


def command(work: pathlib.Path, folder: pathlib.Path, devices: int, *more: str) -> subprocess.Popen:
    """Start `omm-jax study run` in the background."""
    arguments = [sys.executable, "-m", "omm_jax.cli", "study", "run", str(work / "study.toml"), "--out", str(folder)]
    return subprocess.Popen([*arguments, "--devices", str(devices), *more], stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen) -> tuple[int, str]:
    """Wait for a command; its exit code and what it said last."""
    _, errors = process.communicate()
    return process.returncode, errors.strip().splitlines()[-1] if errors.strip() else ""


def contents(folder: pathlib.Path) -> dict[str, bytes]:
    """The chunk files of a study."""
    return {path.name: path.read_bytes() for path in (folder / "chunks").iterdir()}


class Torture:
    """The experiments, and whether all went well."""

    def __init__(self, work: pathlib.Path):
        self.work, self.well = work, True
        (work / "study.toml").write_text(SPEC)
        started = time.monotonic()
        code, words = finish(command(work, work / "reference", 1))
        self.seconds = time.monotonic() - started
        assert code == 0, words
        self.expected = contents(work / "reference")
        self.rows = study.load(work / "reference")
        print(f"reference: {len(self.expected)} chunks, {len(self.rows):,} rows, {self.seconds:.1f} s: {words}")

    def check(self, name: str, folder: pathlib.Path, ok: bool = True, note: str = "") -> None:
        """Compare a folder with the reference and print the verdict."""
        same = contents(folder) == self.expected and study.load(folder).equals(self.rows)
        self.well &= same and ok
        print(f"{name}: {'same bytes' if same else 'DIFFERENT'}{'' if ok else ', WRONG ANSWER'}  {note}", flush=True)

    def kills(self, count: int, seed: int) -> None:
        """kill -9 at random moments, resumed with 1, 2 or 4 devices, until all kills have been dealt."""
        moments, at, rounds = random.Random(seed), list[int](), 0
        while len(at) < count:
            folder, rounds = self.work / f"killed-{rounds}", rounds + 1
            while len(at) < count:
                process = command(self.work, folder, moments.choice((1, 2, 4)))
                # A moment of the work: after a random number of the chunks that are left, and a little later.
                there = len(list(folder.glob("chunks/*.parquet")))
                target = moments.randrange(there, there + (len(self.expected) - there) // 3 + 1)
                while process.poll() is None and len(list(folder.glob("chunks/*.parquet"))) < target:
                    time.sleep(0.002)
                time.sleep(moments.uniform(0, 3.0 if target == there else 0.05))
                process.send_signal(signal.SIGKILL)
                process.communicate()
                if process.returncode == 0:
                    break
                at.append(len(list(folder.glob("chunks/*.parquet"))))
            code, words = finish(command(self.work, folder, moments.choice((1, 2, 4))))
            self.check(f"killed, study {rounds}", folder, code == 0, words)
        print(f"{len(at)} kills; chunks there at each: {at}")

    def devices(self) -> None:
        """1, 2 and 4 devices, then 2 processes of 2 devices."""
        for devices in (1, 2, 4):
            folder = self.work / f"devices-{devices}"
            code, words = finish(command(self.work, folder, devices))
            self.check(f"{devices} device(s)", folder, code == 0, words)
        folder = self.work / "processes"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = "{}:{}".format(*free.getsockname())
        shared = ("--coordinator", address, "--processes", "2", "--process-id")
        processes = [command(self.work, folder, 2, *shared, str(k)) for k in range(2)]
        answers = [finish(process) for process in processes]
        self.check("2 processes x 2 devices", folder, all(code == 0 for code, _ in answers), str(answers[0][1]))

    def damage(self) -> None:
        """A truncated chunk, a flipped byte, a deleted chunk, a deleted manifest: run again."""
        folder = self.work / "devices-1"
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
        code, words = finish(command(self.work, folder, 2))
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
            code, words = finish(command(self.work, folder / "out", 2))
            leftovers = list((folder / "out" / "chunks").glob(".*"))
            clear = code == 1 and "the disk is full" in words and not leftovers
            print(f"full disk: exit {code}: {words}")
            subprocess.run(["mount", "-o", "remount,size=100m", str(folder)], check=True)
            code, words = finish(command(self.work, folder / "out", 2))
            self.check("full disk, then room", folder / "out", clear and code == 0, words)
            subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
            sorted_code, words = finish(command(self.work, folder / "out", 2))
            self.check("read-only folder", folder / "out", sorted_code == 1 and "cannot be written" in words, words)
        finally:
            subprocess.run(["umount", str(folder)], check=True)

    def two_runners(self) -> None:
        """Two runners on one folder at once: one works, the other is told."""
        folder = self.work / "two"
        first = command(self.work, folder, 2)
        while not (folder / "runner-0-of-1.lock").exists():
            time.sleep(0.05)
        time.sleep(0.5)
        code, words = finish(command(self.work, folder, 2))
        answer, _ = finish(first)
        self.check("two runners", folder, answer == 0 and code == 1 and "is at work" in words, words)


def main() -> int:
    """Run everything; 0 if all went well."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        torture = Torture(pathlib.Path(work))
        torture.kills(options.kills, options.seed)
        torture.devices()
        torture.damage()
        torture.full_disk()
        torture.two_runners()
    print("all well" if torture.well else "SOMETHING WENT WRONG")
    return 0 if torture.well else 1


if __name__ == "__main__":
    sys.exit(main())
