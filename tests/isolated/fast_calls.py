# SPDX-License-Identifier: BSD-3-Clause
"""The calling convention that the stable ABI documents later than it works: by position, by name, and wrongly."""


from common import is_efa, open_device, package, some_ah, stub

ib = package()

with open_device(ib) as ctx, ctx.alloc_pd() as pd, ctx.create_comp_channel() as ch, ctx.create_cq(16, ch) as cq:
    with pd.create_qp(ib.QPInitAttr(send_cq=cq, recv_cq=cq)) as qp, pd.reg_mr(addr=0x1000, length=8, access=1) as mr:
        stub.set_lenient()
        qp.modify(attr_mask=1, qp_state=3)
        to = {"ah": some_ah(ib, pd)} if is_efa(ib) else {}
        w = ib.SendWR(wr_id=5, sg_list=[mr.sge(length=8, offset=0)], opcode=2, send_flags=2, **to)
        for post in (lambda: qp.post_send(w), lambda: qp.post_send(wrs=w), lambda: qp.post_send(**{"wrs": [w]})):
            post()
            (wc,) = cq.poll(num_entries=3)
            assert wc.wr_id == 5
        name = "".join(["num", "_", "entries"])  # equal to the interned name, and another object
        assert cq.poll(**{name: 1}) == []
        cq.req_notify(solicited_only=False)
        cq.req_notify(False)
        wrong = [
            lambda: cq.poll(),
            lambda: cq.poll(1, 2),
            lambda: cq.poll(1, num_entries=1),
            lambda: cq.poll(entries=1),
            lambda: qp.post_send(),
            lambda: qp.post_send(w, wr=w),
            lambda: pd.reg_mr(1, 2),
            lambda: pd.reg_mr(1, 2, 3, 4, 5, 6, 7),
            lambda: pd.reg_mr(1, 2, length=3),
            lambda: ctx.create_cq(),
            lambda: qp.to_rtr(None, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11),
            lambda: mr.sge(1, 2, 3),
        ]
        for call in wrong:
            try:
                call()
            except TypeError:
                continue
            raise SystemExit("a wrong call was taken")
        for ah in to.values():
            ah.close()
assert stub.live_objects() == {}
