/* A client that uses only open, ioctl, mmap and poll. */
#pragma once
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <net/netmap.h>

#include "check.h"

static inline int
device(void)
{
	int fd = open("/dev/netmap", O_RDWR);

	CHECK(fd >= 0);
	return fd;
}

/* Performs an ioctl; returns its errno, or 0. */
static inline int
call(int fd, unsigned long request, void *arg)
{
	return ioctl(fd, request, arg) == 0 ? 0 : errno;
}

static inline struct nmreq_header
header(const char *name, int type, void *body)
{
	struct nmreq_header h = { .nr_version = NETMAP_API, .nr_reqtype = (uint16_t)type };

	h.nr_body = (uintptr_t)body;
	memcpy(h.nr_name, name, strlen(name));
	return h;
}

/* Performs a request; returns its errno, or 0. */
static inline int
ask(int fd, const char *name, int type, void *body)
{
	struct nmreq_header h = header(name, type, body);

	return call(fd, NIOCCTRL, &h);
}

/* Binds a port on a separate open file, which is closed again; returns the errno. */
static inline int
try_register(const char *name, struct nmreq_register reg)
{
	int fd = device(), error = ask(fd, name, NETMAP_REQ_REGISTER, &reg);

	close(fd);
	return error;
}

struct port {
	int fd;
	struct nmreq_register reg;
	char *mem;
	struct netmap_if *nif;
};

static inline struct netmap_ring *
ring_at(struct port *p, uint32_t i)
{
	return (struct netmap_ring *)((char *)p->nif + p->nif->ring_ofs[i]);
}

static inline struct netmap_ring *
tx(struct port *p)
{
	return ring_at(p, 0);
}

static inline struct netmap_ring *
rx(struct port *p)
{
	return ring_at(p, p->nif->ni_tx_rings + p->nif->ni_host_tx_rings);
}

static inline void
map(struct port *p)
{
	p->mem = mmap(NULL, p->reg.nr_memsize, PROT_READ | PROT_WRITE, MAP_SHARED, p->fd, 0);
	CHECK(p->mem != MAP_FAILED);
	p->nif = (struct netmap_if *)(p->mem + p->reg.nr_offset);
}

static inline struct port
bound_with(const char *name, struct nmreq_register reg)
{
	struct port p = { .fd = device(), .reg = reg };

	CHECK(ask(p.fd, name, NETMAP_REQ_REGISTER, &p.reg) == 0);
	map(&p);
	return p;
}

static inline struct port
bound(const char *name)
{
	return bound_with(name, (struct nmreq_register){ .nr_mode = NR_REG_ALL_NIC });
}

static inline char *
buffer(struct netmap_ring *r, uint32_t i)
{
	return (char *)r + r->buf_ofs + (size_t)r->slot[i].buf_idx * r->nr_buf_size;
}

static inline uint32_t
after(struct netmap_ring *r, uint32_t i)
{
	return i + 1 == r->num_slots ? 0 : i + 1;
}

static inline uint32_t
space(struct netmap_ring *r)
{
	return (r->tail + r->num_slots - r->head) % r->num_slots;
}

/* Queues a broadcast frame from 02:..:from, which the next sync sends. */
static inline void
put(struct netmap_ring *r, char from, char number, uint16_t len, uint16_t flags)
{
	char *frame = buffer(r, r->head);

	CHECK(space(r) > 0);
	memset(frame, 0xff, 6);
	memcpy(frame + 6, "\2\0\0\0\0", 5);
	frame[11] = from;
	memcpy(frame + 12, "\x88\xb5", 2);
	frame[14] = number;
	r->slot[r->head].len = len;
	r->slot[r->head].flags = flags;
	r->head = r->cur = after(r, r->head);
}

/* Takes the next frame; returns its number. */
static inline int
take(struct netmap_ring *r)
{
	int number = buffer(r, r->head)[14];

	CHECK(space(r) > 0);
	r->head = r->cur = after(r, r->head);
	return number;
}

static inline int
polled(int fd, short events, int ms)
{
	struct pollfd p = { fd, events, 0 };

	CHECK(poll(&p, 1, ms) >= 0);
	return p.revents;
}
