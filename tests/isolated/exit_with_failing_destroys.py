# SPDX-License-Identifier: BSD-3-Clause
"""Every destroy fails while the interpreter ends: it says so where it can, and goes on."""

import sys

from common import one_of_each, package, stub

ib = package()

knot = list(one_of_each(ib).values())
knot.append(knot)
kept = one_of_each(ib)
sys.unraisablehook = lambda info: None
for verb in ("destroy_qp", "dereg_mr", "destroy_ah", "destroy_srq", "destroy_cq", "dealloc_pd"):
    stub.fail(verb, 5, times=1000)
stub.fail("destroy_comp_channel", 5, times=1000)
stub.fail("close_device", 5, times=1000)
