"""Files that are there whole or not at all, whatever kills the writer."""

import contextlib
import errno
import fcntl
import os
import pathlib
import socket
import threading
import time
from collections.abc import Iterator

from omm_jax.study.spec import StudyError

_DAY = 86400.0


def write_whole(path: pathlib.Path, content: bytes) -> None:
    """Write under a temporary name in the same folder, flush to the disk, rename.

    Raises:
        StudyError: for a full disk or a folder that cannot be written; nothing is left behind.
    """
    writer = f"{socket.gethostname()}.{os.getpid()}.{threading.get_ident()}"
    temporary = path.with_name(f".{path.name}.{writer}.tmp")
    try:
        try:
            with temporary.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        _sync_folder(path.parent)
    except OSError as error:
        raise StudyError(_explain(path, error)) from error


def sweep(folder: pathlib.Path) -> None:
    """Remove the temporary files of writers that were killed: dead ones of this host, day-old ones of others."""
    for temporary in folder.glob(".*.tmp"):
        rest, pid, _, _ = temporary.name.rsplit(".", 3)
        here = rest.endswith(f".{socket.gethostname()}")
        with contextlib.suppress(OSError):
            if (here and not _alive(int(pid))) or time.time() - temporary.stat().st_mtime > _DAY:
                temporary.unlink()


@contextlib.contextmanager
def locked(path: pathlib.Path) -> Iterator[None]:
    """Hold a lock file. The lock ends with the process however it ends; a second holder is refused in words."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise StudyError(_explain(path, error)) from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(handle, 200, 0).decode(errors="replace").strip()
            raise StudyError(
                f"another runner ({holder or 'unknown'}) is at work in {path.parent}: wait for it or stop it, "
                "then run the same command again"
            ) from None
        except OSError:
            # A file system without locks: chunks are committed by rename and identical, so two runners only waste work.
            pass
        with contextlib.suppress(OSError):
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        yield
    finally:
        os.close(handle)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _sync_folder(folder: pathlib.Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _explain(path: pathlib.Path, error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the disk is full, {path} was not written: free some space and run the same command again to go on"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{path.parent} cannot be written ({error.strerror}): choose another folder or change its permissions"
    return f"{path} was not written: {error.strerror or error}"
