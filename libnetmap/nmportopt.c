/* The meaning of options to a port. */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

void
nm_push_cleanup(struct nmport_d *d, struct nmport_cleanup_d *c,
    void (*cleanup)(struct nmport_cleanup_d *, struct nmport_d *))
{
	c->cleanup = cleanup;
	c->next = d->clist;
	d->clist = c;
}

static void *
zeroed(struct nmctx *ctx, size_t size)
{
	void *mem = nmctx_malloc(ctx, size);

	if (!mem)
		errno = ENOMEM;
	else
		memset(mem, 0, size);
	return mem;
}

/* An option in a port's request, and the cleanup that removes it. */
struct pushed {
	struct nmport_cleanup_d cleanup;
	struct nmreq_option *option;
};

static void
take_back(struct nmport_cleanup_d *c, struct nmport_d *d)
{
	struct nmreq_option *option = ((struct pushed *)c)->option;

	nmreq_remove_option(&d->hdr, option);
	if (d->extmem && option == &d->extmem->nro_opt)
		d->extmem = NULL;
	nmctx_free(d->ctx, option);
}

/* Adds an option of the given size to the port's request. */
static void *
push(struct nmport_d *d, uint32_t reqtype, size_t size)
{
	struct pushed *p = zeroed(d->ctx, sizeof(*p));

	if (!p)
		return NULL;
	p->option = zeroed(d->ctx, size);
	if (!p->option) {
		nmctx_free(d->ctx, p);
		return NULL;
	}
	p->option->nro_reqtype = reqtype;
	nmreq_push_option(&d->hdr, p->option);
	nm_push_cleanup(d, &p->cleanup, take_back);
	return p->option;
}

/* ---- external memory ---- */

int
nmport_extmem(struct nmport_d *d, void *base, size_t size)
{
	struct nmreq_opt_extmem *e;

	if (d->register_done || d->extmem) {
		nmctx_ferror(d->ctx, "%s", d->extmem ? "the port has external memory already" :
		    "the port is registered already");
		errno = EINVAL;
		return -1;
	}
	e = push(d, NETMAP_REQ_OPT_EXTMEM, sizeof(*e));
	if (!e)
		return -1;
	e->nro_usrptr = (uintptr_t)base;
	e->nro_info.nr_memsize = size;
	d->extmem = e;
	return 0;
}

struct mapped_file {
	struct nmport_cleanup_d cleanup;
	void *mem;
	size_t size;
};

static void
unmap_file(struct nmport_cleanup_d *c, struct nmport_d *d)
{
	struct mapped_file *f = (struct mapped_file *)c;

	(void)d;
	munmap(f->mem, f->size);
}

static void *
map_file(const char *fname, size_t *size)
{
	int fd = open(fname, O_RDWR), error;
	void *mem = MAP_FAILED;
	struct stat st;

	if (fd < 0)
		return mem;
	if (fstat(fd, &st) == 0) {
		*size = (size_t)st.st_size;
		mem = mmap(NULL, *size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	}
	error = errno;
	close(fd);
	errno = error;
	return mem;
}

int
nmport_extmem_from_file(struct nmport_d *d, const char *fname)
{
	struct mapped_file *f = zeroed(d->ctx, sizeof(*f));

	if (!f)
		return -1;
	f->mem = map_file(fname, &f->size);
	if (f->mem == MAP_FAILED) {
		nmctx_ferror(d->ctx, "cannot map %s: %s", fname, strerror(errno));
		nmctx_free(d->ctx, f);
		return -1;
	}
	nm_push_cleanup(d, &f->cleanup, unmap_file);
	return nmport_extmem(d, f->mem, f->size);
}

struct nmreq_pools_info *
nmport_extmem_getinfo(struct nmport_d *d)
{
	return d->extmem ? &d->extmem->nro_info : NULL;
}

/* ---- offsets ---- */

int
nmport_offset(struct nmport_d *d, uint64_t initial, uint64_t maxoff, uint64_t bits, uint64_t mingap)
{
	struct nmreq_opt_offsets *o = push(d, NETMAP_REQ_OPT_OFFSETS, sizeof(*o));

	if (!o)
		return -1;
	o->nro_max_offset = maxoff;
	o->nro_initial_offset = initial;
	o->nro_offset_bits = (uint32_t)bits;
	o->nro_min_gap = mingap;
	return 0;
}

/* ---- in names ---- */

/* The options of one name that have been read so far. */
struct reading {
	struct nmport_d *d;
	int has_conf;
	int has_offset;
};

/* Reads the number of a key. It is 0 if the key was not given. */
static int
number_of(const struct nmreq_parse_ctx *p, int key, uint64_t min, uint64_t max, uint64_t *number)
{
	const char *s = p->keys[key];

	*number = 0;
	return s ? nm_number(&s, min, max, number, p->ctx) : 0;
}

enum { EXTMEM_FILE, EXTMEM_NUMBERS };

static int
parse_extmem(struct nmreq_parse_ctx *p)
{
	struct nmport_d *d = ((struct reading *)p->token)->d;
	uint64_t n[6];
	struct nmreq_pools_info *info;
	int i;

	if (d->reg.nr_mem_id != 0)
		return nm_refuse(p->ctx, "another memory is asked for already", p->keys[EXTMEM_FILE]);
	for (i = 0; i < 6; i++)
		if (number_of(p, EXTMEM_NUMBERS + i, 1, UINT32_MAX, &n[i]) != 0)
			return -1;
	if (nmport_extmem_from_file(d, p->keys[EXTMEM_FILE]) != 0)
		return -1;
	info = nmport_extmem_getinfo(d);
	info->nr_if_pool_objtotal = (uint32_t)n[0];
	info->nr_if_pool_objsize = (uint32_t)n[1];
	info->nr_ring_pool_objtotal = (uint32_t)n[2];
	info->nr_ring_pool_objsize = (uint32_t)n[3];
	info->nr_buf_pool_objtotal = (uint32_t)n[4];
	info->nr_buf_pool_objsize = (uint32_t)n[5];
	return 0;
}

static int
parse_share(struct nmreq_parse_ctx *p)
{
	struct nmport_d *d = ((struct reading *)p->token)->d;
	const char *port = p->keys[0];
	int32_t id;

	if (d->extmem)
		return nm_refuse(p->ctx, "another memory is asked for already", port);
	id = nmreq_get_mem_id(&port, p->ctx);
	if (id < 0)
		return -1;
	if (*port != '\0')
		return nm_refuse(p->ctx, "expected the end of the port's name", port);
	if (d->reg.nr_mem_id != 0 && d->reg.nr_mem_id != id)
		return nm_refuse(p->ctx, "another memory is asked for already", p->keys[0]);
	d->reg.nr_mem_id = (uint16_t)id;
	return 0;
}

enum { RINGS, HOST_RINGS, TX_RINGS, RX_RINGS, HOST_TX_RINGS, HOST_RX_RINGS, SLOTS, TX_SLOTS, RX_SLOTS };

static int
parse_conf(struct nmreq_parse_ctx *p)
{
	struct reading *r = p->token;
	struct nmreq_register *reg = &r->d->reg;
	uint64_t n[RX_SLOTS + 1];
	int key;

	if (r->has_conf++)
		return nm_refuse(p->ctx, "the option is given twice", "conf");
	for (key = RINGS; key <= RX_SLOTS; key++)
		if (number_of(p, key, 1, key < SLOTS ? UINT16_MAX : UINT32_MAX, &n[key]) != 0)
			return -1;
	/* The specific key wins over the general one, in any order. */
	reg->nr_tx_rings = (uint16_t)(n[TX_RINGS] ? n[TX_RINGS] : n[RINGS]);
	reg->nr_rx_rings = (uint16_t)(n[RX_RINGS] ? n[RX_RINGS] : n[RINGS]);
	reg->nr_host_tx_rings = (uint16_t)(n[HOST_TX_RINGS] ? n[HOST_TX_RINGS] : n[HOST_RINGS]);
	reg->nr_host_rx_rings = (uint16_t)(n[HOST_RX_RINGS] ? n[HOST_RX_RINGS] : n[HOST_RINGS]);
	reg->nr_tx_slots = (uint32_t)(n[TX_SLOTS] ? n[TX_SLOTS] : n[SLOTS]);
	reg->nr_rx_slots = (uint32_t)(n[RX_SLOTS] ? n[RX_SLOTS] : n[SLOTS]);
	return 0;
}

enum { INITIAL, BITS };

static int
parse_offset(struct nmreq_parse_ctx *p)
{
	struct reading *r = p->token;
	uint64_t initial, bits;

	if (r->has_offset++)
		return nm_refuse(p->ctx, "the option is given twice", "offset");
	if (number_of(p, INITIAL, 0, UINT64_MAX, &initial) != 0 || number_of(p, BITS, 1, 64, &bits) != 0)
		return -1;
	return nmport_offset(r->d, initial, initial, bits, 0);
}

#define NUMBER(name, id) { name, id, NMREQ_OPTK_NUMBER }

static struct nmreq_opt_parser offset_parser = {
	"offset", parse_offset, 0, 2, NMREQ_OPTF_DISABLED, NULL,
	{ { "initial", INITIAL, NMREQ_OPTK_NUMBER | NMREQ_OPTK_MUSTSET | NMREQ_OPTK_DEFAULT },
	  NUMBER("bits", BITS) },
};
static struct nmreq_opt_parser conf_parser = {
	"conf", parse_conf, -1, 9, 0, &offset_parser,
	{ NUMBER("rings", RINGS), NUMBER("host-rings", HOST_RINGS), NUMBER("tx-rings", TX_RINGS),
	  NUMBER("rx-rings", RX_RINGS), NUMBER("host-tx-rings", HOST_TX_RINGS),
	  NUMBER("host-rx-rings", HOST_RX_RINGS), NUMBER("slots", SLOTS),
	  NUMBER("tx-slots", TX_SLOTS), NUMBER("rx-slots", RX_SLOTS) },
};
static struct nmreq_opt_parser share_parser = {
	"share", parse_share, 0, 1, 0, &conf_parser,
	{ { "port", 0, NMREQ_OPTK_MUSTSET | NMREQ_OPTK_DEFAULT } },
};
static struct nmreq_opt_parser parsers = {
	"extmem", parse_extmem, 0, 7, 0, &share_parser,
	{ { "file", EXTMEM_FILE, NMREQ_OPTK_MUSTSET | NMREQ_OPTK_DEFAULT },
	  NUMBER("if-num", EXTMEM_NUMBERS), NUMBER("if-size", EXTMEM_NUMBERS + 1),
	  NUMBER("ring-num", EXTMEM_NUMBERS + 2), NUMBER("ring-size", EXTMEM_NUMBERS + 3),
	  NUMBER("buf-num", EXTMEM_NUMBERS + 4), NUMBER("buf-size", EXTMEM_NUMBERS + 5) },
};

static struct nmreq_opt_parser *
parser_of(const char *opt)
{
	struct nmreq_opt_parser *p = &parsers;

	while (p && strcmp(p->prefix, opt) != 0)
		p = p->next;
	if (!p)
		errno = EOPNOTSUPP;
	return p;
}

int
nmport_enable_option(const char *opt)
{
	struct nmreq_opt_parser *p = parser_of(opt);

	if (p)
		p->flags &= ~NMREQ_OPTF_DISABLED;
	return p ? 0 : -1;
}

int
nmport_disable_option(const char *opt)
{
	struct nmreq_opt_parser *p = parser_of(opt);

	if (p)
		p->flags |= NMREQ_OPTF_DISABLED;
	return p ? 0 : -1;
}

/* Refuses "@N" together with external memory, because a port has one memory only. */
static int
region(const char **at, struct nmport_d *d)
{
	if (d->extmem)
		return nm_refuse(d->ctx, "another memory is asked for already", *at);
	++*at;
	return nm_region(at, &d->reg, d->ctx);
}

int
nm_port_options(struct nmport_d *d, const char *at)
{
	struct reading r = { .d = d };
	int error = 0;

	while (error == 0 && *at != '\0') {
		if (*at == '/')
			error = nm_flags(&at, &d->reg, d->ctx);
		else if (*at == '@' && at[1] >= '0' && at[1] <= '9')
			error = region(&at, d);
		else if (*at == '@')
			error = nm_one_option(&at, &parsers, &r, d->ctx);
		else
			error = nm_refuse(d->ctx, "expected a suffix or the end", at);
	}
	return error;
}
