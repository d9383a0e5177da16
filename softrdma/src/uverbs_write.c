/* SPDX-License-Identifier: BSD-3-Clause */
/* The commands of the older interface, which arrive inside INVOKE_WRITE. */
#include "uverbs.h"

#include "config.h"
#include "fault/fault.h"
#include "object.h"

#define CMD(command, in, out, run)                                                                           \
    {                                                                                                        \
        IB_USER_VERBS_CMD_##command, in, out, #command, run                                                  \
    }
#define EX(command, in, out, run)                                                                            \
    {                                                                                                        \
        IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_EX_CMD_##command, in, out, "EX_" #command, run       \
    }
#define S(name) sizeof(struct ib_uverbs_##name)

static const struct write_method methods[] = {
    CMD(QUERY_DEVICE, S(query_device), S(query_device_resp), device_query),
    EX(QUERY_DEVICE, S(ex_query_device), 4, device_query_ex),
    CMD(ALLOC_PD, S(alloc_pd), S(alloc_pd_resp), pd_alloc),
    CMD(REG_MR, S(reg_mr), S(reg_mr_resp), mr_reg),
    CMD(ALLOC_MW, 16, S(alloc_mw_resp), mw_alloc),
    CMD(CREATE_COMP_CHANNEL, S(create_comp_channel), S(create_comp_channel_resp), channel_create),
    CMD(RESIZE_CQ, S(resize_cq), 4, cq_resize),
    CMD(REQ_NOTIFY_CQ, S(req_notify_cq), 0, cq_req_notify),
    CMD(MODIFY_QP, S(modify_qp), 0, qp_modify),
    CMD(QUERY_QP, S(query_qp), S(query_qp_resp), qp_query),
    CMD(MODIFY_SRQ, S(modify_srq), 0, srq_modify),
    CMD(QUERY_SRQ, S(query_srq), S(query_srq_resp), srq_query),
    CMD(CREATE_AH, S(create_ah), S(create_ah_resp), ah_create),
    CMD(ATTACH_MCAST, S(attach_mcast), 0, mcast_attach),
    CMD(DETACH_MCAST, S(detach_mcast), 0, mcast_detach),
};

/* The extended form of a command has its name. */
static const char *plain_name(const struct write_method *m)
{
    return strncmp(m->name, "EX_", 3) == 0 ? m->name + 3 : m->name;
}

const char *uverbs_command_name(size_t i)
{
    return i < NELEM(methods) ? plain_name(&methods[i]) : NULL;
}

int uverbs_invoke_write(struct call *c)
{
    uint64_t in[32]; /* the longest core input is well below this */
    uint32_t command = call_u32(c, UVERBS_ATTR_WRITE_CMD);
    int err;

    for (size_t i = 0; i < NELEM(methods); i++) {
        const struct write_method *m = &methods[i];

        if (m->command != command)
            continue;
        /* libibverbs asks with nothing but the command whether INVOKE_WRITE exists: ENOSPC says yes. */
        if (call_size(c, UVERBS_ATTR_CORE_IN) < m->in || call_size(c, UVERBS_ATTR_CORE_OUT) < m->out)
            return ENOSPC;
        err = call_in(c, UVERBS_ATTR_CORE_IN, in, sizeof(in));
        c->in = in;
        if (!err)
            err = fault_call(c->r, (uint32_t)c->device->index, plain_name(m));
        if (!err)
            err = m->run(c);
        c->in = NULL;
        TRACE("%s: %d", m->name, err);
        return err;
    }
    TRACE("command %#x: not known", command);
    return EOPNOTSUPP;
}
