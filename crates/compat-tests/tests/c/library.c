/* Tests of programs that use <net/netmap_user.h> with its library, and libnetmap. */
#define NETMAP_WITH_LIBS
#include <libnetmap.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "shut.h"

#define AT(type, field, byte) _Static_assert(offsetof(struct type, field) == (byte), #type "." #field)

static void
header_structures_have_netmaps_layout(void)
{
	_Static_assert(sizeof(struct nm_desc) == 760, "nm_desc");
	AT(nm_desc, fd, 8);
	AT(nm_desc, mem, 16);
	AT(nm_desc, memsize, 24);
	AT(nm_desc, done_mmap, 32);
	AT(nm_desc, nifp, 40);
	AT(nm_desc, first_tx_ring, 48);
	AT(nm_desc, cur_rx_ring, 58);
	AT(nm_desc, req, 60);
	AT(nm_desc, hdr, 120);
	AT(nm_desc, some_ring, 176);
	AT(nm_desc, buf_start, 184);
	AT(nm_desc, buf_end, 192);
	AT(nm_desc, snaplen, 200);
	AT(nm_desc, st, 236);
	AT(nm_desc, msg, 248);
	_Static_assert(sizeof(struct nmport_d) == 216, "nmport_d");
	AT(nmport_d, reg, 88);
	AT(nmport_d, mem, 144);
	AT(nmport_d, ctx, 152);
	AT(nmport_d, register_done, 160);
	AT(nmport_d, mmap_done, 164);
	AT(nmport_d, extmem, 168);
	AT(nmport_d, fd, 176);
	AT(nmport_d, nifp, 184);
	AT(nmport_d, first_tx_ring, 192);
	AT(nmport_d, first_rx_ring, 196);
	AT(nmport_d, cur_tx_ring, 200);
	AT(nmport_d, cur_rx_ring, 202);
	AT(nmport_d, clist, 208);
}

static char frame[6000];

static void
fill_frame(void)
{
	size_t i;

	for (i = 0; i < sizeof(frame); i++)
		frame[i] = (char)(i * 7);
}

static int
wait_for(int fd, short events)
{
	struct pollfd p = { fd, events, 0 };

	CHECK(poll(&p, 1, 120000) == 1);
	return p.revents;
}

static struct nm_desc *
opened(const char *name)
{
	struct nm_desc *d = nm_open(name, NULL, 0, NULL);

	CHECK(d);
	return d;
}

/* ---- the header ---- */

static void
nm_open_moves_frames_through_a_pipe(void)
{
	struct nm_desc *a = opened("netmap:x{1"), *b = opened("netmap:x}1");
	struct nm_pkthdr h;
	int i;

	fill_frame();
	CHECK(IS_NETMAP_DESC(a) && NETMAP_FD(a) == a->fd);
	CHECK(a->first_tx_ring == 0 && a->last_tx_ring == 0 && a->last_rx_ring == 0);
	CHECK(nm_nextpkt(b, &h) == NULL);
	for (i = 60; i < 70; i++)
		CHECK(nm_inject(a, frame, (size_t)i) == i);
	CHECK(nm_tx_pending(NETMAP_TXRING(a->nifp, 0)));
	CHECK(ioctl(a->fd, NIOCTXSYNC, NULL) == 0);
	CHECK(wait_for(b->fd, POLLIN) & POLLIN);
	CHECK(nm_ring_space(NETMAP_RXRING(b->nifp, 0)) == 10);
	for (i = 60; i < 70; i++) {
		u_char *p = nm_nextpkt(b, &h);

		CHECK(p && h.len == (uint32_t)i && h.caplen == h.len && memcmp(p, frame, h.len) == 0);
		CHECK(h.buf == p && h.d == b && h.ts.tv_sec > 0);
		CHECK(NETMAP_BUF_IDX(NETMAP_RXRING(b->nifp, 0), p) == h.slot->buf_idx);
	}
	CHECK(nm_nextpkt(b, &h) == NULL);
	CHECK(nm_close(a) == 0 && nm_close(b) == 0);
}

static void
nm_open_takes_the_memory_of_its_parent(void)
{
	struct nm_desc *a = opened("netmap:x{1"), *b, *c;

	b = nm_open("netmap:x}1", NULL, NM_OPEN_NO_MMAP, a);
	CHECK(b && b->mem == a->mem && !b->done_mmap && a->done_mmap && b->nifp);
	CHECK((char *)b->buf_end == (char *)b->mem + b->memsize);
	c = nm_open("netmap:y{1", NULL, NM_OPEN_NO_MMAP, NULL);
	CHECK(c && !c->mem && !c->nifp);
	CHECK(nm_mmap(c, NULL) == 0 && c->mem && c->nifp && c->done_mmap);
	nm_close(c);
	nm_close(b);
	/* The mapping of the parent still exists. */
	CHECK(nm_inject(a, frame, 60) == 60);
	nm_close(a);
}

static void
nm_open_takes_names_and_numbers_from_its_parent(void)
{
	struct nmreq req = { .nr_tx_slots = 64, .nr_rx_slots = 64, .nr_arg3 = 5 };
	struct nm_desc *a = nm_open("netmap:x{1-0", &req, 0, NULL), *b;

	/* nm_open accepts no ring number after a pipe; libnetmap does. */
	CHECK(!a && errno == EINVAL);
	a = nm_open("netmap:x{1", &req, NETMAP_NO_TX_POLL, NULL);
	CHECK(a && a->req.nr_arg3 == 5 && a->nifp->ni_bufs_head != 0);
	CHECK(NETMAP_TXRING(a->nifp, 0)->num_slots == 64);
	b = nm_open("ignored:", NULL, NM_OPEN_IFNAME, a);
	CHECK(!b && errno == 0);
	b = nm_open("netmap:z", NULL, NM_OPEN_IFNAME | NM_OPEN_RING_CFG | NM_OPEN_ARG2, a);
	CHECK(b && NETMAP_TXRING(b->nifp, 0) == NETMAP_TXRING(a->nifp, 0) && b->req.nr_arg3 == 0);
	nm_close(b);
	nm_close(a);
}

static void
nm_open_refuses_what_it_does_not_know(void)
{
	errno = 7;
	CHECK(!nm_open("eth0", NULL, 0, NULL) && errno == 0);
	CHECK(!nm_open("netmap:nothing", NULL, 0, NULL) && errno == ENXIO);
	CHECK(!nm_open("netmap:x{y", NULL, 0, NULL) && errno == EINVAL);
	CHECK(nm_close(NULL) == EINVAL);
}

static const struct parsed {
	const char *text, *name;
	uint32_t flags;
	uint16_t ring, arg2;
	int bad;
} parsed[] = {
	{ "netmap:eth0", "eth0", NR_REG_ALL_NIC, 0, 0, 0 },
	{ "netmap:eth0.100-3", "eth0.100", NR_REG_ONE_NIC, 3, 0, 0 },
	{ "netmap:eth0*", "eth0", NR_REG_NIC_SW, 0, 0, 0 },
	{ "netmap:eth0^", "eth0", NR_REG_SW, 0, 0, 0 },
	{ "netmap:x{4", "x", NR_REG_PIPE_MASTER, 4, 0, 0 },
	{ "vale0:a}4/x@9", "vale0:a", NR_REG_PIPE_SLAVE | NR_EXCLUSIVE, 4, 9, 0 },
	{ "vale:a/ztrTR", "vale:a", NR_REG_ALL_NIC | NR_ZCOPY_MON | NR_MONITOR_TX | NR_MONITOR_RX |
	    NR_TX_RINGS_ONLY | NR_RX_RINGS_ONLY, 0, 0, 0 },
	{ "netmap:x}1/z", "x", NR_REG_PIPE_SLAVE | NR_ZCOPY_MON | NR_MONITOR_TX | NR_MONITOR_RX, 1, 0, 0 },
	{ "vale:a/zr", "vale:a", NR_REG_ALL_NIC | NR_ZCOPY_MON | NR_MONITOR_RX, 0, 0, 0 },
	{ "netmap:", "", 0, 0, 0, 1 },
	{ "netmap:-1", "", 0, 0, 0, 1 },
	{ "netmap:eth0-", "", 0, 0, 0, 1 },
	{ "netmap:eth0-4096", "", 0, 0, 0, 1 },
	{ "netmap:eth0/q", "", 0, 0, 0, 1 },
	{ "netmap:eth0@", "", 0, 0, 0, 1 },
	{ "netmap:eth0*x", "", 0, 0, 0, 1 },
	{ "netmap:0123456789abcdef", "", 0, 0, 0, 1 },
	{ "vale", "", 0, 0, 0, 1 },
	{ "vale-:a", "", 0, 0, 0, 1 },
	{ "eth0", "", 0, 0, 0, 1 },
};

static void
nm_parse_knows_every_form(void)
{
	size_t i;

	for (i = 0; i < sizeof(parsed) / sizeof(*parsed); i++) {
		const struct parsed *p = &parsed[i];
		struct nm_desc d = { 0 };
		char err[MAXERRMSG] = "";
		int error = nm_parse(p->text, &d, err);

		fprintf(stderr, "%s\n", p->text);
		CHECK((error != 0) == p->bad && (error != 0) == (err[0] != '\0'));
		if (p->bad)
			continue;
		CHECK(strcmp(d.req.nr_name, p->name) == 0 && d.req.nr_flags == p->flags);
		CHECK(d.req.nr_ringid == p->ring && d.req.nr_arg2 == p->arg2);
	}
}

static int seen, with_more;

static void
count(u_char *arg, const struct nm_pkthdr *h, const u_char *p)
{
	CHECK(arg == (u_char *)frame && p == h->buf && h->len == 60);
	seen++;
	with_more += (h->flags & NM_MORE_PKTS) != 0;
}

static void
nm_dispatch_says_whether_there_are_more(void)
{
	struct nm_desc *a = opened("netmap:x{1"), *b = opened("netmap:x}1");
	int i;

	for (i = 0; i < 10; i++)
		CHECK(nm_inject(a, frame, 60) == 60);
	CHECK(ioctl(a->fd, NIOCTXSYNC, NULL) == 0 && ioctl(b->fd, NIOCRXSYNC, NULL) == 0);
	CHECK(nm_dispatch(b, 4, count, (u_char *)frame) == 4 && seen == 4 && with_more == 3);
	CHECK(nm_dispatch(b, -1, count, (u_char *)frame) == 6 && seen == 10 && with_more == 8);
	CHECK(nm_dispatch(b, -1, count, (u_char *)frame) == 0);
}

static void
nm_inject_spreads_a_long_frame_over_slots(void)
{
	struct nm_desc *a = opened("netmap:x{1"), *b = opened("netmap:x}1");
	struct nm_pkthdr h;
	u_char *p;

	fill_frame();
	CHECK(nm_inject(a, frame, 5000) == 5000 && nm_inject(a, frame, 60) == 60);
	CHECK(ioctl(a->fd, NIOCTXSYNC, NULL) == 0 && ioctl(b->fd, NIOCRXSYNC, NULL) == 0);
	p = nm_nextpkt(b, &h);
	CHECK(p && h.len == 5000 && h.caplen == 2112 && memcmp(p, frame, 2112) == 0);
	CHECK(nm_nextpkt(b, &h) && h.len == 60);
	/* If there is no room for the whole frame, no part of it is queued. */
	while (nm_inject(a, frame, 60))
		;
	CHECK(nm_ring_empty(NETMAP_TXRING(a->nifp, 0)));
}

/* ---- the library ---- */

static struct nmport_d *
port(const char *name)
{
	struct nmport_d *d = nmport_open(name);

	CHECK(d);
	return d;
}

static void
nmport_moves_frames_through_a_pipe(void)
{
	struct nmport_d *a = port("netmap:x{one@conf:rings=2,slots=64/x"), *b = port("netmap:x}one-1");
	struct netmap_ring *ring;
	int i;

	fill_frame();
	CHECK(a->last_tx_ring == 1 && a->last_rx_ring == 1);
	CHECK(b->first_tx_ring == 1 && b->last_tx_ring == 1 && b->first_rx_ring == 1);
	ring = NETMAP_RXRING(b->nifp, 1);
	CHECK(ring->num_slots == 64);
	a->cur_tx_ring = 1;
	for (i = 0; i < 63; i++)
		CHECK(nmport_inject(a, frame, 100) == 100);
	/* The second ring is full, so the first ring is next. */
	CHECK(a->cur_tx_ring == 1 && nmport_inject(a, frame, 100) == 100 && a->cur_tx_ring == 0);
	CHECK(ioctl(a->fd, NIOCTXSYNC, NULL) == 0);
	CHECK(wait_for(b->fd, POLLIN) & POLLIN);
	CHECK(nm_ring_space(ring) == 63);
	CHECK(memcmp(NETMAP_BUF(ring, ring->slot[5].buf_idx), frame, 100) == 0);
	nmport_close(b);
	nmport_close(a);
}

static void
nmport_opens_in_steps_and_undoes_each(void)
{
	struct nmport_d *d = nmport_new();

	CHECK(d && nmport_parse(d, "netmap:x{1/x") == 0);
	CHECK(nmport_mmap(d) < 0 && errno == EINVAL);
	d->reg.nr_extra_bufs = 3;
	CHECK(nmport_register(d) == 0 && d->register_done && d->reg.nr_extra_bufs == 3);
	CHECK(nmport_register(d) < 0 && errno == EINVAL);
	CHECK(nmport_mmap(d) == 0 && d->mmap_done && d->nifp->ni_bufs_head != 0);
	CHECK(nmport_mmap(d) < 0 && errno == EINVAL);
	nmport_undo_mmap(d);
	CHECK(!d->mmap_done && !d->mem && !d->nifp);
	CHECK(nmport_mmap(d) == 0);
	nmport_undo_open_desc(d);
	CHECK(!d->register_done && d->fd == -1 && d->hdr.nr_name[0] == 'x');
	/* The port is free again, so the same request opens it. */
	CHECK(nmport_open_desc(d) == 0);
	nmport_undo_open_desc(d);
	nmport_undo_prepare(d);
}

static void
nmport_ports_of_one_memory_share_a_mapping(void)
{
	struct nmport_d *a = port("netmap:x{1"), *b = port("netmap:x}1"), *c = port("netmap:y{1");
	void *mem;

	CHECK(a->mem == b->mem && a->reg.nr_mem_id == b->reg.nr_mem_id);
	CHECK((a->mem == c->mem) == (a->reg.nr_mem_id == c->reg.nr_mem_id));
	mem = a->nifp;
	nmport_close(b);
	nmport_close(c);
	CHECK(((struct netmap_if *)mem)->ni_tx_rings == 1);
	nmport_close(a);
}

/* Memories of two users may have the same number, but are different memories. */
static void
mappings_are_not_shared_between_users(void)
{
	struct nmport_d *a = port("netmap:x{1"), *b;
	struct nm_desc *c = opened("netmap:y{1"), *d;

	CHECK(seteuid(65534) == 0);
	b = port("netmap:x{1");
	CHECK(b->mem != a->mem && b->reg.nr_mem_id == a->reg.nr_mem_id);
	CHECK(strcmp(b->nifp->ni_name, "x{1") == 0);
	d = nm_open("netmap:y{1", NULL, 0, c);
	CHECK(d && d->mem != c->mem && d->done_mmap);
	CHECK(seteuid(0) == 0);
	nmport_close(a);
	nm_close(c);
	CHECK(nmport_inject(b, frame, 60) == 60 && nm_inject(d, frame, 60) == 60);
	nm_close(d);
	nmport_close(b);
}

static void
nmport_clone_asks_for_the_same(void)
{
	struct nmport_d *a = port("netmap:x{1@conf:slots=32"), *b = nmport_clone(a);

	CHECK(b && b->fd == -1 && !b->register_done && strcmp(b->hdr.nr_name, "x{1") == 0);
	CHECK(b->hdr.nr_body == (uintptr_t)&b->reg && b->reg.nr_tx_slots == 32);
	CHECK(nmport_open_desc(b) == 0 && b->mem == a->mem);
	CHECK(NETMAP_RXRING(b->nifp, 0) == NETMAP_RXRING(a->nifp, 0));
	nmport_close(b);
	nmport_close(a);
}

static void
nmport_share_asks_the_device(void)
{
	struct nmport_d *a = port("netmap:x{1"), *b;
	const char *name = "x{1";

	b = nmport_prepare("netmap:y{1@share:port=netmap:x{1");
	CHECK(b && b->reg.nr_mem_id == a->reg.nr_mem_id);
	CHECK(nmport_open_desc(b) == 0 && b->mem == a->mem);
	CHECK(!nmport_prepare("netmap:y{1@share=netmap:nothing") && errno == ENXIO);
	CHECK(nmreq_get_mem_id(&name, nmctx_get()) == -1 && errno == EINVAL);
	name = "42";
	CHECK(nmreq_get_mem_id(&name, nmctx_get()) == 42 && *name == '\0');
}

static void
empty_memory_numbers_and_trailing_text_are_refused(void)
{
	static const char *const names[] = { "netmap:x{1@", "netmap:x{1/x@", "netmap:x{1@0", "netmap:x{1@1x",
	    "netmap:x{1@1@", "netmap:x{1@1 ", "netmap:x{1 ", "netmap:x{1-0x", "netmap:x{1@conf:slots=64x",
	    "netmap:x{1@conf:", "netmap:x{1@share:port=", "netmap:x{1@share:port=0", "netmap:x{1@share:port=1x",
	    "netmap:x{1@share:port=netmap:x{2 y", "netmap:x{1@share:port=netmap:x{2-0" };
	static const char *const suffixes[] = { "@", "@0", "@1x", "/x@", "-0x", "x" };
	struct nmport_d *a = port("netmap:x{2");
	struct nmreq_register r = { 0 };
	const char *empty = "", *zero = "0";
	struct nm_desc *d;
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(*names); i++) {
		errno = 0;
		CHECK(!nmport_prepare(names[i]) && errno == EINVAL);
	}
	for (i = 0; i < sizeof(suffixes) / sizeof(*suffixes); i++) {
		const char *at = suffixes[i];

		errno = 0;
		CHECK(nmreq_register_decode(&at, &r, nmctx_get()) == -1 && errno == EINVAL);
		CHECK(at == suffixes[i]);
	}
	CHECK(nmreq_get_mem_id(&empty, nmctx_get()) == -1 && errno == EINVAL);
	CHECK(nmreq_get_mem_id(&zero, nmctx_get()) == -1 && errno == EINVAL);
	for (i = 0; i < 6; i++) {
		d = nm_open(names[i], NULL, 0, NULL);
		CHECK(!d);
	}
	nmport_close(a);
}

static char last_message[512];

static void
keep(struct nmctx *ctx, const char *message)
{
	(void)ctx;
	snprintf(last_message, sizeof(last_message), "%s", message);
}

static void
nmport_says_which_option_was_refused(void)
{
	struct nmport_d *d;

	nmctx_get()->error = keep;
	CHECK(!nmport_open("netmap:x{1@offset=64") && errno == EINVAL);
	CHECK(strstr(last_message, "no such option"));
	d = nmport_prepare("netmap:x{1");
	/* The offset is larger than a buffer. */
	CHECK(d && nmport_offset(d, 1 << 20, 1 << 20, 0, 0) == 0);
	CHECK(nmport_open_desc(d) < 0);
	CHECK(strstr(last_message, "option offsets: "));
	nmport_undo_prepare(d);
	CHECK(!nmport_open("netmap:nothing") && errno == ENXIO && strstr(last_message, "nothing: "));
}

static void
nmport_failed_parse_leaves_nothing(void)
{
	struct nmport_d *d = nmport_new(), zero;

	memset(&zero, 0, sizeof(zero));
	CHECK(nmport_parse(d, "netmap:x{1-5/x@7@conf:rings=2,slots") < 0 && errno == EINVAL);
	CHECK(memcmp(&d->hdr, &zero.hdr, sizeof(d->hdr)) == 0);
	CHECK(memcmp(&d->reg, &zero.reg, sizeof(d->reg)) == 0);
	CHECK(!d->clist && !d->extmem);
	CHECK(nmport_parse(d, "netmap:x{1") == 0 && d->hdr.nr_body == (uintptr_t)&d->reg);
	nmport_undo_prepare(d);
}

static void
nmreq_options_are_a_list(void)
{
	struct nmreq_header h;
	struct nmreq_option a = { .nro_reqtype = NETMAP_REQ_OPT_CSB };
	struct nmreq_option b = { .nro_reqtype = NETMAP_REQ_OPT_OFFSETS };
	struct nmreq_option *o;
	int n = 0;

	nmreq_header_init(&h, NETMAP_REQ_REGISTER, &n);
	CHECK(h.nr_version == NETMAP_API && h.nr_body == (uintptr_t)&n && !h.nr_options);
	nmreq_push_option(&h, &a);
	nmreq_push_option(&h, &b);
	nmreq_foreach_option(&h, o) n++;
	CHECK(n == 2 && nmreq_find_option(&h, NETMAP_REQ_OPT_CSB) == &a);
	CHECK(!nmreq_find_option(&h, NETMAP_REQ_OPT_EXTMEM));
	nmreq_remove_option(&h, &a);
	CHECK(!nmreq_find_option(&h, NETMAP_REQ_OPT_CSB) && nmreq_find_option(&h, b.nro_reqtype) == &b);
	nmreq_remove_option(&h, &b);
	CHECK(!h.nr_options && strcmp(nmreq_option_name(NETMAP_REQ_OPT_EXTMEM), "extmem") == 0);
	o = nmctx_malloc(nmctx_get(), sizeof(*o));
	nmreq_push_option(&h, o);
	nmreq_free_options(&h);
	CHECK(!h.nr_options);
}

static int
remember(struct nmreq_parse_ctx *p)
{
	char *to = p->token;

	sprintf(to, "%s|%s", p->keys[0] ? p->keys[0] : "", p->keys[3] ? p->keys[3] : "");
	return 0;
}

static void
nmreq_options_decode_by_tables(void)
{
	char got[100] = "";
	struct nmreq_opt_parser second = {
		"flag", remember, -1, 0, NMREQ_OPTF_ALLOWEMPTY, NULL, { { 0 } } };
	struct nmreq_opt_parser table = { "opt", remember, 0, 2, 0, &second,
	    { { "one-key", 0, NMREQ_OPTK_DEFAULT }, { "other", 3, NMREQ_OPTK_ALLOWEMPTY } } };
	struct nmctx *ctx = nmctx_get();

	ctx->error = keep;
	CHECK(nmreq_options_decode("@opt:other=,one_key=a@@b,,c", &table, got, ctx) == 0);
	CHECK(strcmp(got, "a@b,c|") == 0);
	CHECK(nmreq_options_decode("@opt=x,y@flag", &table, got, ctx) == 0 && strcmp(got, "|") == 0);
	CHECK(nmreq_options_decode("@opt=x,y", &table, got, ctx) == 0 && strcmp(got, "x,y|") == 0);
	CHECK(nmreq_options_decode("@opt:one-key=", &table, got, ctx) < 0 && errno == EINVAL);
	CHECK(nmreq_options_decode("@opt:two=1", &table, got, ctx) < 0);
	CHECK(nmreq_options_decode("@opt", &table, got, ctx) < 0);
	CHECK(nmreq_options_decode("@what", &table, got, ctx) < 0);
	CHECK(nmreq_options_decode("opt", &table, got, ctx) < 0);
	table.flags = NMREQ_OPTF_DISABLED;
	CHECK(nmreq_options_decode("@opt=x", &table, got, ctx) < 0);
	CHECK(nmport_enable_option("nonsense") < 0 && errno == EOPNOTSUPP);
	CHECK(nmport_disable_option("conf") == 0 && !nmport_prepare("netmap:x@conf:slots=9"));
}

static int allocated;

static void *
counting_malloc(struct nmctx *ctx, size_t size)
{
	(void)ctx;
	allocated++;
	return malloc(size);
}

static void
counting_free(struct nmctx *ctx, void *mem)
{
	(void)ctx;
	allocated -= mem != NULL;
	free(mem);
}

static void
contexts_give_memory_and_take_messages(void)
{
	struct nmctx mine = { .error = keep, .malloc = counting_malloc, .free = counting_free };
	struct nmctx *old = nmctx_set_default(&mine);
	struct nmport_d *d = port("netmap:x{1@conf:slots=32");

	CHECK(nmctx_get() == &mine && d->ctx == &mine && allocated >= 2 && mine.mem_descs == d->mem);
	nmport_close(d);
	CHECK(allocated == 0 && !mine.mem_descs);
	CHECK(!nmport_open("netmap:x{1@conf:slots=0") && allocated == 0 && last_message[0]);
	CHECK(nmctx_set_default(old) == &mine && nmctx_threadsafe);
	nmctx_ferror(&mine, "%d and %s", 1, "two");
	CHECK(strcmp(last_message, "1 and two") == 0);
}

static void *
open_and_close(void *arg)
{
	char name[32];
	int i;

	for (i = 0; i < 50; i++) {
		sprintf(name, "netmap:t{%d", (int)(intptr_t)arg);
		nmport_close(port(name));
	}
	return NULL;
}

static void
threads_open_and_close_at_once(void)
{
	pthread_t t[4];
	intptr_t i;

	for (i = 0; i < 4; i++)
		CHECK(pthread_create(&t[i], NULL, open_and_close, (void *)i) == 0);
	for (i = 0; i < 4; i++)
		CHECK(pthread_join(t[i], NULL) == 0);
	CHECK(!nmctx_get()->mem_descs);
}

/* Passes a frame from x{1 to x}1, which share their memory. */
static void
passes_a_frame(struct nmport_d *a, struct nmport_d *b)
{
	struct netmap_ring *r = NETMAP_RXRING(b->nifp, b->first_rx_ring);

	CHECK(a->mem == b->mem && nmport_inject(a, "hello", 6) == 6);
	CHECK(ioctl(a->fd, NIOCTXSYNC) == 0 && ioctl(b->fd, NIOCRXSYNC) == 0);
	CHECK(nm_ring_space(r) == 1 && r->slot[r->head].len == 6);
	CHECK(strcmp(NETMAP_BUF(r, r->slot[r->head].buf_idx), "hello") == 0);
}

static void
nmport_brings_memory_from_a_file(void)
{
	/* The stage's /dev is a file system in memory. */
	char file[] = "/dev/pages-XXXXXX", name[200];
	int fd = mkstemp(file);
	struct nmport_d *a, *b;

	CHECK(fd >= 0 && ftruncate(fd, 16 << 20) == 0);
	sprintf(name, "netmap:x{1@conf:slots=64@extmem:file=%s,buf-num=1000", file);
	a = port(name);
	CHECK(nmport_extmem_getinfo(a)->nr_buf_pool_objtotal == 1000);
	CHECK(nmport_extmem_getinfo(a)->nr_ring_pool_objsize == 20480);
	CHECK((char *)a->nifp == (char *)(uintptr_t)a->extmem->nro_usrptr + a->reg.nr_offset);
	sprintf(name, "netmap:x}1@%u", a->reg.nr_mem_id);
	b = port(name);
	passes_a_frame(a, b);
	nmport_close(b);
	nmport_close(a);
	CHECK(!nmctx_get()->mem_descs && unlink(file) == 0);
}

static void
nmport_brings_memory_of_its_own(void)
{
	size_t size = 4 << 20;
	void *mem = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct nmport_d *a = nmport_prepare("netmap:x{1@conf:slots=64"), *b;

	CHECK(mem != MAP_FAILED && nmport_extmem(a, mem, size) == 0 && nmport_open_desc(a) == 0);
	b = nmport_prepare("netmap:x}1");
	CHECK(nmport_extmem(b, mem, size) == 0 && nmport_open_desc(b) == 0);
	passes_a_frame(a, b);
	nmport_close(a);
	nmport_close(b);
	memset(mem, 0, size);
}

/* ---- syncs in the program ---- */

/* Queues this number of frames without a sync. */
static void
queue_frames(struct nm_desc *d, int count)
{
	while (count-- > 0)
		CHECK(nm_inject(d, frame, 60) == 60);
}

static uint32_t
frames_at(struct nm_desc *d)
{
	return nm_ring_space(NETMAP_RXRING(d->nifp, 0));
}

static int
is_lent(struct nm_desc *d)
{
	return nm_inprocess && nm_inprocess->active(d->fd) != 0;
}

static void
a_pipe_is_synced_in_the_program_without_the_device(void)
{
	struct nm_desc *a = opened("netmap:x{1"), *b = opened("netmap:x}1");
	struct pollfd p = { b->fd, POLLIN, 0 };
	struct nm_pkthdr h;
	int i, kept[2];

	if (!is_lent(a)) {
		CHECK(getenv("NETMAP_INPROCESS")[0] == '0' && !is_lent(b));
		return;
	}
	kept[0] = shut(a), kept[1] = shut(b);
	/* Passes enough frames to wrap around the rings several times. */
	for (i = 0; i < 50; i++) {
		queue_frames(a, 100);
		CHECK(ioctl(a->fd, NIOCTXSYNC, NULL) == 0);
		CHECK(poll(&p, 1, 120000) == 1 && p.revents == POLLIN && frames_at(b) == 100);
		while (nm_nextpkt(b, &h))
			CHECK(h.len == 60 && h.ts.tv_sec > 0);
		CHECK(ioctl(b->fd, NIOCRXSYNC) == 0);
	}
	/* Calls other than syncs still reach the device. */
	CHECK(ioctl(a->fd, NIOCGINFO, &a->req) != 0);
	open_again(a, kept[0]), open_again(b, kept[1]);
	nm_close(a);
	nm_close(b);
}

static void *
syncs_later(void *arg)
{
	struct nm_desc *a = arg;

	usleep(100000);
	queue_frames(a, 1);
	CHECK(ioctl(a->fd, NIOCTXSYNC, NULL) == 0);
	return NULL;
}

/*
 * Tests both kinds of poll: of the descriptor alone, and together with another descriptor, which
 * the device answers.
 */
static void
who_sleeps_is_woken_by_a_sync_in_another_thread(void)
{
	struct nm_desc *a = opened("netmap:x{1"), *b = opened("netmap:x}1");
	nfds_t count;

	for (count = 1; count <= 2; count++) {
		struct pollfd p[2] = { { b->fd, POLLIN, 0 }, { -1, POLLIN, 0 } };
		struct nm_pkthdr h;
		pthread_t t;

		CHECK(pthread_create(&t, NULL, syncs_later, a) == 0);
		CHECK(poll(p, count, 120000) == 1 && p[0].revents == POLLIN);
		CHECK(nm_nextpkt(b, &h) && !nm_nextpkt(b, &h));
		CHECK(pthread_join(t, NULL) == 0);
	}
	nm_close(a);
	nm_close(b);
}

/* A parent and its child share the rings, as do two descriptors of one end. */
static void
forks_and_second_openers_share_the_rings(void)
{
	struct nm_desc *a = opened("netmap:x{1"), *b = opened("netmap:x}1"), *again;
	struct nm_pkthdr h;
	int status;

	queue_frames(a, 1);
	CHECK(ioctl(a->fd, NIOCTXSYNC, NULL) == 0);
	if (fork() == 0) {
		CHECK(!is_lent(a));
		queue_frames(a, 2);
		CHECK(ioctl(a->fd, NIOCTXSYNC, NULL) == 0);
		_exit(0);
	}
	CHECK(wait(&status) > 0 && status == 0);
	queue_frames(a, 4);
	CHECK(ioctl(a->fd, NIOCTXSYNC, NULL) == 0);
	again = opened("netmap:x{1");
	CHECK(!is_lent(again));
	queue_frames(again, 8);
	CHECK(ioctl(again->fd, NIOCTXSYNC, NULL) == 0);
	CHECK(wait_for(b->fd, POLLIN) & POLLIN && frames_at(b) == 15);
	while (nm_nextpkt(b, &h))
		;
	CHECK(ioctl(b->fd, NIOCRXSYNC, NULL) == 0);
	nm_close(a);
	queue_frames(again, 3);
	CHECK(ioctl(again->fd, NIOCTXSYNC, NULL) == 0);
	CHECK(wait_for(b->fd, POLLIN) & POLLIN && frames_at(b) == 3);
	nm_close(again);
	nm_close(b);
}

static void
wrong_indices_are_the_devices_to_judge(void)
{
	struct nm_desc *a = opened("netmap:x{1");
	struct netmap_ring *tx = NETMAP_TXRING(a->nifp, 0);

	tx->head = tx->num_slots + 7;
	CHECK(ioctl(a->fd, NIOCTXSYNC, NULL) == 0);
	CHECK(tx->head == 0 && tx->cur == 0 && tx->tail == tx->num_slots - 1);
	tx->cur = tx->num_slots;
	CHECK(wait_for(a->fd, POLLOUT) & POLLERR);
	tx->tail = 3;
	CHECK(ioctl(a->fd, NIOCTXSYNC, NULL) == 0 && tx->tail == tx->num_slots - 1);
	nm_close(a);
}

static void
a_port_that_is_no_pipe_is_the_devices(void)
{
	struct nm_desc *a = opened("vale0:a");

	CHECK(!is_lent(a) && ioctl(a->fd, NIOCTXSYNC, NULL) == 0);
	nm_close(a);
}

#define SCENARIO(name) { #name, name }

static const struct scenario scenarios[] = {
	SCENARIO(header_structures_have_netmaps_layout),
	SCENARIO(nm_open_moves_frames_through_a_pipe),
	SCENARIO(nm_open_takes_the_memory_of_its_parent),
	SCENARIO(nm_open_takes_names_and_numbers_from_its_parent),
	SCENARIO(nm_open_refuses_what_it_does_not_know),
	SCENARIO(nm_parse_knows_every_form),
	SCENARIO(nm_dispatch_says_whether_there_are_more),
	SCENARIO(nm_inject_spreads_a_long_frame_over_slots),
	SCENARIO(nmport_moves_frames_through_a_pipe),
	SCENARIO(nmport_opens_in_steps_and_undoes_each),
	SCENARIO(nmport_ports_of_one_memory_share_a_mapping),
	SCENARIO(mappings_are_not_shared_between_users),
	SCENARIO(nmport_clone_asks_for_the_same),
	SCENARIO(nmport_share_asks_the_device),
	SCENARIO(empty_memory_numbers_and_trailing_text_are_refused),
	SCENARIO(nmport_says_which_option_was_refused),
	SCENARIO(nmport_failed_parse_leaves_nothing),
	SCENARIO(nmport_brings_memory_from_a_file),
	SCENARIO(nmport_brings_memory_of_its_own),
	SCENARIO(nmreq_options_are_a_list),
	SCENARIO(nmreq_options_decode_by_tables),
	SCENARIO(contexts_give_memory_and_take_messages),
	SCENARIO(threads_open_and_close_at_once),
	SCENARIO(a_pipe_is_synced_in_the_program_without_the_device),
	SCENARIO(who_sleeps_is_woken_by_a_sync_in_another_thread),
	SCENARIO(forks_and_second_openers_share_the_rings),
	SCENARIO(wrong_indices_are_the_devices_to_judge),
	SCENARIO(a_port_that_is_no_pipe_is_the_devices),
	{ NULL, NULL },
};

int
main(int argc, char **argv)
{
	return run_scenario(scenarios, argc, argv);
}
