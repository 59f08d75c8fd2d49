/*
 * The requests of before NIOCCTRL. SPDX-License-Identifier: BSD-2-Clause
 *
 * They stand in <net/netmap.h>; this file is for programs that include it by its old place.
 */
#ifndef _NET_NETMAP_LEGACY_H_
#define _NET_NETMAP_LEGACY_H_

#include <net/netmap.h>

#endif /* _NET_NETMAP_LEGACY_H_ */
