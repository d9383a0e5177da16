# SPDX-License-Identifier: BSD-3-Clause
"""The interpreter ends while other threads post, poll, wait and destroy."""

import sys
import threading
import time

from common import is_efa, one_of_each, open_device, package, some_ah, stub

ib = package()

stub.set_lenient()
ctx = open_device(ib)
pd = ctx.alloc_pd()
channel = ctx.create_comp_channel()
cq = ctx.create_cq(1024, channel)
qp = pd.create_qp(ib.QPInitAttr(cq, cq, max_send_wr=256))
qp.modify(1, qp_state=3)
request = ib.SendWR(1, [], 2, 2, **({"ah": some_ah(ib, pd)} if is_efa(ib) else {}))


def forever(act):
    def run():
        while True:
            act()

    threading.Thread(target=run, daemon=True).start()


def post_and_poll():
    qp.post_send([request] * 200)
    cq.poll(1024)


forever(post_and_poll)
forever(lambda: channel.get_cq_event(timeout=10))
forever(lambda: ctx.get_async_event())
forever(lambda: one_of_each(ib).clear())
forever(lambda: ctx.query_device())
time.sleep(float(sys.argv[1]) / 100)
