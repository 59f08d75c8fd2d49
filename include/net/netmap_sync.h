/*
 * Syncs in the program itself, where the device is slipring's and the port is one end of a pipe, or an
 * interface by AF_XDP (net/netmap_sync_nic.h).
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * nm_open and nmport_open ask the device to lend the rings that they bound. What the program then
 * does on that descriptor,
 *
 *   ioctl(fd, NIOCTXSYNC), ioctl(fd, NIOCRXSYNC)   moves slots here, without a call
 *   poll of this descriptor alone                  syncs here, and is a call only when it has to sleep
 *
 * means what it always means. The descriptor stays the device's: everything else (select, epoll,
 * dup, fork, exec, passing it on, polling it beside others) goes to the device, which syncs the same
 * rings. So does a process that was forked, and so does all of it where the device lends nothing. One
 * sync a second is the device's, so that it can say that the interface or the daemon is gone.
 *
 * NETMAP_INPROCESS=0 in the environment keeps to the device; so do sources that define
 * NETMAP_NO_INPROCESS before they include this, and C++, whose methods may be called poll.
 */
#ifndef _NET_NETMAP_SYNC_H_
#define _NET_NETMAP_SYNC_H_

#if defined(__linux__) && !defined(__cplusplus) && !defined(NETMAP_NO_INPROCESS)

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <net/netmap_sync_nic.h>
#include <net/netmap_user.h>

/* ---- what the device says ---- */

/* A ring that is lent; offsets from the start of the mapping. */
struct nm_lent_ring {
	uint64_t words;
	uint64_t tx, rx;      /* the sender's ring, and the receiver's */
	uint32_t num_slots;
	uint32_t receives;    /* which of the two is the program's */
	uint32_t ring;
	uint32_t pad;
};

#define NM_LENT_RINGS 32

struct nm_lent {
	uint32_t version;     /* 1 */
	uint32_t who;         /* the program's number among all who sync */
	uint32_t stamps;      /* each rx sync writes its time */
	uint32_t count;
	struct nm_lent_ring rings[NM_LENT_RINGS];
};

#define NIOCLEND _IOWR('i', 160, struct nm_lent)
#define NIOCKICK _IO('i', 161)  /* wake who sleeps at the other end */

/* The words of one half, and of a direction. */
struct nm_half {
	uint64_t at;          /* first slot not sent, or not given back */
	uint32_t tail;        /* as it was published last */
	uint32_t owner;       /* who is syncing; 0 for nobody */
	uint32_t guest_sleeps, host_sleeps;
	uint32_t by_host;     /* only the device may sync */
	uint32_t holder;      /* whom it is lent to */
	uint32_t pad[24];
};

struct nm_words {
	struct nm_half sender, receiver;
};

/* ---- ports that sync themselves, by descriptor ---- */

struct nm_sync_port {
	char *mem;                     /* a mapping of its own, whatever the program does with its */
	size_t memsize;
	char file[128];                /* what is open, as /proc says */
	uint32_t no_tx_poll;
	uint32_t who, stamps;
	uint32_t second;               /* in which the device was asked last */
	uint32_t asks;                 /* it had an error: each sync asks */
	struct nm_lent lent;           /* rings of a pipe, */
	struct nm_nic_queue *queues;   /* or queues of an interface */
	uint32_t queue_count;
	struct nm_sync_port *next;     /* retired as well */
};

#define NM_SYNC_FDS 1024
/* Behind the ports: a lock for who takes them out, and those that were taken out last. */
#define NM_SYNC_LOCK NM_SYNC_FDS
#define NM_SYNC_RETIRED (NM_SYNC_FDS + 1)

/* One for all objects of a program. Empty in a process that was forked. */
__attribute__((weak)) struct nm_sync_port *volatile *nm_sync_ports;

static inline struct nm_sync_port *
nm_sync_port_(int fd)
{
	struct nm_sync_port *volatile *ports = __atomic_load_n(&nm_sync_ports, __ATOMIC_ACQUIRE);

	return ports && fd >= 0 && fd < NM_SYNC_FDS ?
	    __atomic_load_n(&ports[fd], __ATOMIC_ACQUIRE) : NULL;
}

static inline int
nm_sync_table_(void)
{
	size_t size = (NM_SYNC_RETIRED + 1) * sizeof(void *);
	struct nm_sync_port *volatile *none = NULL;
	void *made;

	if (__atomic_load_n(&nm_sync_ports, __ATOMIC_ACQUIRE))
		return 1;
	made = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (made == MAP_FAILED)
		return 0;
	if (madvise(made, size, MADV_WIPEONFORK) != 0 ||
	    !__atomic_compare_exchange_n(&nm_sync_ports, &none, (struct nm_sync_port *volatile *)made,
	    0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		munmap(made, size);
	return __atomic_load_n(&nm_sync_ports, __ATOMIC_ACQUIRE) != NULL;
}

static inline void
nm_sync_lock_(int lock)
{
	struct nm_sync_port *volatile *word = &nm_sync_ports[NM_SYNC_LOCK];

	if (!lock)
		__atomic_clear(word, __ATOMIC_RELEASE);
	else
		while (__atomic_test_and_set(word, __ATOMIC_ACQUIRE))
			sched_yield();
}

/* Under the lock: a port that is the table's no more, or NULL. */
static inline struct nm_sync_port *
nm_sync_take_out_(int fd)
{
	struct nm_sync_port *port = nm_sync_ports[fd];
	uint32_t i;

	__atomic_store_n(&nm_sync_ports[fd], NULL, __ATOMIC_RELEASE);
	for (i = 0; port && i < port->queue_count; i++)
		nm_nic_close(&port->queues[i]);
	return port;
}

static inline void
nm_sync_free_(struct nm_sync_port *port)
{
	munmap(port->mem, port->memsize);
	free(port->queues);
	free(port);
}

/* Before fd is closed. */
static inline void
nm_sync_stop(int fd)
{
	struct nm_sync_port *port;

	if (nm_sync_port_(fd)) {
		nm_sync_lock_(1);
		port = nm_sync_take_out_(fd);
		nm_sync_lock_(0);
		if (port)
			nm_sync_free_(port);
	}
}

/* What is open as fd, or the beginning of its name. fstat would be a call of the device. */
static inline void
nm_sync_file_(int fd, char file[128])
{
	char link[32];
	ssize_t len;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	len = readlink(link, file, 127);
	file[len > 0 ? len : 0] = '\0';
}

/* Whether what is open as fd is still the port that was lent: programs may close it by themselves. */
static inline int
nm_sync_holds_(int fd, const struct nm_sync_port *port)
{
	char file[128];
	uint32_t i, others = 0;

	nm_sync_file_(fd, file);
	if (strcmp(file, port->file) != 0)
		return 0;
	for (i = 0; i < port->lent.count; i++) {
		struct nm_words *words = (struct nm_words *)(void *)(port->mem + port->lent.rings[i].words);
		struct nm_half *mine = port->lent.rings[i].receives ? &words->receiver : &words->sender;

		others += *(volatile uint32_t *)&mine->holder != port->who;
	}
	for (i = 0; i < port->queue_count; i++) {
		struct nm_nic_words *words =
		    (struct nm_nic_words *)(void *)(port->mem + port->queues[i].lent.words);

		others += *(volatile uint64_t *)&words->tx.holder != port->who;
	}
	return !others;
}

/* Before a port is opened: lets go of those that were closed by themselves. Other threads may be looking
 * at one, as its number is another file's: it is freed the next time. */
static inline void
nm_sync_sweep(void)
{
	struct nm_sync_port *port, *old, *retired = NULL;
	int fd, error = errno;

	if (!__atomic_load_n(&nm_sync_ports, __ATOMIC_ACQUIRE))
		return;
	nm_sync_lock_(1);
	for (fd = 0; fd < NM_SYNC_FDS; fd++) {
		if (!nm_sync_ports[fd] || nm_sync_holds_(fd, nm_sync_ports[fd]))
			continue;
		port = nm_sync_take_out_(fd);
		port->next = retired;
		retired = port;
	}
	old = nm_sync_ports[NM_SYNC_RETIRED];
	nm_sync_ports[NM_SYNC_RETIRED] = retired;
	nm_sync_lock_(0);
	while ((port = old) != NULL) {
		old = port->next;
		nm_sync_free_(port);
	}
	errno = error;
}

/* The queues of an interface. */
static inline int
nm_sync_start_nic_(int fd, struct nm_sync_port *port, uint64_t memsize)
{
	struct nm_lent_queues *lent = (struct nm_lent_queues *)calloc(1, sizeof(*lent));

	port->lent.count = 0;
	if (!lent)
		return 0;
	port->queues = nm_nic_start(fd, memsize, lent);
	port->queue_count = port->queues ? lent->count : 0;
	port->who = lent->who;
	port->stamps = lent->stamps;
	free(lent);
	return port->queues != NULL;
}

/* Has the rings of fd synced here from now on, if the device lends them. */
static inline void
nm_sync_start(int fd, uint64_t memsize, uint64_t flags)
{
	const char *wish = getenv("NETMAP_INPROCESS");
	struct nm_sync_port *port;
	int error = errno;
	uint32_t i;

	if ((wish && wish[0] == '0') || (flags & NR_DO_RX_POLL) || fd < 0 || fd >= NM_SYNC_FDS ||
	    !nm_sync_table_())
		return;
	nm_sync_stop(fd);
	port = (struct nm_sync_port *)calloc(1, sizeof(*port));
	if (!port)
		return;
	port->mem = (char *)mmap(NULL, memsize, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (port->mem == (char *)MAP_FAILED) {
		port->mem = NULL;
		goto refused;
	}
	port->memsize = memsize;
	nm_sync_file_(fd, port->file);
	port->lent.version = 1;
	port->no_tx_poll = (flags & NR_NO_TX_POLL) != 0;
	port->second = (uint32_t)time(NULL);
	if (ioctl(fd, NIOCLEND, &port->lent) != 0) {
		if (!nm_sync_start_nic_(fd, port, memsize))
			goto refused;
	} else if (port->lent.count > NM_LENT_RINGS) {
		goto refused;
	} else {
		port->who = port->lent.who;
		port->stamps = port->lent.stamps;
	}
	for (i = 0; i < port->lent.count; i++) {
		struct nm_lent_ring *l = &port->lent.rings[i];
		uint64_t ring = sizeof(struct netmap_ring) + (uint64_t)l->num_slots * sizeof(struct netmap_slot);

		if (l->words + sizeof(struct nm_words) > memsize || l->tx + ring > memsize ||
		    l->rx + ring > memsize)
			goto refused;
	}
	__atomic_store_n(&nm_sync_ports[fd], port, __ATOMIC_RELEASE);
	return;
refused:
	if (port->mem)
		munmap(port->mem, memsize);
	free(port);
	errno = error; /* nothing has failed */
}

/* ---- a sync ---- */

static inline uint32_t
nm_sync_distance_(uint32_t from, uint32_t to, uint32_t n)
{
	return to >= from ? to - from : to + n - from;
}

/* Moves what the program has released between hwcur and head; where the next sync begins. */
static inline uint32_t
nm_sync_move_(struct netmap_ring *tx, struct netmap_ring *rx, const struct nm_lent_ring *l,
    uint32_t hwcur, uint32_t head)
{
	uint32_t i, n = l->num_slots;

	if (l->receives) {
		/* Slots whose buffer was exchanged; the others are what was sent. */
		for (i = hwcur; i != head; i = i + 1 == n ? 0 : i + 1)
			if (rx->slot[i].flags & NS_BUF_CHANGED)
				tx->slot[i] = rx->slot[i];
		return head;
	}
	/* Whole packets only. */
	while (head != hwcur && tx->slot[head ? head - 1 : n - 1].flags & NS_MOREFRAG)
		head = head ? head - 1 : n - 1;
	for (i = hwcur; i != head; i = i + 1 == n ? 0 : i + 1)
		rx->slot[i] = tx->slot[i];
	return head;
}

/* False where the device has to do it: indices that are wrong, a monitor. */
static inline int
nm_sync_ring_(int fd, struct nm_sync_port *port, const struct nm_lent_ring *l)
{
	struct nm_words *words = (struct nm_words *)(void *)(port->mem + l->words);
	struct nm_half *mine = l->receives ? &words->receiver : &words->sender;
	struct nm_half *other = l->receives ? &words->sender : &words->receiver;
	struct netmap_ring *tx = (struct netmap_ring *)(void *)(port->mem + l->tx);
	struct netmap_ring *rx = (struct netmap_ring *)(void *)(port->mem + l->rx);
	struct netmap_ring *ring = l->receives ? rx : tx;
	uint32_t n = l->num_slots, nobody = 0, hwcur, held, head, cur, far, at, tail;

	if (__atomic_load_n(&mine->holder, __ATOMIC_ACQUIRE) != port->who)
		return 0;
	/* Who finds another at it lets that one do it. */
	if (!__atomic_compare_exchange_n(&mine->owner, &nobody, port->who, 0, __ATOMIC_ACQUIRE,
	    __ATOMIC_RELAXED))
		return 1;
	hwcur = (uint32_t)mine->at;
	held = nm_sync_distance_(hwcur, mine->tail, n);
	/* Acquire: what the other half did to slots before it moved its word. */
	far = (uint32_t)__atomic_load_n(&other->at, __ATOMIC_ACQUIRE);
	head = __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE);
	cur = *(volatile uint32_t *)&ring->cur;
	if (__atomic_load_n(&mine->by_host, __ATOMIC_ACQUIRE) || hwcur >= n || mine->tail >= n ||
	    far >= n || head >= n || cur >= n || nm_sync_distance_(hwcur, cur, n) > held ||
	    nm_sync_distance_(hwcur, head, n) > nm_sync_distance_(hwcur, cur, n)) {
		__atomic_store_n(&mine->owner, 0, __ATOMIC_RELEASE);
		return 0;
	}
	at = nm_sync_move_(tx, rx, l, hwcur, head);
	__atomic_store_n(&mine->at, (uint64_t)at, __ATOMIC_RELEASE);
	tail = l->receives ? far : far ? far - 1 : n - 1;
	__atomic_store_n(&mine->tail, tail, __ATOMIC_RELEASE);
	__atomic_store_n(&ring->tail, tail, __ATOMIC_RELEASE);
	__atomic_store_n(&mine->owner, 0, __ATOMIC_RELEASE);
	if (at != hwcur) {
		/* Either we see that somebody sleeps, or he sees what was moved. */
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		if (*(volatile uint32_t *)&other->guest_sleeps ||
		    (*(volatile uint32_t *)&other->host_sleeps &&
		    __atomic_exchange_n(&other->host_sleeps, 0, __ATOMIC_ACQ_REL)))
			ioctl(fd, NIOCKICK);
	}
	return 1;
}

/* Syncs the rings of a direction; false where the device has to. */
static inline int
nm_sync_rings_(int fd, struct nm_sync_port *port, uint32_t receives, int *ready)
{
	uint32_t i;
	int done = 1;

	for (i = 0; i < port->lent.count; i++) {
		const struct nm_lent_ring *l = &port->lent.rings[i];
		struct netmap_ring *ring;

		if (l->receives != receives)
			continue;
		done &= nm_sync_ring_(fd, port, l);
		ring = (struct netmap_ring *)(void *)(port->mem + (receives ? l->rx : l->tx));
		if (receives && (port->stamps || ring->flags & NR_TIMESTAMP))
			gettimeofday(&ring->ts, NULL);
		*ready |= *(volatile uint32_t *)&ring->cur != *(volatile uint32_t *)&ring->tail;
	}
	for (i = 0; i < port->queue_count; i++) {
		struct nm_nic_queue *q = &port->queues[i];
		uint64_t at = receives ? q->lent.rx : q->lent.tx;
		struct netmap_ring *ring = (struct netmap_ring *)(void *)(port->mem + at);

		if (!at)
			continue;
		done &= receives ? nm_nic_rx(q, port->mem, port->who) : nm_nic_tx(q, port->mem, port->who);
		if (receives && (port->stamps || ring->flags & NR_TIMESTAMP))
			gettimeofday(&ring->ts, NULL);
		*ready |= *(volatile uint32_t *)&ring->cur != *(volatile uint32_t *)&ring->tail;
	}
	return done;
}

/* ---- the calls ---- */

/* Whether the device syncs this time. It alone knows errors, and has them until it says otherwise. */
static inline int
nm_sync_asks_(struct nm_sync_port *port)
{
	uint32_t now = (uint32_t)time(NULL);

	if (__atomic_load_n(&port->asks, __ATOMIC_RELAXED))
		return 1;
	if (__atomic_load_n(&port->second, __ATOMIC_RELAXED) == now)
		return 0;
	__atomic_store_n(&port->second, now, __ATOMIC_RELAXED);
	return 1;
}

static inline int
nm_sync_ioctl(int fd, unsigned long request, ...)
{
	struct nm_sync_port *port;
	va_list rest;
	void *arg;
	int ready = 0, result;

	port = request == NIOCTXSYNC || request == NIOCRXSYNC ? nm_sync_port_(fd) : NULL;
	if (port && !nm_sync_asks_(port) && nm_sync_rings_(fd, port, request == NIOCRXSYNC, &ready))
		return 0;
	va_start(rest, request);
	arg = va_arg(rest, void *);
	va_end(rest);
	result = ioctl(fd, request, arg);
	if (port && port == nm_sync_port_(fd))
		__atomic_store_n(&port->asks, result != 0, __ATOMIC_RELAXED);
	return result;
}

static inline int
nm_sync_poll(struct pollfd *fds, nfds_t count, int timeout)
{
	struct nm_sync_port *port = count == 1 && fds ? nm_sync_port_(fds->fd) : NULL;
	int in, out, frames = 0, room = 0, done = 1;

	if (!port || nm_sync_asks_(port))
		return poll(fds, count, timeout);
	in = fds->events & (POLLIN | POLLRDNORM);
	out = fds->events & (POLLOUT | POLLWRNORM);
	if (out || !port->no_tx_poll)
		done &= nm_sync_rings_(fds->fd, port, 0, &room);
	if (in)
		done &= nm_sync_rings_(fds->fd, port, 1, &frames);
	if (!done || !((in && frames) || (out && room)))
		return poll(fds, 1, timeout);
	fds->revents = (short)((frames ? in : 0) | (room ? out : 0));
	return 1;
}

#ifndef NETMAP_SYNC_NO_NAMES
#define ioctl(fd, ...) nm_sync_ioctl(fd, __VA_ARGS__, (void *)0)
#define poll(fds, count, timeout) nm_sync_poll(fds, count, timeout)
#endif

#else

static inline void
nm_sync_start(int fd, uint64_t memsize, uint64_t flags)
{
	(void)fd, (void)memsize, (void)flags;
}

static inline void
nm_sync_sweep(void)
{
}

static inline void
nm_sync_stop(int fd)
{
	(void)fd;
}

#endif

#endif /* _NET_NETMAP_SYNC_H_ */
