# SPDX-License-Identifier: BSD-3-Clause
"""The interpreter ends while events come in, are read, and queues that they are about are destroyed: nothing waits for
an event that nobody reads any more, and nobody keeps the lock that reading takes."""

import atexit
import sys
import threading
import time

from common import open_device, package, stub

ib = package()

stub.set_lenient()
ctx = open_device(ib)
pd = ctx.alloc_pd()
channel = ctx.create_comp_channel()
queues = [ctx.create_cq(16, channel) for _ in range(20)]
queues += [pd.create_qp(ib.QPInitAttr(cq, cq)) for cq in queues[:10]]


def forever(act):
    def run():
        while True:
            act()

    threading.Thread(target=run, daemon=True).start()


def announce():
    for queue in list(queues):
        if isinstance(queue, ib.CQ):
            stub.push_cq_event(queue)
        else:
            stub.raise_event(ctx, 1, queue)
    time.sleep(0.0001)


def announced_and_dropped():
    other = ctx.create_cq(16, channel)
    stub.push_cq_event(other)


forever(announce)
forever(announced_and_dropped)
for _ in range(2):
    forever(lambda: channel.get_cq_event(timeout=10))
    forever(ctx.get_async_event)
atexit.register(queues.clear)  # while the others still run
time.sleep(0.02 + float(sys.argv[1]) / 100)
