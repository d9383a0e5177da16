/* SPDX-License-Identifier: BSD-3-Clause */
/* ibverbs.WC */
#include "wc.h"

#include "classes.h"

static const struct core_record record = {core_wc_fields, CORE_WC_FIELD_COUNT};

const size_t core_wc_size = sizeof(struct core_wc);

/* Every device has its own, and libibverbs knows none. */
const char *core_wc_vendor_text(const struct ibv_wc *wc)
{
    (void)wc;
    return NULL;
}

const char *core_wc_vendor_hint(const struct ibv_wc *wc)
{
    (void)wc;
    return NULL;
}

CORE_WC_FUNCTIONS(record)

static PyMethodDef wc_methods[] = {CORE_WC_METHODS, CORE_RECORD_METHOD(wc), {NULL, NULL, 0, NULL}};

static PyGetSetDef wc_getset[] = {CORE_WC_GETSET, {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot wc_slots[] = {
    {Py_tp_doc, "WC(wr_id=0, status=0, opcode=0, vendor_err=0, byte_len=0, imm_data=0, qp_num=0, src_qp=0, wc_flags=0, "
                "pkey_index=0, slid=0, sl=0, dlid_path_bits=0, first_error=None)\n--\n\n"
                "A completion; CQ.poll() gives them. struct ibv_wc, with imm_data in host byte order."},
    CORE_WC_SLOTS,
    {Py_tp_getset, wc_getset},
    {0, NULL},
};

const PyType_Spec ibverbs_wc_spec = {
    .basicsize = sizeof(struct core_wc),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = wc_slots,
};
