"""
`python -I tether.py PID COMMAND…`: become a command that ends with the process PID.

A stdio server is a process of its own. Where its worker is killed, or the process in which a
`write` runs reaches its lease's end, nothing would tell the server; the kernel does.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Take the kernel's promise, see that it did not come too late, and become the command."""
    parent, *command = sys.argv[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != int(parent):
            os._exit(1)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
