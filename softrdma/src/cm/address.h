/* SPDX-License-Identifier: BSD-3-Clause */
/* Socket addresses as the connection manager sees them: what kind an address is of, and which NIC has it. */
#ifndef SOFTRDMA_CM_ADDRESS_H
#define SOFTRDMA_CM_ADDRESS_H

#include "../region.h"

#define CM_AF_IB 27

/* The length of an address of its family; 0: a family that is not served. */
uint32_t cm_addr_size(const union cm_addr *a);
uint16_t cm_addr_port(const union cm_addr *a);
void cm_addr_set_port(union cm_addr *a, uint16_t port);

/* Of IP addresses: as a GID, RoCE's way. */
void cm_addr_gid(const union cm_addr *a, uint8_t ret_gid[16]);
/* The address that a GID stands for, in place of that in a; family, port and the like stay. */
void cm_addr_set_gid(union cm_addr *a, const uint8_t gid[16]);

bool cm_addr_same_host(const union cm_addr *a, const union cm_addr *b);
bool cm_addr_is_zero(const union cm_addr *a);
bool cm_addr_is_any(const union cm_addr *a); /* zero or loopback: no NIC's own */
void cm_addr_set_loopback(union cm_addr *a);
bool cm_addr_lacks_scope(const union cm_addr *a); /* link-local, of no link */

/* The NIC that has the address and whose kind the connection manager serves, or -1; whether or not it is there. */
int cm_addr_device(struct region *r, const union cm_addr *a);
/* The NIC on whose network the address is: a neighbour, there or not; -1: none. Networks of IPv4 have 24 bits. */
int cm_addr_network(struct region *r, const union cm_addr *a);
bool cm_addr_is_broadcast(const union cm_addr *a); /* of a network of 24 bits */

/* What stands for the address on the wire: those that are no NIC's own live on the given one. */
void cm_addr_wire_gid(struct region *r, const union cm_addr *a, int device, uint8_t ret_gid[16]);

#endif
