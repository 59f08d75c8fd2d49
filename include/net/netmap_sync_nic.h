/*
 * Queues of an interface, synced in the program itself over AF_XDP's rings.
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * A part of net/netmap_sync.h. The device lends queues by an ioctl, and their sockets by its other door,
 * a unix socket beside its directory. Then program and device take turns at a queue, sync by sync: who
 * finds the other one at it leaves that to him. Each slot that goes to the kernel is a cell of its fill or
 * TX ring, and each that comes back one of its RX or completion ring, so the kernel's own indices say
 * where a ring stands, and a program may be killed anywhere. What is not done here is the device's to do:
 * wrong indices, packets of several slots, unfinished checksums, a socket that fails.
 */
#ifndef _NET_NETMAP_SYNC_NIC_H_
#define _NET_NETMAP_SYNC_NIC_H_

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <net/netmap_user.h>

/* ---- what the device says ---- */

/* A queue that is lent; offsets from the start of the mapping. */
struct nm_lent_queue {
	uint64_t words;
	uint64_t tx, rx;      /* its rings; 0 for one that is not bound */
	uint32_t num_slots;   /* a power of two */
	uint32_t cells;       /* of each of the kernel's rings, as many at least */
	uint32_t longest;     /* bytes of a frame that is sent */
	uint32_t bufs;
	uint32_t flags;
	uint32_t pad;
};

#define NM_LENT_SOFTWARE 1    /* frames come from the kernel: checksums may be unfinished */
#define NM_LENT_ZERO_COPY 2

#define NM_LENT_QUEUES 32

struct nm_lent_queues {
	uint32_t version;     /* 1 */
	uint32_t who;         /* the program's number among all who sync */
	uint32_t stamps;      /* each rx sync writes its time */
	uint32_t count;
	uint64_t token;       /* for which there are the sockets */
	struct nm_lent_queue queues[NM_LENT_QUEUES];
};

#define NIOCLENDQ _IOWR('i', 162, struct nm_lent_queues)

/* The words of one direction. */
struct nm_nic_half {
	uint64_t owner;       /* who is syncing; 0 for nobody */
	uint64_t by_host;     /* only the device may sync */
	uint64_t in, out;     /* the slot that goes with index 0: of the fill or TX ring; of the other */
	uint64_t packets, bytes, refused;
	uint64_t holder;      /* whom it is lent to */
	uint64_t pad[8];
};

struct nm_nic_words {
	struct nm_nic_half tx, rx;
};

/* ---- AF_XDP, as linux/if_xdp.h has it ---- */

#define NM_SOL_XDP 283
#define NM_XDP_MMAP_OFFSETS 1
#define NM_XDP_NEED_WAKEUP 1
#define NM_XDP_CONTINUED 1

struct nm_xdp_ring_offset {
	uint64_t producer, consumer, desc, flags;
};

struct nm_xdp_offsets {
	struct nm_xdp_ring_offset rx, tx, fill, completion;
};

struct nm_xdp_desc {
	uint64_t addr;
	uint32_t len, options;
};

/* One of the kernel's rings. */
struct nm_nic_ring {
	char *map;
	size_t bytes;
	uint32_t *producer, *consumer, *flags;
	void *cells;
};

struct nm_nic_queue {
	struct nm_lent_queue lent;
	struct nm_nic_ring fill, completion, rx, tx;
	int fd;
};

/* The kernel puts frames, and netmap their data, so far behind where a chunk begins. */
#define NM_NIC_HEADROOM 256

/* ---- opening and closing ---- */

static inline int
nm_nic_map_(struct nm_nic_ring *r, int fd, const struct nm_xdp_ring_offset *at, uint32_t cells,
    size_t cell, uint64_t page)
{
	r->bytes = (size_t)at->desc + cells * cell;
	r->map = (char *)mmap(NULL, r->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd,
	    (off_t)page);
	if (r->map == (char *)MAP_FAILED) {
		r->map = NULL;
		return 0;
	}
	r->producer = (uint32_t *)(void *)(r->map + at->producer);
	r->consumer = (uint32_t *)(void *)(r->map + at->consumer);
	r->flags = (uint32_t *)(void *)(r->map + at->flags);
	r->cells = r->map + at->desc;
	return 1;
}

static inline void
nm_nic_close(struct nm_nic_queue *q)
{
	struct nm_nic_ring *rings[4] = { &q->fill, &q->completion, &q->rx, &q->tx };
	int i;

	for (i = 0; i < 4; i++)
		if (rings[i]->map)
			munmap(rings[i]->map, rings[i]->bytes);
	if (q->fd >= 0)
		close(q->fd);
}

static inline int
nm_nic_open_(struct nm_nic_queue *q, uint64_t memsize)
{
	const struct nm_lent_queue *l = &q->lent;
	struct nm_xdp_offsets at;
	socklen_t len = sizeof(at);
	uint64_t ring = sizeof(struct netmap_ring) + (uint64_t)l->num_slots * sizeof(struct netmap_slot);

	return l->num_slots > 1 && (l->num_slots & (l->num_slots - 1)) == 0 &&
	    l->cells >= l->num_slots && (l->cells & (l->cells - 1)) == 0 &&
	    l->words + sizeof(struct nm_nic_words) <= memsize && l->tx + ring <= memsize &&
	    l->rx + ring <= memsize &&
	    getsockopt(q->fd, NM_SOL_XDP, NM_XDP_MMAP_OFFSETS, &at, &len) == 0 && len == sizeof(at) &&
	    nm_nic_map_(&q->rx, q->fd, &at.rx, l->cells, sizeof(struct nm_xdp_desc), 0) &&
	    nm_nic_map_(&q->tx, q->fd, &at.tx, l->cells, sizeof(struct nm_xdp_desc), 0x80000000) &&
	    nm_nic_map_(&q->fill, q->fd, &at.fill, l->cells, 8, UINT64_C(0x100000000)) &&
	    nm_nic_map_(&q->completion, q->fd, &at.completion, l->cells, 8, UINT64_C(0x180000000));
}

/* Whether who owns a directory, or listens on a socket, is root or who runs the program. */
static inline int
nm_nic_trusts_(uid_t uid)
{
	return uid == 0 || uid == geteuid();
}

/* A connection to the other door of the device that fd is open on; -1 where there is none, or one that a
 * stranger may have put there. */
static inline int
nm_nic_door_(int fd)
{
	static const char name[] = "native.sock";
	struct sockaddr_un to;
	struct { pid_t pid; uid_t uid; gid_t gid; } peer; /* struct ucred has this name with _GNU_SOURCE only */
	socklen_t size = sizeof(peer);
	struct timeval patience = { 5, 0 };
	struct stat dir;
	char link[32], *slash;
	ssize_t len;
	int s, i;

	memset(&to, 0, sizeof(to));
	to.sun_family = AF_UNIX;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	len = readlink(link, to.sun_path, sizeof(to.sun_path) - sizeof(name));
	if (len <= 0 || len >= (ssize_t)(sizeof(to.sun_path) - sizeof(name)))
		return -1;
	to.sun_path[len] = '\0';
	for (i = 0; i < 2; i++) { /* beside the directory of the file */
		slash = strrchr(to.sun_path, '/');
		if (!slash)
			return -1;
		slash[i] = '\0';
	}
	if (stat(to.sun_path, &dir) != 0 || !nm_nic_trusts_(dir.st_uid) || (dir.st_mode & 022))
		return -1;
	memcpy(slash + 1, name, sizeof(name));
	s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	/* For connect, too: nobody may be accepting there. */
	if (s >= 0 && (setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) != 0 ||
	    setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) != 0 ||
	    connect(s, (struct sockaddr *)&to, sizeof(to)) != 0 ||
	    getsockopt(s, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || !nm_nic_trusts_(peer.uid))) {
		close(s);
		s = -1;
	}
	return s;
}

/* The sockets that wait for a token; how many came. */
static inline uint32_t
nm_nic_sockets_(int fd, uint64_t token, int fds[NM_LENT_QUEUES])
{
	/* op 5, pieces, cmd, bytes of the argument, arm; the argument */
	struct { uint16_t words[4]; uint32_t bytes, arm; uint64_t token; } ask;
	union { struct cmsghdr head; char space[CMSG_SPACE(NM_LENT_QUEUES * sizeof(int))]; } beside;
	struct iovec io = { &ask, sizeof(ask) };
	struct cmsghdr *c;
	struct msghdr m;
	uint32_t count = 0;
	int s = nm_nic_door_(fd);

	if (s < 0)
		return 0;
	memset(&ask, 0, sizeof(ask));
	ask.words[0] = 5;
	ask.bytes = sizeof(token);
	ask.token = token;
	memset(&m, 0, sizeof(m));
	m.msg_iov = &io;
	m.msg_iovlen = 1;
	if (sendmsg(s, &m, MSG_NOSIGNAL) == (ssize_t)sizeof(ask)) {
		m.msg_control = &beside;
		m.msg_controllen = sizeof(beside);
		if (recvmsg(s, &m, MSG_CMSG_CLOEXEC) > 0 && (c = CMSG_FIRSTHDR(&m)) != NULL &&
		    c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
			count = (uint32_t)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
			memcpy(fds, CMSG_DATA(c), count * sizeof(int));
		}
	}
	close(s);
	return count;
}

/* The queues that fd has bound, if they are lent; NULL otherwise. */
static inline struct nm_nic_queue *
nm_nic_start(int fd, uint64_t memsize, struct nm_lent_queues *lent)
{
	int fds[NM_LENT_QUEUES];
	struct nm_nic_queue *queues;
	uint32_t i, got, good = 1;

	memset(lent, 0, sizeof(*lent));
	lent->version = 1;
	if (ioctl(fd, NIOCLENDQ, lent) != 0 || lent->count == 0 || lent->count > NM_LENT_QUEUES)
		return NULL;
	queues = (struct nm_nic_queue *)calloc(lent->count, sizeof(*queues));
	if (!queues)
		return NULL;
	got = nm_nic_sockets_(fd, lent->token, fds);
	for (i = 0; i < lent->count || i < got; i++) {
		if (i >= lent->count) {
			close(fds[i]);
			continue;
		}
		queues[i].fd = i < got ? fds[i] : -1;
		queues[i].lent = lent->queues[i];
		good = good && i < got && nm_nic_open_(&queues[i], memsize);
	}
	if (good)
		return queues;
	for (i = 0; i < lent->count; i++)
		nm_nic_close(&queues[i]);
	free(queues);
	return NULL;
}

/* ---- a sync ---- */

static inline uint32_t
nm_nic_read_(const uint32_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static inline void
nm_nic_write_(uint32_t *word, uint32_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

/* The chunk that the kernel's address lies in, and how far behind where that begins. */
static inline uint32_t
nm_nic_chunk_(const struct netmap_ring *ring, uint64_t addr, uint32_t *behind)
{
	addr = (addr & ((UINT64_C(1) << 48) - 1)) + (addr >> 48);
	*behind = (uint32_t)(addr % ring->nr_buf_size);
	return (uint32_t)(addr / ring->nr_buf_size);
}

/* Has slot `at` name a buffer. That of the slots behind it, up to `end`, which named it gets what `at`
 * had: together they always name just the buffers that the kernel has. */
static inline void
nm_nic_exchange_(struct netmap_ring *ring, uint32_t mask, uint32_t at, uint32_t end, uint32_t buf)
{
	struct netmap_slot *slot = &ring->slot[at], *other;
	uint32_t i, named = slot->buf_idx;
	uint16_t len = slot->len;

	if (named == buf)
		return;
	for (i = (at + 1) & mask; i != end; i = (i + 1) & mask) {
		other = &ring->slot[i];
		if (other->buf_idx == buf) {
			slot->len = other->len;
			other->len = len;
			*(volatile uint32_t *)&other->buf_idx = named;
			break;
		}
	}
	*(volatile uint32_t *)&slot->buf_idx = buf;
	slot->flags = NS_BUF_CHANGED;
}

/* A direction during a sync: which slots are whose. */
struct nm_nic_turn {
	struct nm_nic_half *half;
	struct netmap_ring *ring;
	uint32_t mask, hwcur, head, tail;
};

static inline void
nm_nic_give_(struct nm_nic_turn *t)
{
	__atomic_store_n(&t->half->owner, 0, __ATOMIC_RELEASE);
}

/* Takes a direction whose ring stands where the kernel's indices say. 1 if it is ours now, 0 if it is the
 * device's, -1 if somebody is just at it. */
static inline int
nm_nic_take_(struct nm_nic_turn *t, uint32_t who, const uint32_t *in, const uint32_t *out)
{
	uint64_t nobody = 0;
	uint32_t held, cur;

	if (__atomic_load_n(&t->half->holder, __ATOMIC_ACQUIRE) != who)
		return 0;
	if (!__atomic_compare_exchange_n(&t->half->owner, &nobody, (uint64_t)who, 0, __ATOMIC_ACQUIRE,
	    __ATOMIC_RELAXED))
		return -1;
	t->hwcur = (nm_nic_read_(in) + (uint32_t)t->half->in) & t->mask;
	t->tail = (nm_nic_read_(out) + (uint32_t)t->half->out) & t->mask;
	held = (t->tail - t->hwcur) & t->mask;
	t->head = nm_nic_read_(&t->ring->head);
	cur = *(volatile uint32_t *)&t->ring->cur;
	if (!__atomic_load_n(&t->half->by_host, __ATOMIC_ACQUIRE) && !t->ring->offset_mask &&
	    t->head <= t->mask && cur <= t->mask && ((cur - t->hwcur) & t->mask) <= held &&
	    ((t->head - t->hwcur) & t->mask) <= ((cur - t->hwcur) & t->mask))
		return 1;
	nm_nic_give_(t);
	return 0;
}

/* Whether a socket call failed for longer than a moment. */
static inline int
nm_nic_failed_(void)
{
	return errno != EAGAIN && errno != EBUSY && errno != ENOBUFS && errno != EINTR && errno != ENOMEM;
}

/* Takes back what the kernel has sent: the k-th buffer that comes back goes into the k-th slot behind
 * the tail. */
static inline uint32_t
nm_nic_complete_(struct nm_nic_queue *q, struct nm_nic_turn *t)
{
	const uint64_t *cells = (const uint64_t *)q->completion.cells;
	uint32_t from = nm_nic_read_(q->completion.consumer), to = nm_nic_read_(q->completion.producer);
	uint32_t i, buf, behind;
	uint64_t bytes = 0;

	for (i = from; i != to && i - from < q->lent.num_slots; i++) {
		t->tail = (t->tail + 1) & t->mask;
		buf = nm_nic_chunk_(t->ring, cells[i & (q->lent.cells - 1)], &behind);
		nm_nic_exchange_(t->ring, t->mask, t->tail, t->hwcur, buf);
		bytes += t->ring->slot[t->tail].len;
	}
	if (i != from) {
		t->half->packets += i - from;
		t->half->bytes += bytes;
		nm_nic_write_(q->completion.consumer, i);
	}
	return i - from;
}

/* Hands frames in one slot to the kernel; false where the device has to look at the next one. */
static inline int
nm_nic_submit_(struct nm_nic_queue *q, struct nm_nic_turn *t)
{
	struct nm_xdp_desc *cells = (struct nm_xdp_desc *)q->tx.cells, *cell;
	uint32_t next = nm_nic_read_(q->tx.producer), taken = nm_nic_read_(q->tx.consumer);
	uint32_t size = t->ring->nr_buf_size, longest = size - NM_NIC_HEADROOM;
	int good = 1;

	if (longest > q->lent.longest)
		longest = q->lent.longest;
	for (; t->hwcur != t->head && next - taken < q->lent.cells; t->hwcur = (t->hwcur + 1) & t->mask) {
		struct netmap_slot *slot = &t->ring->slot[t->hwcur];
		uint32_t buf = slot->buf_idx, len = slot->len;

		if (slot->flags & NS_MOREFRAG || len == 0 || len > longest || buf < 2 ||
		    buf >= q->lent.bufs) {
			good = 0;
			break;
		}
		cell = &cells[next++ & (q->lent.cells - 1)];
		cell->addr = (uint64_t)buf * size + NM_NIC_HEADROOM;
		cell->len = len;
		cell->options = 0;
		slot->flags &= (uint16_t)~NS_BUF_CHANGED;
	}
	nm_nic_write_(q->tx.producer, next);
	return good;
}

/* Has the kernel send for as long as it gets on; false if it cannot. */
static inline int
nm_nic_kick_(struct nm_nic_queue *q, struct nm_nic_turn *t)
{
	struct nm_xdp_desc *cells = (struct nm_xdp_desc *)q->tx.cells;
	uint32_t next = nm_nic_read_(q->tx.producer), taken, now;
	int zero_copy = (q->lent.flags & NM_LENT_ZERO_COPY) != 0, failed = 0;

	while ((taken = nm_nic_read_(q->tx.consumer)) != next) {
		if (zero_copy && !(nm_nic_read_(q->tx.flags) & NM_XDP_NEED_WAKEUP))
			break;
		failed = sendto(q->fd, NULL, 0, MSG_DONTWAIT, NULL, 0) < 0 ? errno : 0;
		now = nm_nic_read_(q->tx.consumer);
		if (failed == EBUSY && now != taken) { /* it dropped the one that it took last */
			t->half->refused++;
			t->half->bytes -= cells[(now - 1) & (q->lent.cells - 1)].len;
		}
		errno = failed;
		failed = failed && nm_nic_failed_();
		nm_nic_complete_(q, t);
		if (zero_copy || failed || now == taken)
			break;
	}
	return !failed;
}

/* False where the device has to do it, or the rest. */
static inline int
nm_nic_tx(struct nm_nic_queue *q, char *mem, uint32_t who)
{
	struct nm_nic_turn t;
	int taken, good;

	t.half = &((struct nm_nic_words *)(void *)(mem + q->lent.words))->tx;
	t.ring = (struct netmap_ring *)(void *)(mem + q->lent.tx);
	t.mask = q->lent.num_slots - 1;
	taken = nm_nic_take_(&t, who, q->tx.producer, q->completion.consumer);
	if (taken != 1)
		return taken != 0;
	nm_nic_complete_(q, &t);
	good = nm_nic_submit_(q, &t) & nm_nic_kick_(q, &t);
	nm_nic_write_(&t.ring->tail, t.tail);
	nm_nic_give_(&t);
	return good;
}

static inline uint32_t
nm_nic_be16_(const unsigned char *p)
{
	return (uint32_t)p[0] << 8 | p[1];
}

/* Whether a frame's checksum is surely finished. An unfinished one is the sum over the pseudo header. */
static inline int
nm_nic_finished_(const unsigned char *f, uint32_t len)
{
	uint32_t type = len < 14 ? 0 : nm_nic_be16_(f + 12), proto, l4, i, at, end, sum;

	if (type == 0x0800) {
		if (len < 34 || f[14] != 0x45)
			return 0;
		if (nm_nic_be16_(f + 20) & 0x3fff)
			return 1; /* a fragment */
		proto = f[23], at = 26, end = 34, l4 = nm_nic_be16_(f + 16) - 20;
	} else if (type == 0x86dd) {
		if (len < 54)
			return 0;
		proto = f[20], at = 22, end = 54, l4 = nm_nic_be16_(f + 18);
		if (proto != 6 && proto != 17 && proto != 58)
			return 0;
	} else {
		return type != 0x8100 && type != 0x88a8 && type != 0x9100;
	}
	if ((proto != 6 && proto != 17) || len < end + 18)
		return proto != 6 && proto != 17;
	for (sum = proto + l4, i = at; i < end; i += 2)
		sum += nm_nic_be16_(f + i);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return nm_nic_be16_(f + end + (proto == 6 ? 16 : 6)) != sum;
}

/* Gives slots that were read back to the kernel; false if one names no buffer. */
static inline int
nm_nic_post_(struct nm_nic_queue *q, struct nm_nic_turn *t)
{
	uint64_t *cells = (uint64_t *)q->fill.cells;
	uint32_t next = nm_nic_read_(q->fill.producer), taken = nm_nic_read_(q->fill.consumer);
	int good = 1;

	for (; t->hwcur != t->head; t->hwcur = (t->hwcur + 1) & t->mask) {
		uint32_t buf = t->ring->slot[t->hwcur].buf_idx;

		if (buf < 2 || buf >= q->lent.bufs || next - taken >= q->lent.cells) {
			good = 0;
			break;
		}
		cells[next++ & (q->lent.cells - 1)] = (uint64_t)buf * t->ring->nr_buf_size;
	}
	nm_nic_write_(q->fill.producer, next);
	return good;
}

/* Takes frames in one buffer; false where the device has to look at the next one. */
static inline int
nm_nic_receive_(struct nm_nic_queue *q, struct nm_nic_turn *t)
{
	const struct nm_xdp_desc *cells = (const struct nm_xdp_desc *)q->rx.cells, *cell;
	uint32_t from = nm_nic_read_(q->rx.consumer), to = nm_nic_read_(q->rx.producer), i;
	uint32_t room = t->mask - ((t->tail - t->hwcur) & t->mask), buf, behind;
	uint64_t bytes = 0;
	int good = 1;

	for (i = from; i != to && i - from < room; i++) {
		struct netmap_slot *slot = &t->ring->slot[t->tail];

		cell = &cells[i & (q->lent.cells - 1)];
		buf = nm_nic_chunk_(t->ring, cell->addr, &behind);
		if (cell->options & NM_XDP_CONTINUED || behind != NM_NIC_HEADROOM ||
		    cell->len > t->ring->nr_buf_size - NM_NIC_HEADROOM || buf >= q->lent.bufs ||
		    (q->lent.flags & NM_LENT_SOFTWARE && !nm_nic_finished_(
		    (const unsigned char *)NETMAP_BUF(t->ring, buf), cell->len))) {
			good = 0;
			break;
		}
		nm_nic_exchange_(t->ring, t->mask, t->tail, (t->tail + room - (i - from) + 1) & t->mask, buf);
		slot->len = (uint16_t)cell->len;
		slot->flags = 0;
		bytes += cell->len;
		t->tail = (t->tail + 1) & t->mask;
	}
	if (i != from) {
		t->half->packets += i - from;
		t->half->bytes += bytes;
		nm_nic_write_(q->rx.consumer, i);
	}
	return good;
}

/* As nm_nic_tx. */
static inline int
nm_nic_rx(struct nm_nic_queue *q, char *mem, uint32_t who)
{
	struct nm_nic_turn t;
	int taken, good;

	t.half = &((struct nm_nic_words *)(void *)(mem + q->lent.words))->rx;
	t.ring = (struct netmap_ring *)(void *)(mem + q->lent.rx);
	t.mask = q->lent.num_slots - 1;
	taken = nm_nic_take_(&t, who, q->fill.producer, q->rx.consumer);
	if (taken != 1)
		return taken != 0;
	good = nm_nic_post_(q, &t) && nm_nic_receive_(q, &t);
	if (nm_nic_read_(q->fill.flags) & NM_XDP_NEED_WAKEUP &&
	    recvfrom(q->fd, NULL, 0, MSG_DONTWAIT, NULL, NULL) < 0 && nm_nic_failed_())
		good = 0;
	nm_nic_write_(&t.ring->tail, t.tail);
	nm_nic_give_(&t);
	return good;
}

#endif /* _NET_NETMAP_SYNC_NIC_H_ */
