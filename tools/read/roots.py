"""
Opening a file under the folders that a run may read, and no other.

A path is resolved first, links and `..` included, and must then lie under a root. It is opened from
that root component by component, following no link any more, so that one that is put in between
leads nowhere: by the kernel (`openat2`), or by a walk where it can't.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO

from mulligan.errors import ToolError

__all__ = ["open_within"]

_OPENAT2 = 437
"""The number of the system call, the same on all Linux architectures that Python runs on today."""
_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_NO_SYMLINKS = 0x04
_RESOLVE_BENEATH = 0x08
_CANNOT = (errno.ENOSYS, errno.EPERM, errno.EINVAL, errno.E2BIG, errno.EAGAIN)
"""Errors by which a kernel (or a container's filter) says that it does not do this call."""

_LOOK = getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK) | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class _OpenHow(ctypes.Structure):
    _fields_ = [("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64)]


def open_within(path: str, roots: Sequence[str]) -> tuple[BinaryIO, str]:
    """
    The regular file at `path`, opened, and its path from its root. A relative path is looked for
    under each root in turn.

    Raises ToolError: `outside_roots` (whether or not something is there), `not_found`,
    `not_a_file`, `unreadable`.
    """
    if not roots:
        raise ToolError(
            "outside_roots", "no folder may be read here; settings.read_roots names those that may"
        )
    if not path or "\0" in path:
        raise ToolError("invalid_arguments", "file_path is the path of a file")
    found = [place for root in roots if (place := _place(path, root)) is not None]
    if not found:
        raise ToolError("outside_roots", "this path is outside the folders that may be read here")
    root, inside = next((one for one in found if os.path.lexists(one[0] / one[1])), found[0])
    return _open(root, inside), inside


def _place(path: str, root: str) -> tuple[Path, str] | None:
    """The resolved root, and where the resolved path is under it; None: it is not."""
    real_root = os.path.realpath(root)
    real = os.path.realpath(os.path.join(real_root, path))
    if os.path.commonpath([real_root, real]) != real_root:
        return None
    return Path(real_root), os.path.relpath(real, real_root)


def _open(root: Path, inside: str) -> BinaryIO:
    """
    It is looked at before it is opened for reading: to open a pipe or a device does something.
    """
    try:
        looked = _descriptor(root, inside, _LOOK)
        try:
            seen = os.fstat(looked)
        finally:
            os.close(looked)
        _regular(seen)
        opened = _descriptor(root, inside, _READ)
    except OSError as error:
        raise _told(error) from None
    try:
        _regular(os.fstat(opened))
        return os.fdopen(opened, "rb")
    except BaseException:
        os.close(opened)
        raise


def _regular(seen: os.stat_result) -> None:
    if not stat.S_ISREG(seen.st_mode):
        what = "a folder" if stat.S_ISDIR(seen.st_mode) else "no regular file"
        raise ToolError("not_a_file", f"this is {what}; read takes files")


def _told(error: OSError) -> ToolError:
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return ToolError("not_found", "there is no such file in the folders that may be read here")
    if error.errno in (errno.ELOOP, errno.EXDEV):
        return ToolError("outside_roots", "this path led elsewhere while it was being opened")
    return ToolError("unreadable", f"the file can't be read: {error.strerror}")


def _descriptor(root: Path, inside: str, flags: int) -> int:
    folder = os.open(root, getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return _by_kernel(folder, inside, flags)
    except OSError as error:
        if error.errno not in _CANNOT:
            raise
        return _by_walk(folder, inside, flags)
    finally:
        os.close(folder)


def _by_kernel(folder: int, inside: str, flags: int) -> int:
    """Raises OSError of `_CANNOT` where the kernel knows no such call."""
    if os.uname().sysname != "Linux":
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    resolve = _RESOLVE_BENEATH | _RESOLVE_NO_SYMLINKS | _RESOLVE_NO_MAGICLINKS
    how = _OpenHow(flags, 0, resolve)
    call = ctypes.CDLL(None, use_errno=True).syscall
    name = os.fsencode(inside)
    opened = call(
        ctypes.c_long(_OPENAT2),
        ctypes.c_int(folder),
        ctypes.c_char_p(name),
        ctypes.byref(how),
        ctypes.c_size_t(ctypes.sizeof(how)),
    )
    if opened < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return int(opened)


def _by_walk(folder: int, inside: str, flags: int) -> int:
    """One component after another, none of them a link."""
    *folders, last = Path(inside).parts or (".",)
    enter = partial(os.open, flags=_LOOK | os.O_DIRECTORY | os.O_NOFOLLOW)
    at = os.dup(folder)
    try:
        for name in folders:
            below = enter(name, dir_fd=at)
            os.close(at)
            at = below
        return os.open(last, flags | os.O_NOFOLLOW, dir_fd=at)
    finally:
        os.close(at)
