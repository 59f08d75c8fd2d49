/*
 * For programs that share rings with a loop elsewhere. SPDX-License-Identifier: BSD-2-Clause
 *
 * Control blocks and their accessors (struct nm_csb_atok, nm_sync_kloop_appl_write, ...) are in
 * <net/netmap.h>. The devices of netmap's guests (ptnet) do not exist here.
 */
#ifndef _NET_NETMAP_VIRT_H_
#define _NET_NETMAP_VIRT_H_

#include <net/netmap.h>

#endif /* _NET_NETMAP_VIRT_H_ */
