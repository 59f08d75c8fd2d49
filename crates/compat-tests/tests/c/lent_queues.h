/*
 * Borrows queues of an interface from the device without the library, for programs that break the
 * rules. The layouts are those of crates/abi/src/delegation.rs and
 * crates/port/src/nic/ownership.rs.
 */
#pragma once
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

/* ---- the device's answer ---- */

/* A lent queue; offsets are from the start of the mapping. */
struct nm_lent_queue {
	uint64_t words;
	uint64_t tx, rx;      /* offsets of the rings; 0 for a ring that is not bound */
	uint32_t num_slots;   /* a power of two */
	uint32_t cells;       /* entries of each of the kernel's rings; at least num_slots */
	uint32_t longest;     /* maximum length of a sent frame, in bytes */
	uint32_t bufs;
	uint32_t flags;
	uint32_t pad;
};

#define NM_LENT_SOFTWARE 1    /* frames come from the kernel: checksums may be unfinished */
#define NM_LENT_ZERO_COPY 2

#define NM_LENT_QUEUES 32

struct nm_lent_queues {
	uint32_t version;     /* 1 */
	uint32_t who;         /* number that identifies this program among all that sync */
	uint32_t stamps;      /* whether each rx sync writes its time */
	uint32_t count;
	uint64_t token;       /* the daemon returns the sockets in exchange for this token */
	struct nm_lent_queue queues[NM_LENT_QUEUES];
};

#define NIOCLENDQ _IOWR('i', 162, struct nm_lent_queues)

/* The shared state of one direction. */
struct nm_nic_half {
	uint64_t owner;       /* the party that is syncing, or 0 */
	uint64_t by_host;     /* whether only the device may sync */
	uint64_t in, out;     /* slots of entry 0: of the fill or TX ring, and of the other */
	uint64_t packets, bytes, refused;
	uint64_t holder;      /* number of the program to which the queue is lent */
	uint64_t pad[8];
};

struct nm_nic_words {
	struct nm_nic_half tx, rx;
};

/* ---- AF_XDP, as in linux/if_xdp.h ---- */

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

/* Distance from the start of a chunk to the data, for the kernel and for netmap. */
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

/*
 * Whether the owner of a directory, or the listener on a socket, is root or the user of this
 * program.
 */
static inline int
nm_nic_trusts_(uid_t uid)
{
	return uid == 0 || uid == geteuid();
}

/*
 * Connects to the native socket of the device on which fd is open; -1 if there is none, or if
 * another user may have created it.
 */
static inline int
nm_nic_door_(int fd)
{
	static const char name[] = "native.sock";
	struct sockaddr_un to;
	struct { pid_t pid; uid_t uid; gid_t gid; } peer; /* struct ucred, whose name needs _GNU_SOURCE */
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
	for (i = 0; i < 2; i++) { /* The socket is next to the directory of the device. */
		slash = strrchr(to.sun_path, '/');
		if (!slash)
			return -1;
		slash[i] = '\0';
	}
	if (stat(to.sun_path, &dir) != 0 || !nm_nic_trusts_(dir.st_uid) || (dir.st_mode & 022))
		return -1;
	memcpy(slash + 1, name, sizeof(name));
	s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	/* Timeouts also apply to connect, because the listener may accept no connections. */
	if (s >= 0 && (setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) != 0 ||
	    setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) != 0 ||
	    connect(s, (struct sockaddr *)&to, sizeof(to)) != 0 ||
	    getsockopt(s, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || !nm_nic_trusts_(peer.uid))) {
		close(s);
		s = -1;
	}
	return s;
}

/* Fetches the sockets for a token; returns their number. */
static inline uint32_t
nm_nic_sockets_(int fd, uint64_t token, int fds[NM_LENT_QUEUES])
{
	/* op 5, fragments, cmd, bytes of the argument, arm; then the argument */
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

/* Borrows the queues that fd has bound; NULL if they are not lent. */
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
