/*
 * The client in a header: nm_open and its kin. SPDX-License-Identifier: BSD-2-Clause
 *
 * Programs do not include this file; they define NETMAP_WITH_LIBS and include
 * <net/netmap_user.h>. Names, layouts and behaviour are netmap's; the text is slipring's own.
 */
#ifndef _NET_NETMAP_LIBS_H_
#define _NET_NETMAP_LIBS_H_
#define HAVE_NETMAP_WITH_LIBS

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <net/netmap_sync.h>

/* ---- types ---- */

/* The first fields are those of struct pcap_pkthdr. */
struct nm_pkthdr {
	struct timeval ts;
	uint32_t caplen; /* bytes at buf: the frame, or the first of several parts of it */
	uint32_t len;    /* bytes of the frame */
	uint64_t flags;
#define NM_MORE_PKTS 1 /* more frames follow in the same call */
	struct nm_desc *d;
	struct netmap_slot *slot;
	uint8_t *buf;
};

struct nm_stat {
	u_int ps_recv;
	u_int ps_drop;
	u_int ps_ifdrop;
};

#define NM_ERRBUF_SIZE 512

/* An open port. */
struct nm_desc {
	struct nm_desc *self; /* the structure's own address, by which it is recognised */
	int fd;
	void *mem;
	size_t memsize;
	int done_mmap;        /* whether mem must be unmapped with this port */
	struct netmap_if *nifp;
	uint16_t first_tx_ring, last_tx_ring, cur_tx_ring;
	uint16_t first_rx_ring, last_rx_ring, cur_rx_ring;
	struct nmreq req;     /* the request and its answer */
	struct nm_pkthdr hdr;
	struct netmap_ring *some_ring;
	void *buf_start;
	void *buf_end;
	/* For programs written for pcap; stored and not used. */
	int snaplen;
	int promisc;
	int to_ms;
	char *errbuf;
	uint32_t if_flags;
	uint32_t if_reqcap;
	uint32_t if_curcap;
	struct nm_stat st;
	char msg[NM_ERRBUF_SIZE];
};

#define P2NMD(p) ((struct nm_desc *)(void *)(p))
#define IS_NETMAP_DESC(d) ((d) && P2NMD(d)->self == P2NMD(d))
#define NETMAP_FD(d) (P2NMD(d)->fd)

typedef void (*nm_cb_t)(u_char *, const struct nm_pkthdr *, const u_char *frame);

/*
 * Flags of nm_open, in addition to those of nr_ringid. The last five take values from the parent
 * port.
 */
enum {
	NM_OPEN_NO_MMAP = 0x040000,  /* use the mapping of the parent port */
	NM_OPEN_IFNAME = 0x080000,   /* name, ring and mode */
	NM_OPEN_ARG1 = 0x100000,
	NM_OPEN_ARG2 = 0x200000,     /* memory */
	NM_OPEN_ARG3 = 0x400000,     /* extra buffers */
	NM_OPEN_RING_CFG = 0x800000, /* rings and slots */
};

/* ---- names ---- */

static inline int
nm_is_identifier(const char *s, const char *end)
{
	for (; s != end; s++)
		if (!((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') ||
		    (*s >= '0' && *s <= '9') || *s == '_'))
			return 0;
	return 1;
}

/* Parses a number of at most max; NULL if there is none. */
static inline const char *
nm_parse_number_(const char *s, unsigned long max, unsigned long *number)
{
	char *end;

	if (*s < '0' || *s > '9')
		return NULL;
	errno = 0;
	*number = strtoul(s, &end, 10);
	return errno == 0 && *number <= max ? end : NULL;
}

/* Parses the flags after the slash; NULL if one is unknown. */
static inline const char *
nm_parse_flags_(const char *s, uint32_t *flags)
{
	for (; *s != '\0' && *s != '@'; s++)
		switch (*s) {
		case 'x': *flags |= NR_EXCLUSIVE; break;
		case 'z': *flags |= NR_ZCOPY_MON; break;
		case 't': *flags |= NR_MONITOR_TX; break;
		case 'r': *flags |= NR_MONITOR_RX; break;
		case 'T': *flags |= NR_TX_RINGS_ONLY; break;
		case 'R': *flags |= NR_RX_RINGS_ONLY; break;
		default: return NULL;
		}
	/* A monitor without a direction. */
	if ((*flags & NR_ZCOPY_MON) && !(*flags & (NR_MONITOR_TX | NR_MONITOR_RX)))
		*flags |= NR_MONITOR_TX | NR_MONITOR_RX;
	return s;
}

/* Parses the part after the name of the port; NULL if it is wrong. */
static inline const char *
nm_parse_suffix_(const char *s, struct nmreq *req)
{
	uint32_t mode = NR_REG_ALL_NIC, flags = 0;
	unsigned long number = 0;

	switch (*s) {
	case '-': mode = NR_REG_ONE_NIC; break;
	case '{': mode = NR_REG_PIPE_MASTER; break;
	case '}': mode = NR_REG_PIPE_SLAVE; break;
	case '*': mode = NR_REG_NIC_SW; s++; break;
	case '^': mode = NR_REG_SW; s++; break;
	default: break;
	}
	if (mode >= NR_REG_ONE_NIC && !(s = nm_parse_number_(s + 1, NETMAP_RING_MASK, &number)))
		return NULL;
	req->nr_ringid = (uint16_t)number;
	if (*s == '/' && !(s = nm_parse_flags_(s + 1, &flags)))
		return NULL;
	req->nr_flags = mode | flags;
	if (*s == '@') {
		if (!(s = nm_parse_number_(s + 1, 0xffff, &number)) || number == 0)
			return NULL;
		req->nr_arg2 = (uint16_t)number;
	}
	return *s == '\0' ? s : NULL;
}

/* Fills d->req from a name. Returns 0, or -1 with a message of up to MAXERRMSG bytes in err. */
#define MAXERRMSG 80
static inline int
nm_parse(const char *ifname, struct nm_desc *d, char *err)
{
	int is_vale = strncmp(ifname, NM_BDG_NAME, sizeof(NM_BDG_NAME) - 1) == 0;
	const char *name, *end;
	size_t len;

	if (is_vale) {
		const char *colon = strchr(ifname, ':');
		if (!colon || !nm_is_identifier(ifname, colon)) {
			snprintf(err, MAXERRMSG, "expected vale[ID]:PORT");
			return -1;
		}
		name = colon + 1;
	} else if (strncmp(ifname, "netmap:", 7) == 0) {
		name = ifname = ifname + 7;
	} else {
		snprintf(err, MAXERRMSG, "expected netmap:NAME or vale[ID]:PORT");
		return -1;
	}
	end = name + strcspn(name, "-*^{}/@");
	len = (size_t)(end - ifname);
	if (end == name || len >= sizeof(d->req.nr_name)) {
		snprintf(err, MAXERRMSG, end == name ? "no name" : "name too long");
		return -1;
	}
	memset(d->req.nr_name, 0, sizeof(d->req.nr_name));
	memcpy(d->req.nr_name, ifname, len);
	if (!nm_parse_suffix_(end, &d->req)) {
		snprintf(err, MAXERRMSG, "wrong suffix: %.60s", end);
		return -1;
	}
	return 0;
}

/* ---- opening ---- */

/* Determines the rings that this port has bound: those with an offset in the interface record. */
static inline void
nm_find_rings_(const ssize_t *ofs, uint32_t count, uint16_t *first, uint16_t *last, uint16_t *cur)
{
	uint32_t i = 0;

	while (i < count && ofs[i] == 0)
		i++;
	*first = *cur = (uint16_t)i;
	while (i < count && ofs[i] != 0)
		i++;
	*last = (uint16_t)(i - 1);
}

/*
 * Whether the parent's mapping contains the port's memory. Numbers of memories are valid for one
 * device file only: other users and other daemons have other files.
 */
static inline int
nm_holds_(const struct nm_desc *parent, const struct nm_desc *d)
{
	struct stat theirs, ours;

	return IS_NETMAP_DESC(parent) && parent->mem && parent->req.nr_arg2 == d->req.nr_arg2 &&
	    parent->memsize >= d->req.nr_memsize && fstat(parent->fd, &theirs) == 0 &&
	    fstat(d->fd, &ours) == 0 && theirs.st_dev == ours.st_dev &&
	    theirs.st_ino == ours.st_ino;
}

/*
 * Maps the memory, or uses the parent's mapping if it is the same memory. Returns 0, or an errno.
 */
static inline int
nm_mmap(struct nm_desc *d, const struct nm_desc *parent)
{
	struct netmap_if *nifp;
	uint32_t tx;

	if (d->done_mmap)
		return 0;
	if (nm_holds_(parent, d)) {
		d->mem = parent->mem;
		d->memsize = parent->memsize;
	} else {
		void *mem = mmap(NULL, d->req.nr_memsize, PROT_READ | PROT_WRITE, MAP_SHARED, d->fd, 0);
		if (mem == MAP_FAILED)
			return errno;
		d->mem = mem;
		d->memsize = d->req.nr_memsize;
		d->done_mmap = 1;
	}
	d->nifp = nifp = NETMAP_IF(d->mem, d->req.nr_offset);
	tx = nifp->ni_tx_rings + nifp->ni_host_tx_rings;
	nm_find_rings_(nifp->ring_ofs, tx, &d->first_tx_ring, &d->last_tx_ring, &d->cur_tx_ring);
	nm_find_rings_(nifp->ring_ofs + tx, nifp->ni_rx_rings + nifp->ni_host_rx_rings,
	    &d->first_rx_ring, &d->last_rx_ring, &d->cur_rx_ring);
	d->some_ring = d->first_tx_ring < tx ? NETMAP_TXRING(nifp, d->first_tx_ring) :
	    NETMAP_RXRING(nifp, d->first_rx_ring);
	d->buf_start = NETMAP_BUF(d->some_ring, 0);
	d->buf_end = (char *)d->mem + d->memsize;
	return 0;
}

/* Closes the port. Returns 0, or EINVAL. */
static inline int
nm_close(struct nm_desc *d)
{
	if (!IS_NETMAP_DESC(d))
		return EINVAL;
	nm_sync_stop(d->fd);
	if (d->done_mmap && d->mem)
		munmap(d->mem, d->memsize);
	if (d->fd != -1)
		close(d->fd);
	memset(d, 0, sizeof(*d));
	free(d);
	return 0;
}

static inline void
nm_take_from_(struct nmreq *req, const struct nmreq *from, uint64_t flags)
{
	if (flags & NM_OPEN_IFNAME) {
		memcpy(req->nr_name, from->nr_name, sizeof(req->nr_name));
		req->nr_ringid = from->nr_ringid;
		req->nr_flags = from->nr_flags;
	}
	if (flags & NM_OPEN_ARG1)
		req->nr_arg1 = from->nr_arg1;
	if (flags & NM_OPEN_ARG2)
		req->nr_arg2 = from->nr_arg2;
	if (flags & NM_OPEN_ARG3)
		req->nr_arg3 = from->nr_arg3;
	if (flags & NM_OPEN_RING_CFG) {
		req->nr_tx_slots = from->nr_tx_slots;
		req->nr_rx_slots = from->nr_rx_slots;
		req->nr_tx_rings = from->nr_tx_rings;
		req->nr_rx_rings = from->nr_rx_rings;
	}
}

/*
 * Opens a port. req, if given, contains initial values, which the name overrides. arg, if given, is
 * a parent: its memory is shared if it is the same, and the flags select further values to take
 * from it. Returns NULL on failure, with errno; errno is 0 if netmap has no kind of port for the
 * name.
 */
static inline struct nm_desc *
nm_open(const char *ifname, const struct nmreq *req, uint64_t flags, const struct nm_desc *arg)
{
	const struct nm_desc *parent = IS_NETMAP_DESC(arg) ? arg : NULL;
	struct nm_desc *d;
	char err[MAXERRMSG];
	int error = EINVAL;

	if (strncmp(ifname, "netmap:", 7) != 0 && strncmp(ifname, NM_BDG_NAME, 4) != 0) {
		errno = 0;
		return NULL;
	}
	d = (struct nm_desc *)calloc(1, sizeof(*d));
	if (!d) {
		errno = ENOMEM;
		return NULL;
	}
	d->self = d;
	d->fd = -1;
	if (req)
		d->req = *req;
	if (!(flags & NM_OPEN_IFNAME) && nm_parse(ifname, d, err)) {
		D("%s: %s", ifname, err);
		goto fail;
	}
	/* Some programs pass a structure that is not an open port. */
	if (arg)
		nm_take_from_(&d->req, &arg->req, flags);
	d->req.nr_version = NETMAP_API;
	d->req.nr_ringid = (uint16_t)((d->req.nr_ringid & NETMAP_RING_MASK) |
	    (flags & (NETMAP_NO_TX_POLL | NETMAP_DO_RX_POLL)));
	nm_sync_sweep();
	d->fd = open(NETMAP_DEVICE_NAME, O_RDWR);
	if (d->fd < 0 || ioctl(d->fd, NIOCREGIF, &d->req) != 0) {
		error = errno;
		goto fail;
	}
	/*
	 * The parent's memory costs nothing, so it is used even if the program did not ask for
	 * that.
	 */
	if (!(flags & NM_OPEN_NO_MMAP) || parent) {
		error = nm_mmap(d, parent);
		if (error)
			goto fail;
		nm_sync_start(d->fd, d->memsize, d->req.nr_flags |
		    (flags & NETMAP_NO_TX_POLL ? NR_NO_TX_POLL : 0) |
		    (flags & NETMAP_DO_RX_POLL ? NR_DO_RX_POLL : 0));
	}
	return d;
fail:
	nm_close(d);
	errno = error;
	return NULL;
}

/* ---- frames ---- */

/* Releases all slots before next to the other side. */
static inline void
nm_release_(struct netmap_ring *ring, uint32_t next)
{
	ring->cur = next;
	/* The other side may read head at any moment, so writes to slots must be visible first. */
	__atomic_store_n(&ring->head, next, __ATOMIC_RELEASE);
}

/*
 * Copies a frame into the first ring with room for it, without a sync; over several slots if the
 * frame is longer than a buffer. Returns the frame's size, or 0 if there was no room.
 */
static inline int
nm_inject(struct nm_desc *d, const void *frame, size_t size)
{
	uint32_t rings = (uint32_t)(d->last_tx_ring - d->first_tx_ring + 1) & 0xffff, tried;
	uint16_t r = d->cur_tx_ring;

	for (tried = 0; tried < rings; tried++, r++) {
		struct netmap_ring *ring;
		uint32_t i;
		size_t done = 0;

		if (r > d->last_tx_ring)
			r = d->first_tx_ring;
		ring = NETMAP_TXRING(d->nifp, r);
		if ((size_t)nm_ring_space(ring) * ring->nr_buf_size < size || nm_ring_empty(ring))
			continue;
		i = ring->head;
		do {
			struct netmap_slot *slot = &ring->slot[i];
			size_t part = size - done < ring->nr_buf_size ? size - done : ring->nr_buf_size;

			memcpy(NETMAP_BUF(ring, slot->buf_idx), (const char *)frame + done, part);
			done += part;
			slot->len = (uint16_t)part;
			slot->flags = done < size ? NS_MOREFRAG : 0;
			i = nm_ring_next(ring, i);
		} while (done < size);
		d->cur_tx_ring = r;
		nm_release_(ring, i);
		return (int)size;
	}
	return 0;
}

/* Returns the next ring with frames, or NULL; rings take turns. */
static inline struct netmap_ring *
nm_next_ring_(struct nm_desc *d)
{
	uint32_t rings = (uint32_t)(d->last_rx_ring - d->first_rx_ring + 1) & 0xffff;

	for (; rings > 0; rings--) {
		struct netmap_ring *ring = NETMAP_RXRING(d->nifp, d->cur_rx_ring);

		if (!nm_ring_empty(ring))
			return ring;
		d->cur_rx_ring = d->cur_rx_ring >= d->last_rx_ring ?
		    d->first_rx_ring : (uint16_t)(d->cur_rx_ring + 1);
	}
	return NULL;
}

/* Describes the frame at the head of a ring that has one, and returns the slot after the frame. */
static inline uint32_t
nm_describe_(struct nm_desc *d, struct netmap_ring *ring, struct nm_pkthdr *hdr)
{
	uint32_t i = ring->head;

	hdr->d = d;
	hdr->slot = &ring->slot[i];
	hdr->ts = ring->ts;
	hdr->buf = (uint8_t *)NETMAP_BUF_OFFSET(ring, hdr->slot);
	hdr->caplen = hdr->len = hdr->slot->len;
	hdr->flags = 0;
	while ((ring->slot[i].flags & NS_MOREFRAG) && nm_ring_next(ring, i) != ring->tail) {
		i = nm_ring_next(ring, i);
		hdr->len += ring->slot[i].len;
	}
	return nm_ring_next(ring, i);
}

/* Returns the next frame, or NULL. The frame stays unchanged until the next sync or poll. */
static inline u_char *
nm_nextpkt(struct nm_desc *d, struct nm_pkthdr *hdr)
{
	struct netmap_ring *ring = nm_next_ring_(d);

	if (!ring)
		return NULL;
	nm_release_(ring, nm_describe_(d, ring, hdr));
	return hdr->buf;
}

/*
 * Whether there is another frame, in this or another ring, after the frames of one ring up to next.
 */
static inline int
nm_has_more_(const struct nm_desc *d, const struct netmap_ring *ring, uint32_t next)
{
	uint32_t r;

	for (r = d->first_rx_ring; r <= d->last_rx_ring; r++) {
		struct netmap_ring *other = NETMAP_RXRING(d->nifp, r);

		if (other == ring ? next != ring->tail : !nm_ring_empty(other))
			return 1;
	}
	return 0;
}

/* Calls callback for up to count frames, or for all if count is not positive; returns how many. */
static inline int
nm_dispatch(struct nm_desc *d, int count, nm_cb_t callback, u_char *arg)
{
	struct netmap_ring *ring;
	int done = 0;

	while ((count <= 0 || done < count) && (ring = nm_next_ring_(d)) != NULL) {
		uint32_t next = nm_describe_(d, ring, &d->hdr);

		done++;
		if (done != count && nm_has_more_(d, ring, next))
			d->hdr.flags = NM_MORE_PKTS;
		callback(arg, &d->hdr, d->hdr.buf);
		nm_release_(ring, next);
	}
	return done;
}

#endif /* _NET_NETMAP_LIBS_H_ */
