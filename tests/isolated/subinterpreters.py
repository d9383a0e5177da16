# SPDX-License-Identifier: BSD-3-Clause
"""The package in interpreters beside the main one that share its lock: imported, used, and ended with objects open."""

import sys

from common import NAME, one_of_each, package, stub

ib = package()

try:
    import _interpreters

    def create():
        return _interpreters.create("legacy")

except ImportError:
    import _xxsubinterpreters as _interpreters

    def create():
        return _interpreters.create(isolated=False)


CODE = """
import sys
sys.path[:] = {path!r}
import {package} as ib
from packages import open_device
ctx = open_device(ib)
pd = ctx.alloc_pd()
cq = ctx.create_cq(4)
qp = pd.create_qp(ib.QPInitAttr(cq, cq))
assert cq.poll(1) == []
try:
    cq.poll(0)
except ValueError:
    pass
knot = [ctx, pd, cq, qp, ib.Gid(bytes(16)), ib.SendWR()]
knot.append(knot)
"""

kept = one_of_each(ib)
for _ in range(5):
    made = [create() for _ in range(3)]
    for one in made:
        failed = _interpreters.run_string(one, CODE.format(path=sys.path, package=NAME))
        assert failed is None, failed
    assert kept["cq"].poll(1) == []
    for one in made:
        _interpreters.destroy(one)
    assert stub.violations == 0
assert kept["qp"].query()[0]["qp_state"] == 0
