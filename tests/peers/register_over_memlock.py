# SPDX-License-Identifier: BSD-3-Clause
"""Registers more memory than the limit allows: LIMIT SIZE, in bytes. Prints the error as JSON.

A process of its own, because the limit does not bind root, and nobody becomes root again.
"""

from __future__ import annotations

import json
import mmap
import os
import resource
import sys

import ibverbs as ib


def main() -> None:
    limit, size = int(sys.argv[1]), int(sys.argv[2])
    memory = mmap.mmap(-1, size)
    with ib.get_device_list()[0].open() as ctx, ctx.alloc_pd() as pd:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (limit, limit))
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
        try:
            ib.reg_tensor(pd, memory, ib.AccessFlags.LOCAL_WRITE).close()
        except ib.VerbsError as error:
            print(json.dumps({"errno": error.errno, "message": str(error)}))
        else:
            print(json.dumps({"errno": 0, "message": f"{size} bytes registered over a limit of {limit}"}))


if __name__ == "__main__":
    main()
