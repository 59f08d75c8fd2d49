/*
 * netmap for programs: where rings and buffers are, and, with NETMAP_WITH_LIBS defined, a whole
 * client in a header. SPDX-License-Identifier: BSD-2-Clause
 *
 * Names, layouts and behaviour are netmap's; the text is slipring's own.
 *
 *   struct nm_desc *d = nm_open("netmap:eth1", NULL, 0, NULL);
 *   struct pollfd p = { NETMAP_FD(d), POLLIN, 0 };
 *   struct nm_pkthdr h;
 *   while (poll(&p, 1, -1) > 0)
 *           while ((frame = nm_nextpkt(d, &h)))
 *                   ... h.len bytes at frame, until the next poll or ioctl
 *   nm_close(d);
 *
 * New programs are better served by libnetmap.h, which knows the whole language of port names.
 */
#ifndef _NET_NETMAP_USER_H_
#define _NET_NETMAP_USER_H_

/*
 * Headers that netmap's own header includes, so that programs may rely on them without the client.
 */
#include <ctype.h>
#include <errno.h>
#include <net/if.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/types.h>
#include <time.h>

#include <net/netmap.h>

#ifndef likely
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#endif

/* ---- addresses ---- */

#define _NETMAP_OFFSET(type, ptr, offset) ((type)(void *)((char *)(ptr) + (offset)))

#define NETMAP_IF(base, ofs) _NETMAP_OFFSET(struct netmap_if *, base, ofs)

/* Rings by number; the rings of the host come after those of the NIC. */
#define NETMAP_TXRING(nifp, index) \
	_NETMAP_OFFSET(struct netmap_ring *, nifp, (nifp)->ring_ofs[index])
#define NETMAP_RXRING(nifp, index)                     \
	_NETMAP_OFFSET(struct netmap_ring *, nifp,     \
	    (nifp)->ring_ofs[(index) + (nifp)->ni_tx_rings + (nifp)->ni_host_tx_rings])

#define NETMAP_BUF(ring, index) \
	((char *)(ring) + (ring)->buf_ofs + (size_t)(index) * (ring)->nr_buf_size)
#define NETMAP_BUF_IDX(ring, buf) \
	(((char *)(buf) - ((char *)(ring) + (ring)->buf_ofs)) / (ring)->nr_buf_size)

/* The start of the payload in a slot's buffer, for ports that were opened with offsets. */
#define NETMAP_ROFFSET(ring, slot) ((slot)->ptr & (ring)->offset_mask)
#define NETMAP_WOFFSET(ring, slot, offset)                            \
	do {                                                          \
		(slot)->ptr = ((slot)->ptr & ~(ring)->offset_mask) |  \
		    ((offset) & (ring)->offset_mask);                 \
	} while (0)
#define NETMAP_BUF_OFFSET(ring, slot) \
	(NETMAP_BUF(ring, (slot)->buf_idx) + NETMAP_ROFFSET(ring, slot))

/* ---- moving along a ring ---- */

static inline uint32_t
nm_ring_next(struct netmap_ring *ring, uint32_t i)
{
	return unlikely(i + 1 == ring->num_slots) ? 0 : i + 1;
}

/* How many slots the program owns: frames to read, or room to send. */
static inline uint32_t
nm_ring_space(struct netmap_ring *ring)
{
	uint32_t head = ring->head, tail = ring->tail;

	return tail >= head ? tail - head : tail + ring->num_slots - head;
}

/* Whether slots before head are not sent yet. */
static inline int
nm_tx_pending(struct netmap_ring *ring)
{
	return nm_ring_next(ring, ring->tail) != ring->head;
}

/* ---- messages for debugging ---- */

#ifndef ND
#define ND(format, ...) do { } while (0)
#define D(format, ...)                                                               \
	do {                                                                         \
		struct timeval nm_now_;                                              \
		gettimeofday(&nm_now_, NULL);                                        \
		fprintf(stderr, "%03d.%06d %s [%d] " format "\n",                    \
		    (int)(nm_now_.tv_sec % 1000), (int)nm_now_.tv_usec,              \
		    __func__, __LINE__, ##__VA_ARGS__);                              \
	} while (0)
/* The same, at most lps times per second. */
#define RD(lps, format, ...)                                                         \
	do {                                                                         \
		static time_t nm_second_;                                            \
		static int nm_said_;                                                 \
		time_t nm_time_ = time(NULL);                                        \
		if (nm_second_ != nm_time_) {                                        \
			nm_second_ = nm_time_;                                       \
			nm_said_ = 0;                                                \
		}                                                                    \
		if (nm_said_++ < (lps))                                              \
			D(format, ##__VA_ARGS__);                                    \
	} while (0)
#endif

/* ---- frames ---- */

static inline void
nm_pkt_copy(const void *src, void *dst, int len)
{
	memcpy(dst, src, (size_t)len);
}

#ifdef NETMAP_WITH_LIBS
#include <net/netmap_libs.h>
#endif

#endif /* _NET_NETMAP_USER_H_ */
