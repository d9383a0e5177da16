/* SPDX-License-Identifier: BSD-3-Clause */
/* The network header as a receiver of datagrams finds it: IPv6 in all 40 bytes, or IPv4 in the last 20. */
#include "rxe.h"

enum { UDP_HEADER = 8, BTH_DETH = 20, IMMEDIATE = 4, ICRC = 4, PROTOCOL_UDP = 17 };

/* Whatever the address handle says: the kernel takes the route's limit, and writes no flow label. */
enum { HOP_LIMIT = 64 };

static void put16(uint8_t *p, uint32_t value)
{
    p[0] = (uint8_t)(value >> 8);
    p[1] = (uint8_t)value;
}

static uint32_t checksum(const uint8_t *header)
{
    uint32_t sum = 0;

    for (int i = 0; i < 20; i += 2)
        sum += (uint32_t)header[i] << 8 | header[i + 1];
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return ~sum & 0xffff;
}

void rxe_make_grh(uint8_t *grh, const struct rxe_request *q)
{
    uint32_t payload = (q->length + 3) & ~3u;
    uint32_t udp = UDP_HEADER + BTH_DETH + (q->opcode == RXE_SEND_IMM ? IMMEDIATE : 0) + payload + ICRC;

    memset(grh, 0, RXE_GRH);
    if (gid_is_ipv4(q->dgid)) {
        uint8_t *ip = grh + 20;

        ip[0] = 0x45;
        ip[1] = q->traffic_class;
        put16(ip + 2, 20 + udp);
        ip[6] = 0x40; /* do not fragment */
        ip[8] = HOP_LIMIT;
        ip[9] = PROTOCOL_UDP;
        memcpy(ip + 12, q->sgid + 12, 4);
        memcpy(ip + 16, q->dgid + 12, 4);
        put16(ip + 10, checksum(ip));
    } else {
        grh[0] = (uint8_t)(0x60 | q->traffic_class >> 4);
        grh[1] = (uint8_t)(q->traffic_class << 4);
        put16(grh + 4, udp);
        grh[6] = PROTOCOL_UDP;
        grh[7] = HOP_LIMIT;
        memcpy(grh + 8, q->sgid, 16);
        memcpy(grh + 24, q->dgid, 16);
    }
}
