/*
 * The requests from before NIOCCTRL. SPDX-License-Identifier: BSD-2-Clause
 *
 * <net/netmap.h> defines them; this file is for programs that include it by its old name.
 */
#ifndef _NET_NETMAP_LEGACY_H_
#define _NET_NETMAP_LEGACY_H_

#include <net/netmap.h>

#endif /* _NET_NETMAP_LEGACY_H_ */
