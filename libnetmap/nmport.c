/*
 * Ports: from a name to rings in memory, and back. SPDX-License-Identifier: BSD-2-Clause
 *
 *   new -> parse -> register -> mmap        prepare = new + parse, open_desc = register + mmap
 *
 * Ports that have the same memory share one mapping, kept in the context.
 */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

struct nmport_d *
nmport_new(void)
{
	struct nmctx *ctx = nmctx_get();
	struct nmport_d *d = nmctx_malloc(ctx, sizeof(*d));

	if (!d) {
		errno = ENOMEM;
		return NULL;
	}
	memset(d, 0, sizeof(*d));
	nmreq_header_init(&d->hdr, NETMAP_REQ_REGISTER, &d->reg);
	d->ctx = ctx;
	d->fd = -1;
	return d;
}

void
nmport_delete(struct nmport_d *d)
{
	nmctx_free(d->ctx, d);
}

/* ---- the name ---- */

int
nmport_parse(struct nmport_d *d, const char *portspec)
{
	const char *at = portspec;

	nmreq_header_init(&d->hdr, NETMAP_REQ_REGISTER, &d->reg);
	if (nmreq_header_decode(&at, &d->hdr, d->ctx) == 0 &&
	    nmreq_register_decode(&at, &d->reg, d->ctx) == 0 && nm_port_options(d, at) == 0)
		return 0;
	nmport_undo_parse(d);
	return -1;
}

void
nmport_undo_parse(struct nmport_d *d)
{
	int error = errno;

	while (d->clist) {
		struct nmport_cleanup_d *c = d->clist;

		d->clist = c->next;
		c->cleanup(c, d);
		nmctx_free(d->ctx, c);
	}
	memset(&d->reg, 0, sizeof(d->reg));
	memset(&d->hdr, 0, sizeof(d->hdr));
	errno = error;
}

struct nmport_d *
nmport_prepare(const char *portspec)
{
	struct nmport_d *d = nmport_new();

	if (d && nmport_parse(d, portspec) != 0) {
		nmport_delete(d);
		d = NULL;
	}
	return d;
}

void
nmport_undo_prepare(struct nmport_d *d)
{
	nmport_undo_parse(d);
	nmport_delete(d);
}

/* ---- requests to the device ---- */

/* Reports what the device refused: the port, or one of its options. */
static void
say_refused(struct nmport_d *d, int error)
{
	struct nmreq_option *o;
	int named = 0;

	nmreq_foreach_option(&d->hdr, o) {
		if (o->nro_status == 0)
			continue;
		named = 1;
		nmctx_ferror(d->ctx, "%s: option %s: %s", d->hdr.nr_name,
		    nmreq_option_name(o->nro_reqtype), strerror((int)o->nro_status));
	}
	if (!named)
		nmctx_ferror(d->ctx, "%s: %s", d->hdr.nr_name, strerror(error));
}

int
nmport_register(struct nmport_d *d)
{
	int error;

	if (d->register_done) {
		errno = EINVAL;
		return -1;
	}
	nm_sync_sweep();
	d->fd = open(NETMAP_DEVICE_NAME, O_RDWR);
	if (d->fd < 0) {
		error = errno;
		nmctx_ferror(d->ctx, "%s: %s", NETMAP_DEVICE_NAME, strerror(error));
		errno = error;
		return -1;
	}
	if (ioctl(d->fd, NIOCCTRL, &d->hdr) != 0) {
		error = errno;
		say_refused(d, error);
		nmport_undo_register(d);
		errno = error;
		return -1;
	}
	d->register_done = 1;
	return 0;
}

void
nmport_undo_register(struct nmport_d *d)
{
	nm_sync_stop(d->fd);
	if (d->fd >= 0)
		close(d->fd);
	d->fd = -1;
	d->register_done = 0;
}

/* ---- the memory ---- */

static struct nmem_d *
map(struct nmport_d *d, const struct stat *file)
{
	struct nmem_d *m = nmctx_malloc(d->ctx, sizeof(*m));

	if (!m) {
		errno = ENOMEM;
		return NULL;
	}
	m->external = d->extmem != NULL;
	m->mem = m->external ? (void *)(uintptr_t)d->extmem->nro_usrptr :
	    mmap(NULL, d->reg.nr_memsize, PROT_READ | PROT_WRITE, MAP_SHARED, d->fd, 0);
	if (m->mem == MAP_FAILED) {
		nmctx_ferror(d->ctx, "%s: mmap: %s", d->hdr.nr_name, strerror(errno));
		nmctx_free(d->ctx, m);
		return NULL;
	}
	m->dev = file->st_dev;
	m->ino = file->st_ino;
	m->mem_id = d->reg.nr_mem_id;
	m->size = d->reg.nr_memsize;
	m->users = 0;
	m->next = d->ctx->mem_descs;
	d->ctx->mem_descs = m;
	return m;
}

/* Whether this memory is that of the port. External memory must also be at the same address. */
static int
is_memory_of(const struct nmem_d *m, const struct nmport_d *d, const struct stat *file)
{
	if (d->extmem && m->mem != (void *)(uintptr_t)d->extmem->nro_usrptr)
		return 0;
	return m->dev == file->st_dev && m->ino == file->st_ino &&
	    m->mem_id == d->reg.nr_mem_id && m->size >= d->reg.nr_memsize;
}

/*
 * Returns the mapping of the port's memory, and creates it if there is none. The caller has the
 * lock.
 */
static struct nmem_d *
find_or_map(struct nmport_d *d)
{
	struct nmem_d *m = d->ctx->mem_descs;
	struct stat file;

	if (fstat(d->fd, &file) != 0) {
		nmctx_ferror(d->ctx, "%s: fstat: %s", d->hdr.nr_name, strerror(errno));
		return NULL;
	}
	while (m && !is_memory_of(m, d, &file))
		m = m->next;
	if (!m)
		m = map(d, &file);
	if (m)
		m->users++;
	return m;
}

/* Finds the bound rings: those with an offset. */
static void
find_rings(const ssize_t *ofs, uint32_t count, uint16_t *first, uint16_t *last, uint16_t *cur)
{
	uint32_t i = 0;

	while (i < count && ofs[i] == 0)
		i++;
	*first = *cur = (uint16_t)i;
	while (i < count && ofs[i] != 0)
		i++;
	*last = (uint16_t)(i - 1);
}

int
nmport_mmap(struct nmport_d *d)
{
	struct netmap_if *nifp;
	uint32_t tx;

	if (!d->register_done || d->mmap_done) {
		errno = EINVAL;
		return -1;
	}
	nmctx_lock(d->ctx);
	d->mem = find_or_map(d);
	nmctx_unlock(d->ctx);
	if (!d->mem)
		return -1;
	d->nifp = nifp = NETMAP_IF(d->mem->mem, d->reg.nr_offset);
	tx = nifp->ni_tx_rings + nifp->ni_host_tx_rings;
	find_rings(nifp->ring_ofs, tx, &d->first_tx_ring, &d->last_tx_ring, &d->cur_tx_ring);
	find_rings(nifp->ring_ofs + tx, nifp->ni_rx_rings + nifp->ni_host_rx_rings,
	    &d->first_rx_ring, &d->last_rx_ring, &d->cur_rx_ring);
	d->mmap_done = 1;
	if (!d->mem->external)
		nm_sync_start(d->fd, d->reg.nr_memsize, d->reg.nr_flags);
	return 0;
}

/* Removes one user of a mapping. The caller has the lock. */
static void
unmap(struct nmctx *ctx, struct nmem_d *m)
{
	struct nmem_d **link = &ctx->mem_descs;

	if (--m->users > 0)
		return;
	while (*link != m)
		link = &(*link)->next;
	*link = m->next;
	if (!m->external)
		munmap(m->mem, m->size);
	nmctx_free(ctx, m);
}

void
nmport_undo_mmap(struct nmport_d *d)
{
	if (!d->mmap_done)
		return;
	nm_sync_stop(d->fd);
	nmctx_lock(d->ctx);
	unmap(d->ctx, d->mem);
	nmctx_unlock(d->ctx);
	d->mem = NULL;
	d->nifp = NULL;
	d->first_tx_ring = d->last_tx_ring = d->cur_tx_ring = 0;
	d->first_rx_ring = d->last_rx_ring = d->cur_rx_ring = 0;
	d->mmap_done = 0;
}

/* ---- all at once ---- */

int
nmport_open_desc(struct nmport_d *d)
{
	int error;

	if (nmport_register(d) != 0)
		return -1;
	if (nmport_mmap(d) == 0)
		return 0;
	error = errno;
	nmport_undo_register(d);
	errno = error;
	return -1;
}

void
nmport_undo_open_desc(struct nmport_d *d)
{
	nmport_undo_mmap(d);
	nmport_undo_register(d);
}

struct nmport_d *
nmport_open(const char *portspec)
{
	struct nmport_d *d = nmport_prepare(portspec);
	int error;

	if (d && nmport_open_desc(d) != 0) {
		error = errno;
		nmport_undo_prepare(d);
		errno = error;
		d = NULL;
	}
	return d;
}

void
nmport_close(struct nmport_d *d)
{
	if (!d)
		return;
	nmport_undo_open_desc(d);
	nmport_undo_prepare(d);
}

struct nmport_d *
nmport_clone(struct nmport_d *d)
{
	struct nmport_d *c = nmport_new();

	if (!c)
		return NULL;
	c->hdr = d->hdr;
	c->hdr.nr_options = 0;
	c->hdr.nr_body = (uintptr_t)&c->reg;
	c->reg = d->reg;
	c->ctx = d->ctx;
	return c;
}

/* ---- frames ---- */

/* Copies a frame to slots, whose room the caller has checked, and hands the slots over. */
static void
fill(struct netmap_ring *ring, const char *buf, size_t size)
{
	uint32_t i = ring->head;

	for (;;) {
		struct netmap_slot *slot = &ring->slot[i];
		size_t room = ring->nr_buf_size - NETMAP_ROFFSET(ring, slot);
		size_t part = size < room ? size : room;

		memcpy(NETMAP_BUF_OFFSET(ring, slot), buf, part);
		slot->len = (uint16_t)part;
		buf += part;
		size -= part;
		slot->flags = size > 0 ? NS_MOREFRAG : 0;
		i = nm_ring_next(ring, i);
		if (size == 0)
			break;
	}
	ring->cur = i;
	/* The other side may read head at any moment, so slots and frames are written before it. */
	__atomic_store_n(&ring->head, i, __ATOMIC_RELEASE);
}

/* Whether size bytes fit into the slots that the program owns. */
static int
has_room(struct netmap_ring *ring, size_t size)
{
	uint32_t i = ring->head;
	size_t room = 0;

	while (i != ring->tail && room < size) {
		room += ring->nr_buf_size - NETMAP_ROFFSET(ring, &ring->slot[i]);
		i = nm_ring_next(ring, i);
	}
	return i != ring->head && room >= size;
}

int
nmport_inject(struct nmport_d *d, const void *buf, size_t size)
{
	uint32_t rings = (uint32_t)(d->last_tx_ring - d->first_tx_ring + 1) & 0xffff, tried;
	uint32_t r = d->cur_tx_ring;

	for (tried = 0; tried < rings; tried++, r++) {
		struct netmap_ring *ring;

		if (r > d->last_tx_ring)
			r = d->first_tx_ring;
		ring = NETMAP_TXRING(d->nifp, r);
		if (!has_room(ring, size))
			continue;
		d->cur_tx_ring = (uint16_t)r;
		fill(ring, buf, size);
		return (int)size;
	}
	return 0;
}
