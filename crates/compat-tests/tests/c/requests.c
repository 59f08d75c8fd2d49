/* Tests of every request and every error of NIOCCTRL, NIOCREGIF and NIOCGINFO. */
#include "client.h"

#define ALL { .nr_mode = NR_REG_ALL_NIC }

/* ---- rules for all requests ---- */

static void
version_outside_14_and_15_is_einval(void)
{
	int versions[] = { 0, 13, 16, 65535 }, i;

	for (i = 0; i < 4; i++) {
		struct nmreq_register reg = ALL;
		struct nmreq_header h = header("x{1", NETMAP_REQ_REGISTER, &reg);
		h.nr_version = (uint16_t)versions[i];
		CHECK(call(device(), NIOCCTRL, &h) == EINVAL);
	}
	for (i = NETMAP_MIN_API; i <= NETMAP_MAX_API; i++) {
		struct nmreq_register reg = ALL;
		struct nmreq_header h = header("x{1", NETMAP_REQ_REGISTER, &reg);
		h.nr_version = (uint16_t)i;
		CHECK(call(device(), NIOCCTRL, &h) == 0);
	}
}

static void
reserved_word_that_is_not_zero_is_einval(void)
{
	struct nmreq_register reg = ALL;
	struct nmreq_header h = header("x{1", NETMAP_REQ_REGISTER, &reg);

	h.nr_reserved = 1;
	CHECK(call(device(), NIOCCTRL, &h) == EINVAL);
}

static void
unknown_request_is_einval(void)
{
	int types[] = { 0, 16, 255, 65535 }, i;
	char body[256] = { 0 };

	for (i = 0; i < 4; i++)
		CHECK(ask(device(), "x{1", types[i], body) == EINVAL);
}

static int
has_no_body(int type)
{
	return type == NETMAP_REQ_VALE_DELIF || type == NETMAP_REQ_SYNC_KLOOP_STOP ||
	    type == NETMAP_REQ_CSB_ENABLE;
}

static void
missing_body_is_einval(void)
{
	int type;

	for (type = NETMAP_REQ_REGISTER; type <= NETMAP_REQ_CSB_ENABLE; type++)
		CHECK(has_no_body(type) || ask(device(), "x{1", type, NULL) == EINVAL);
}

static void
body_where_none_belongs_is_einval(void)
{
	char body[64] = { 0 };
	int type;

	for (type = NETMAP_REQ_REGISTER; type <= NETMAP_REQ_CSB_ENABLE; type++)
		CHECK(!has_no_body(type) || ask(device(), "x{1", type, body) == EINVAL);
}

static void
bad_pointer_to_the_header_is_efault(void)
{
	CHECK(call(device(), NIOCCTRL, (void *)8) == EFAULT);
	CHECK(call(device(), NIOCREGIF, (void *)8) == EFAULT);
	CHECK(call(device(), NIOCGINFO, NULL) == EFAULT);
}

static void
bad_pointer_to_the_body_is_efault(void)
{
	char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = device();

	CHECK(ask(fd, "x{1", NETMAP_REQ_REGISTER, (void *)8) == EFAULT);
	/* Only the first half of the request is mapped. */
	munmap(pages + 4096, 4096);
	CHECK(ask(fd, "x{1", NETMAP_REQ_REGISTER, pages + 4096 - 16) == EFAULT);
	CHECK(call(fd, NIOCTXSYNC, NULL) == ENXIO);
}

/* Performs a REGISTER of x{1 with options; returns its errno. */
static int
register_with(struct nmreq_option *options, struct nmreq_register *reg)
{
	struct nmreq_header h = header("x{1", NETMAP_REQ_REGISTER, reg);

	reg->nr_mode = NR_REG_ALL_NIC;
	h.nr_options = (uintptr_t)options;
	return call(device(), NIOCCTRL, &h);
}

static void
bad_pointer_to_an_option_is_efault(void)
{
	struct nmreq_option o = { .nro_reqtype = 99, .nro_next = 8 };
	struct nmreq_register reg = ALL;

	CHECK(register_with((void *)8, &reg) == EFAULT);
	CHECK(register_with(&o, &reg) == EFAULT);
}

static void
body_and_options_over_a_page_are_emsgsize(void)
{
	static struct nmreq_option many[200];
	struct nmreq_register reg = ALL;
	int i;

	for (i = 0; i < 200; i++)
		many[i] = (struct nmreq_option){ (uintptr_t)&many[i + 1], (uint32_t)(100 + i), 0, 0 };
	many[199].nro_next = 0;
	CHECK(register_with(many, &reg) == EMSGSIZE);
}

static void
options_in_a_circle_are_emsgsize(void)
{
	struct nmreq_option a = { .nro_reqtype = 99 }, b = { .nro_reqtype = 98 };
	struct nmreq_register reg = ALL;

	a.nro_next = (uintptr_t)&b;
	b.nro_next = (uintptr_t)&a;
	CHECK(register_with(&a, &reg) == EMSGSIZE);
}

static void
option_given_twice_is_einval_in_both(void)
{
	struct nmreq_opt_offsets a = { .nro_opt.nro_reqtype = NETMAP_REQ_OPT_OFFSETS }, b = a;
	struct nmreq_register reg = ALL;

	a.nro_opt.nro_next = (uintptr_t)&b;
	CHECK(register_with(&a.nro_opt, &reg) == EINVAL);
	CHECK(a.nro_opt.nro_status == EINVAL && b.nro_opt.nro_status == EINVAL);
}

static void
unknown_option_given_twice_is_eopnotsupp_in_both(void)
{
	struct nmreq_option a = { .nro_reqtype = NETMAP_REQ_OPT_MAX + 10 }, b = a;
	struct nmreq_register reg = ALL;

	a.nro_next = (uintptr_t)&b;
	CHECK(register_with(&a, &reg) == EOPNOTSUPP);
	CHECK(a.nro_status == EOPNOTSUPP && b.nro_status == EOPNOTSUPP);
}

static void
option_of_type_zero_is_einval(void)
{
	struct nmreq_option o = { 0 };
	struct nmreq_register reg = ALL;

	CHECK(register_with(&o, &reg) == EINVAL && o.nro_status == EINVAL);
}

static void
unknown_option_is_eopnotsupp_in_its_status(void)
{
	struct nmreq_option o = { .nro_reqtype = NETMAP_REQ_OPT_MAX + 10 };
	struct nmreq_register reg = ALL;

	CHECK(register_with(&o, &reg) == EOPNOTSUPP && o.nro_status == EOPNOTSUPP);
}

static void
option_that_a_request_does_not_use_is_eopnotsupp(void)
{
	struct nmreq_opt_csb csb = { .nro_opt.nro_reqtype = NETMAP_REQ_OPT_CSB };
	struct nmreq_port_info_get info = { 0 };
	struct nmreq_header h = header("x{1", NETMAP_REQ_PORT_INFO_GET, &info);

	h.nr_options = (uintptr_t)&csb;
	CHECK(call(device(), NIOCCTRL, &h) == EOPNOTSUPP && csb.nro_opt.nro_status == EOPNOTSUPP);
}

static void
failed_request_leaves_its_body(void)
{
	struct nmreq_option o = { .nro_reqtype = 99, .nro_status = 7 };
	struct nmreq_register reg = { .nr_offset = 1, .nr_memsize = 2, .nr_tx_slots = 64 };

	CHECK(register_with(&o, &reg) == EOPNOTSUPP && o.nro_status == EOPNOTSUPP);
	CHECK(reg.nr_offset == 1 && reg.nr_memsize == 2 && reg.nr_tx_slots == 64 && !reg.nr_rx_slots);
}

static void
name_without_an_end_is_cut(void)
{
	struct nmreq_register reg = ALL;
	struct nmreq_header h = header("", NETMAP_REQ_REGISTER, &reg);
	struct nmreq_port_info_get info = { 0 };
	char cut[64] = { 0 };

	memset(h.nr_name, 'x', sizeof(h.nr_name));
	h.nr_name[1] = '{';
	CHECK(call(device(), NIOCCTRL, &h) == 0);
	memcpy(cut, h.nr_name, 63);
	CHECK(ask(device(), cut, NETMAP_REQ_PORT_INFO_GET, &info) == 0);
}

static void
other_ioctls_are_eopnotsupp(void)
{
	struct nm_ifreq config = { .nifr_name = "x" };

	CHECK(call(device(), _IO('i', 147), NULL) == EOPNOTSUPP);
	CHECK(call(device(), 0x5401, NULL) == EOPNOTSUPP);
	CHECK(call(device(), NIOCCONFIG, &config) != 0);
}

/* ---- REGISTER ---- */

static void
register_tells_what_was_bound(void)
{
	struct port p = bound("x{1");

	CHECK(p.reg.nr_tx_slots == 1024 && p.reg.nr_rx_slots == 1024);
	CHECK(p.reg.nr_tx_rings == 1 && p.reg.nr_rx_rings == 1);
	CHECK(p.reg.nr_host_tx_rings == 1 && p.reg.nr_host_rx_rings == 1);
	CHECK(p.reg.nr_mem_id == 1 && p.reg.nr_memsize > p.reg.nr_offset);
	CHECK(p.nif->ni_tx_rings == 1 && p.nif->ni_rx_rings == 1 && p.nif->ni_version == NETMAP_API);
}

static void
register_gives_slots_and_rings_that_were_wished(void)
{
	struct port p = bound_with("x{1", (struct nmreq_register){ .nr_mode = NR_REG_ALL_NIC,
	    .nr_tx_slots = 64, .nr_rx_slots = 128, .nr_tx_rings = 3, .nr_rx_rings = 2 });

	CHECK(p.reg.nr_tx_rings == 3 && p.reg.nr_rx_rings == 2);
	CHECK(tx(&p)->num_slots == 64 && rx(&p)->num_slots == 128);
	/* The other end has the numbers of this end, with tx and rx exchanged. */
	p = bound("x}1");
	CHECK(p.reg.nr_tx_rings == 2 && p.reg.nr_rx_rings == 3 && tx(&p)->num_slots == 128);
}

static void
bound_rings_are_as_netmap_leaves_them(void)
{
	/* A switch port, not a pipe: in a pipe, the buffers of rx slots belong to the other end. */
	struct port p = bound("vale0:a");
	struct netmap_ring *t = tx(&p), *r = rx(&p);
	uint32_t i;

	CHECK(t->head == 0 && t->cur == 0 && t->tail == t->num_slots - 1);
	CHECK(r->head == 0 && r->cur == 0 && r->tail == 0);
	CHECK(t->dir == 0 && r->dir == 1 && t->ringid == 0 && t->nr_buf_size == 2112);
	for (i = 0; i < t->num_slots; i++) {
		CHECK(t->slot[i].buf_idx >= 2 && t->slot[i].len == 2112 && t->slot[i].flags == 0);
		CHECK(r->slot[i].buf_idx >= 2 && r->slot[i].len == 2112);
	}
	/* Host rings that are not bound have the offset 0. */
	CHECK(p.nif->ring_ofs[0] && !p.nif->ring_ofs[1] && p.nif->ring_ofs[2] && !p.nif->ring_ofs[3]);
}

static void
register_on_a_bound_open_is_ebusy(void)
{
	struct port p = bound("x{1");
	struct nmreq_register reg = ALL;

	CHECK(ask(p.fd, "x{1", NETMAP_REQ_REGISTER, &reg) == EBUSY);
	CHECK(ask(p.fd, "y{1", NETMAP_REQ_REGISTER, &reg) == EBUSY);
}

static void
exclusive_binds_conflict_either_way(void)
{
	struct nmreq_register shared = ALL, alone = { .nr_mode = NR_REG_ALL_NIC, .nr_flags = NR_EXCLUSIVE };
	struct port p = bound("x{1");

	CHECK(try_register("x{1", alone) == EBUSY && try_register("x{1", shared) == 0);
	close(p.fd);
	p = bound_with("x{1", alone);
	CHECK(try_register("x{1", shared) == EBUSY && try_register("x{1", alone) == EBUSY);
	/* The other end is a separate port. */
	CHECK(try_register("x}1", alone) == 0);
}

static void
exclusive_binds_of_different_rings_agree(void)
{
	struct nmreq_register first = { .nr_mode = NR_REG_ONE_NIC, .nr_flags = NR_EXCLUSIVE,
	    .nr_tx_rings = 2, .nr_rx_rings = 2 }, second = first;
	struct port p = bound_with("x{1", first);

	second.nr_ringid = 1;
	CHECK(p.fd >= 0 && try_register("x{1", second) == 0 && try_register("x{1", first) == EBUSY);
}

static void
register_in_an_unknown_memory_is_einval(void)
{
	CHECK(try_register("x{1", (struct nmreq_register){ .nr_mode = NR_REG_ALL_NIC, .nr_mem_id = 77 }) ==
	    EINVAL);
}

static void
register_in_a_mode_that_is_none_is_einval(void)
{
	uint32_t modes[] = { NR_REG_DEFAULT, NR_REG_PIPE_MASTER, NR_REG_PIPE_SLAVE, 9, 15, 16, 1000 };
	size_t i;

	for (i = 0; i < sizeof(modes) / sizeof(*modes); i++)
		CHECK(try_register("x{1", (struct nmreq_register){ .nr_mode = modes[i] }) == EINVAL);
}

static void
ring_beyond_both_directions_is_einval(void)
{
	struct nmreq_register reg = { .nr_mode = NR_REG_ONE_NIC, .nr_tx_rings = 2, .nr_rx_rings = 1 };
	struct port p;

	reg.nr_ringid = 2;
	CHECK(try_register("x{1", reg) == EINVAL);
	/* If the direction has fewer rings, ring 0 is bound. */
	reg.nr_ringid = 1;
	p = bound_with("x{1", reg);
	CHECK(!p.nif->ring_ofs[0] && p.nif->ring_ofs[1]);
	CHECK(p.nif->ring_ofs[p.nif->ni_tx_rings + p.nif->ni_host_tx_rings]);
}

static void
one_direction_shows_no_ring_of_the_other(void)
{
	struct port p = bound_with("x{1",
	    (struct nmreq_register){ .nr_mode = NR_REG_ALL_NIC, .nr_flags = NR_TX_RINGS_ONLY });

	CHECK(p.nif->ring_ofs[0] && !p.nif->ring_ofs[2]);
	p = bound_with("x{1",
	    (struct nmreq_register){ .nr_mode = NR_REG_ALL_NIC, .nr_flags = NR_RX_RINGS_ONLY });
	CHECK(!p.nif->ring_ofs[0] && p.nif->ring_ofs[2]);
}

static void
pipe_in_another_mode_than_all_or_one_is_einval(void)
{
	uint32_t modes[] = { NR_REG_SW, NR_REG_NIC_SW, NR_REG_ONE_SW };
	int i;

	for (i = 0; i < 3; i++)
		CHECK(try_register("x{1", (struct nmreq_register){ .nr_mode = modes[i] }) == EINVAL);
}

static void
host_rings_of_a_port_without_them_are_einval(void)
{
	CHECK(try_register("vale0:a", (struct nmreq_register){ .nr_mode = NR_REG_SW }) == EINVAL);
	CHECK(try_register("vale0:a", (struct nmreq_register){ .nr_mode = NR_REG_ONE_SW }) == EINVAL);
}

static void
null_port_needs_a_memory(void)
{
	struct nmreq_register null = { .nr_mode = NR_REG_NULL };
	struct port p;

	CHECK(try_register("", null) == EINVAL);
	null.nr_mem_id = 1;
	null.nr_extra_bufs = 3;
	p = bound_with("", null);
	CHECK(p.reg.nr_tx_rings == 0 && p.reg.nr_rx_rings == 0 && p.nif->ni_bufs_head >= 2);
}

static void
no_such_port_is_enxio(void)
{
	CHECK(try_register("nothing", (struct nmreq_register)ALL) == ENXIO);
	CHECK(try_register("", (struct nmreq_register)ALL) == ENXIO);
	CHECK(try_register("\xff\xfe", (struct nmreq_register)ALL) == ENXIO);
}

static uint32_t
extra_buffers(struct port *p)
{
	struct netmap_ring *r = tx(p);
	uint32_t i = p->nif->ni_bufs_head, n = 0;

	for (; i != 0; n++)
		i = *(uint32_t *)((char *)r + r->buf_ofs + (size_t)i * r->nr_buf_size);
	return n;
}

static void
extra_buffers_are_a_list_and_may_be_fewer(void)
{
	struct port p = bound_with("x{1",
	    (struct nmreq_register){ .nr_mode = NR_REG_ALL_NIC, .nr_extra_bufs = 100 });

	CHECK(p.reg.nr_extra_bufs == 100 && extra_buffers(&p) == 100);
	close(p.fd);
	p = bound_with("x{1",
	    (struct nmreq_register){ .nr_mode = NR_REG_ALL_NIC, .nr_extra_bufs = 1000000 });
	CHECK(p.reg.nr_extra_bufs < 1000000 && extra_buffers(&p) == p.reg.nr_extra_bufs);
}

static void
extra_buffers_go_back_at_close(void)
{
	struct nmreq_register many = { .nr_mode = NR_REG_ALL_NIC, .nr_extra_bufs = 20000 };
	int i;

	/* These would be more buffers than exist if a closed port did not free its buffers. */
	for (i = 0; i < 10; i++) {
		struct port p = bound_with("x{1", many);
		CHECK(p.reg.nr_extra_bufs == 20000);
		munmap(p.mem, p.reg.nr_memsize);
		close(p.fd);
	}
}

static void
port_with_a_virtio_header_needs_consent(void)
{
	struct port p = bound_with("vale0:a",
	    (struct nmreq_register){ .nr_mode = NR_REG_ALL_NIC, .nr_flags = NR_ACCEPT_VNET_HDR });
	struct nmreq_port_hdr h = { .nr_hdr_len = 12 };

	CHECK(ask(p.fd, "vale0:a", NETMAP_REQ_PORT_HDR_SET, &h) == 0);
	CHECK(try_register("vale0:a", (struct nmreq_register)ALL) == EIO);
	CHECK(try_register("vale0:a", (struct nmreq_register){ .nr_mode = NR_REG_ALL_NIC,
	    .nr_flags = NR_ACCEPT_VNET_HDR }) == 0);
}

/* ---- figures ---- */

static void
port_info_is_had_without_binding(void)
{
	struct nmreq_port_info_get info = { .nr_tx_slots = 256 };
	int fd = device();

	CHECK(ask(fd, "x{1", NETMAP_REQ_PORT_INFO_GET, &info) == 0);
	CHECK(info.nr_tx_slots == 256 && info.nr_rx_slots == 1024 && info.nr_tx_rings == 1);
	CHECK(info.nr_mem_id == 1 && info.nr_memsize > 0 && info.nr_host_rx_rings == 1);
	CHECK(call(fd, NIOCTXSYNC, NULL) == ENXIO);
}

static void
port_info_without_a_name_is_of_a_memory(void)
{
	struct nmreq_port_info_get info = { 0 }, other = { .nr_mem_id = 99 };

	CHECK(ask(device(), "", NETMAP_REQ_PORT_INFO_GET, &info) == 0);
	CHECK(info.nr_mem_id == 1 && info.nr_memsize >= 163840ul * 2112);
	CHECK(ask(device(), "", NETMAP_REQ_PORT_INFO_GET, &other) != 0);
}

static void
port_info_of_nothing_is_enxio(void)
{
	struct nmreq_port_info_get info = { 0 };

	CHECK(ask(device(), "nothing", NETMAP_REQ_PORT_INFO_GET, &info) == ENXIO);
}

static void
pools_are_told_of_a_port(void)
{
	struct nmreq_pools_info pools = { 0 };

	CHECK(ask(device(), "x{1", NETMAP_REQ_POOLS_INFO_GET, &pools) == 0);
	CHECK(pools.nr_mem_id == 1 && pools.nr_buf_pool_objsize == 2112);
	CHECK(pools.nr_buf_pool_objtotal == 163840 && pools.nr_ring_pool_objtotal == 200);
	CHECK(pools.nr_if_pool_objtotal == 100 && pools.nr_buf_pool_offset > pools.nr_ring_pool_offset);
}

static void
pools_of_nothing_are_enxio(void)
{
	struct nmreq_pools_info pools = { 0 };

	CHECK(ask(device(), "", NETMAP_REQ_POOLS_INFO_GET, &pools) == ENXIO);
	CHECK(ask(device(), "nothing", NETMAP_REQ_POOLS_INFO_GET, &pools) == ENXIO);
}

/* ---- sync loops ---- */

static void
sync_loop_needs_control_blocks(void)
{
	struct nmreq_sync_kloop_start start = { 0 };
	struct port p = bound("x{1");

	CHECK(ask(device(), "", NETMAP_REQ_SYNC_KLOOP_START, &start) == ENXIO);
	CHECK(ask(p.fd, "", NETMAP_REQ_SYNC_KLOOP_START, &start) == EINVAL);
	CHECK(ask(p.fd, "", NETMAP_REQ_CSB_ENABLE, NULL) == EINVAL);
}

/* ---- legacy requests ---- */

static struct nmreq
old(const char *name)
{
	struct nmreq r = { .nr_version = NETMAP_API };

	memcpy(r.nr_name, name, strlen(name));
	return r;
}

static void
old_version_below_14_is_einval(void)
{
	struct nmreq r = old("x{1");

	r.nr_version = 13;
	CHECK(call(device(), NIOCREGIF, &r) == EINVAL);
	CHECK(call(device(), NIOCGINFO, &r) == EINVAL);
}

static void
old_version_of_the_future_passes(void)
{
	struct nmreq r = old("x{1");

	r.nr_version = 16;
	CHECK(call(device(), NIOCREGIF, &r) == 0);
}

static void
old_request_is_answered_in_its_fields(void)
{
	struct nmreq r = old("x{1");

	r.nr_arg3 = 7;
	r.nr_tx_slots = 64;
	CHECK(call(device(), NIOCREGIF, &r) == 0);
	CHECK(r.nr_memsize > r.nr_offset && r.nr_tx_slots == 64 && r.nr_rx_slots == 1024);
	CHECK(r.nr_tx_rings == 1 && r.nr_rx_rings == 1 && r.nr_arg2 == 1 && r.nr_arg3 == 7);
}

static void
old_ring_bits_say_the_mode(void)
{
	struct nmreq r = old("x{1");
	struct port p = { .fd = device() };

	r.nr_tx_rings = r.nr_rx_rings = 2;
	r.nr_ringid = NETMAP_HW_RING | 1;
	CHECK(call(p.fd, NIOCREGIF, &r) == 0);
	p.reg.nr_memsize = r.nr_memsize;
	p.reg.nr_offset = r.nr_offset;
	map(&p);
	CHECK(!p.nif->ring_ofs[0] && p.nif->ring_ofs[1]);
	r = old("x{1");
	r.nr_ringid = NETMAP_SW_RING;
	CHECK(call(device(), NIOCREGIF, &r) == EINVAL);
}

static void
old_pipe_modes_become_names(void)
{
	struct nmreq r = old("x");
	struct port b;

	r.nr_flags = NR_REG_PIPE_MASTER;
	r.nr_ringid = 7;
	r.nr_tx_slots = 64;
	CHECK(call(device(), NIOCREGIF, &r) == 0);
	b = bound("x}7");
	CHECK(rx(&b)->num_slots == 64);
}

static void
old_bind_of_a_bound_open_is_ebusy(void)
{
	struct nmreq r = old("x{1");
	int fd = device();

	CHECK(call(fd, NIOCREGIF, &r) == 0 && call(fd, NIOCREGIF, &r) == EBUSY);
}

static void
old_command_on_a_bound_open_is_legal(void)
{
	struct nmreq r = old("vale0:a");
	int fd = device();

	CHECK(call(fd, NIOCREGIF, &r) == 0);
	r.nr_cmd = NETMAP_BDG_VNET_HDR;
	r.nr_arg1 = 12;
	CHECK(call(fd, NIOCREGIF, &r) == 0);
	r.nr_cmd = NETMAP_VNET_HDR_GET;
	r.nr_arg1 = 0;
	CHECK(call(fd, NIOCREGIF, &r) == 0 && r.nr_arg1 == 12);
}

static void
old_figures_without_a_name_succeed(void)
{
	struct nmreq r = old("");

	CHECK(call(device(), NIOCGINFO, &r) == 0 && r.nr_arg2 == 1 && r.nr_memsize > 0);
}

static void
old_figures_of_a_port(void)
{
	struct nmreq r = old("x{1");

	CHECK(call(device(), NIOCGINFO, &r) == 0 && r.nr_tx_slots == 1024 && r.nr_rx_rings == 1);
	r = old("nothing");
	CHECK(call(device(), NIOCGINFO, &r) == ENXIO);
}

static void
old_list_names_ports_of_switches(void)
{
	struct port p = bound("vale0:a");
	struct nmreq r = old("");

	r.nr_cmd = NETMAP_BDG_LIST;
	CHECK(p.fd >= 0 && call(device(), NIOCGINFO, &r) == 0 && strcmp(r.nr_name, "vale0:a") == 0);
	r = old("");
	r.nr_cmd = NETMAP_BDG_LIST;
	r.nr_arg1 = 5000;
	CHECK(call(device(), NIOCGINFO, &r) == ENOENT);
}

#define SCENARIO(name) { #name, name }

static const struct scenario scenarios[] = {
	SCENARIO(version_outside_14_and_15_is_einval),
	SCENARIO(reserved_word_that_is_not_zero_is_einval),
	SCENARIO(unknown_request_is_einval),
	SCENARIO(missing_body_is_einval),
	SCENARIO(body_where_none_belongs_is_einval),
	SCENARIO(bad_pointer_to_the_header_is_efault),
	SCENARIO(bad_pointer_to_the_body_is_efault),
	SCENARIO(bad_pointer_to_an_option_is_efault),
	SCENARIO(body_and_options_over_a_page_are_emsgsize),
	SCENARIO(options_in_a_circle_are_emsgsize),
	SCENARIO(option_given_twice_is_einval_in_both),
	SCENARIO(unknown_option_given_twice_is_eopnotsupp_in_both),
	SCENARIO(option_of_type_zero_is_einval),
	SCENARIO(unknown_option_is_eopnotsupp_in_its_status),
	SCENARIO(option_that_a_request_does_not_use_is_eopnotsupp),
	SCENARIO(failed_request_leaves_its_body),
	SCENARIO(name_without_an_end_is_cut),
	SCENARIO(other_ioctls_are_eopnotsupp),
	SCENARIO(register_tells_what_was_bound),
	SCENARIO(register_gives_slots_and_rings_that_were_wished),
	SCENARIO(bound_rings_are_as_netmap_leaves_them),
	SCENARIO(register_on_a_bound_open_is_ebusy),
	SCENARIO(exclusive_binds_conflict_either_way),
	SCENARIO(exclusive_binds_of_different_rings_agree),
	SCENARIO(register_in_an_unknown_memory_is_einval),
	SCENARIO(register_in_a_mode_that_is_none_is_einval),
	SCENARIO(ring_beyond_both_directions_is_einval),
	SCENARIO(one_direction_shows_no_ring_of_the_other),
	SCENARIO(pipe_in_another_mode_than_all_or_one_is_einval),
	SCENARIO(host_rings_of_a_port_without_them_are_einval),
	SCENARIO(null_port_needs_a_memory),
	SCENARIO(no_such_port_is_enxio),
	SCENARIO(extra_buffers_are_a_list_and_may_be_fewer),
	SCENARIO(extra_buffers_go_back_at_close),
	SCENARIO(port_with_a_virtio_header_needs_consent),
	SCENARIO(port_info_is_had_without_binding),
	SCENARIO(port_info_without_a_name_is_of_a_memory),
	SCENARIO(port_info_of_nothing_is_enxio),
	SCENARIO(pools_are_told_of_a_port),
	SCENARIO(pools_of_nothing_are_enxio),
	SCENARIO(sync_loop_needs_control_blocks),
	SCENARIO(old_version_below_14_is_einval),
	SCENARIO(old_version_of_the_future_passes),
	SCENARIO(old_request_is_answered_in_its_fields),
	SCENARIO(old_ring_bits_say_the_mode),
	SCENARIO(old_pipe_modes_become_names),
	SCENARIO(old_bind_of_a_bound_open_is_ebusy),
	SCENARIO(old_command_on_a_bound_open_is_legal),
	SCENARIO(old_figures_without_a_name_succeed),
	SCENARIO(old_figures_of_a_port),
	SCENARIO(old_list_names_ports_of_switches),
	{ NULL, NULL },
};

int
main(int argc, char **argv)
{
	return run_scenario(scenarios, argc, argv);
}
