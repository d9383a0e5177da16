/* SPDX-License-Identifier: BSD-3-Clause */
/* efa.WC */
#include <stdbool.h>

#include "classes.h"
#include "efa_wc.h"
#include "status.h"

static const struct core_field fields[] = {
#define FIELD(name, doc) CORE_FIELD(core_wc, wc.name, #name),
    CORE_WC_FIELDS(FIELD)
#undef FIELD
        CORE_FIELD_OF_KIND(efa_wc, extra.sgid, "sgid", CORE_FIELD_GID_BYTES),
    CORE_FIELD_OF_KIND(efa_wc, extra.unsolicited, "unsolicited", CORE_FIELD_BOOL),
};
static const struct core_record record = {fields, CORE_WC_FIELD_COUNT + 2};

const size_t core_wc_size = sizeof(struct efa_wc);

CORE_WC_FUNCTIONS(record)

const char *core_wc_vendor_text(const struct ibv_wc *wc)
{
    return efa_status_text(wc->vendor_err);
}

const char *core_wc_vendor_hint(const struct ibv_wc *wc)
{
    return efa_status_hint(wc->vendor_err);
}

static PyObject *wc_get_words(PyObject *self, void *hint)
{
    const struct ibv_wc *wc = &((struct core_wc *)self)->wc;
    const char *words = hint ? core_wc_vendor_hint(wc) : core_wc_vendor_text(wc);

    if (!words)
        Py_RETURN_NONE;
    return PyUnicode_FromString(words);
}

static PyMethodDef wc_methods[] = {CORE_WC_METHODS, CORE_RECORD_METHOD(wc), {NULL, NULL, 0, NULL}};

static PyGetSetDef wc_getset[] = {
    CORE_WC_GETSET,
    {"vendor_err_str", wc_get_words, NULL, "The device's own number for the failure in words, or None.",
     (void *)(uintptr_t)false},
    {"hint", wc_get_words, NULL, "What to look for first after such a failure, or None.", (void *)(uintptr_t)true},
    {"sgid", core_field_get, NULL, "The sender's GID as bytes, where the queue tells it and no AH covers it; else None.",
     (void *)&fields[CORE_WC_FIELD_COUNT]},
    {"unsolicited", core_field_get, NULL, "Whether it is a write with immediate that used up no receive.",
     (void *)&fields[CORE_WC_FIELD_COUNT + 1]},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot wc_slots[] = {
    {Py_tp_doc, "WC(wr_id=0, status=0, opcode=0, vendor_err=0, byte_len=0, imm_data=0, qp_num=0, src_qp=0, wc_flags=0, "
                "pkey_index=0, slid=0, sl=0, dlid_path_bits=0, sgid=None, unsolicited=False, first_error=None)\n--\n\n"
                "A completion; CQ.poll() gives them. struct ibv_wc, with imm_data in host byte order."},
    CORE_WC_SLOTS,
    {Py_tp_getset, wc_getset},
    {0, NULL},
};

const PyType_Spec efa_wc_spec = {
    .basicsize = sizeof(struct efa_wc),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = wc_slots,
};
