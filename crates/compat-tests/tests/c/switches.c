/*
 * Tests of every request and every error about switches and interfaces. The tests' shell has
 * created the cable left-right.
 */
#include "client.h"

#define ALL { .nr_mode = NR_REG_ALL_NIC }

static int
attach(const char *name, struct nmreq_vale_attach *a)
{
	memset(a, 0, sizeof(*a));
	a->reg.nr_mode = NR_REG_ALL_NIC;
	return ask(device(), name, NETMAP_REQ_VALE_ATTACH, a);
}

static int
detach(const char *name)
{
	struct nmreq_vale_detach d = { 0 };

	return ask(device(), name, NETMAP_REQ_VALE_DETACH, &d);
}

static int
make(const char *name)
{
	struct nmreq_vale_newif n = { 0 };

	return ask(device(), name, NETMAP_REQ_VALE_NEWIF, &n);
}

static int
unmake(const char *name)
{
	return ask(device(), name, NETMAP_REQ_VALE_DELIF, NULL);
}

/* ---- attach and detach ---- */

static void
attach_and_detach_tell_the_index(void)
{
	struct port first = bound("vale0:first");
	struct nmreq_vale_attach a;
	struct nmreq_vale_detach d = { .port_index = 99 };

	CHECK(first.fd >= 0 && attach("vale0:left", &a) == 0 && a.port_index == 1);
	CHECK(ask(device(), "vale0:left", NETMAP_REQ_VALE_DETACH, &d) == 0 && d.port_index == 1);
}

static void
attached_interface_forwards(void)
{
	struct port switched = bound("vale0:a"), cable;
	struct nmreq_vale_attach a;

	CHECK(attach("vale0:left", &a) == 0);
	cable = bound("right");
	put(tx(&switched), 1, 42, 60, 0);
	CHECK(call(switched.fd, NIOCTXSYNC, NULL) == 0);
	CHECK(polled(cable.fd, POLLIN, 120000) & POLLIN);
	CHECK(take(rx(&cable)) == 42);
	put(tx(&cable), 2, 43, 60, 0);
	CHECK(call(cable.fd, NIOCTXSYNC, NULL) == 0);
	CHECK(polled(switched.fd, POLLIN, 120000) & POLLIN);
	CHECK(take(rx(&switched)) == 43);
}

static void
attach_of_what_is_attached_is_ebusy(void)
{
	struct nmreq_vale_attach a;

	CHECK(attach("vale0:left", &a) == 0 && attach("vale0:left", &a) == EBUSY);
	CHECK(attach("vale1:left", &a) == EBUSY);
}

static void
attach_of_what_is_in_use_is_ebusy(void)
{
	struct port p = bound("left");
	struct nmreq_vale_attach a;

	CHECK(p.fd >= 0 && attach("vale0:left", &a) == EBUSY);
}

static void
attach_without_a_switch_is_einval(void)
{
	struct nmreq_vale_attach a;

	CHECK(attach("left", &a) == EINVAL && attach("netmap:left", &a) == EINVAL);
}

static void
attach_of_nothing_is_einval(void)
{
	struct nmreq_vale_attach a;

	CHECK(attach("vale0:nothing", &a) == EINVAL);
}

static void
register_of_what_is_attached_is_ebusy(void)
{
	struct nmreq_vale_attach a;

	CHECK(attach("vale0:left", &a) == 0);
	CHECK(try_register("left", (struct nmreq_register)ALL) == EBUSY);
	CHECK(detach("vale0:left") == 0);
	CHECK(try_register("left", (struct nmreq_register)ALL) == 0);
}

static void
detach_of_nothing_is_enxio(void)
{
	CHECK(detach("vale0:left") == ENXIO && detach("vale0:nothing") == ENXIO);
}

static void
detach_of_a_port_that_lives_by_its_openers_is_einval(void)
{
	struct port p = bound("vale0:a");

	CHECK(p.fd >= 0 && detach("vale0:a") == EINVAL);
}

/* ---- list ---- */

static void
list_goes_through_all_ports(void)
{
	struct port a = bound("vale0:a"), b = bound("vale0:b"), c = bound("valeX:c");
	struct nmreq_vale_list l = { 0 };
	struct nmreq_header h = header("", NETMAP_REQ_VALE_LIST, &l);
	char seen[200] = "";
	int error;

	CHECK(a.fd >= 0 && b.fd >= 0 && c.fd >= 0);
	while ((error = call(device(), NIOCCTRL, &h)) == 0) {
		strcat(strcat(seen, h.nr_name), " ");
		memset(h.nr_name, 0, sizeof(h.nr_name));
		l.nr_port_idx++;
	}
	CHECK(error == ENOENT && strcmp(seen, "vale0:a vale0:b valeX:c ") == 0);
}

static void
list_of_a_name_tells_where_it_is(void)
{
	struct port a = bound("vale0:a"), b = bound("vale0:b");
	struct nmreq_vale_list l = { 0 };

	CHECK(a.fd >= 0 && b.fd >= 0 && ask(device(), "vale0:b", NETMAP_REQ_VALE_LIST, &l) == 0);
	CHECK(l.nr_port_idx == 1);
	CHECK(ask(device(), "vale0:nothing", NETMAP_REQ_VALE_LIST, &l) == 0 && l.nr_port_idx == 255);
}

static void
list_of_no_switch_is_einval_and_of_an_unknown_one_enoent(void)
{
	struct nmreq_vale_list l = { 0 };

	CHECK(ask(device(), "left", NETMAP_REQ_VALE_LIST, &l) == EINVAL);
	CHECK(ask(device(), "vale7:a", NETMAP_REQ_VALE_LIST, &l) == ENOENT);
}

/* ---- virtio headers ---- */

static void
header_of_a_switch_port_can_be_0_10_or_12(void)
{
	struct port p = bound("vale0:a");
	int len;

	CHECK(p.fd >= 0);
	for (len = 0; len < 20; len++) {
		struct nmreq_port_hdr h = { .nr_hdr_len = (uint32_t)len }, got = { 0 };
		int good = len == 0 || len == 10 || len == 12;

		CHECK(ask(p.fd, "vale0:a", NETMAP_REQ_PORT_HDR_SET, &h) == (good ? 0 : EINVAL));
		CHECK(ask(p.fd, "vale0:a", NETMAP_REQ_PORT_HDR_GET, &got) == 0);
		CHECK(!good || got.nr_hdr_len == (uint32_t)len);
	}
}

static void
header_of_another_port_is_einval_and_of_nothing_enxio(void)
{
	struct nmreq_port_hdr h = { .nr_hdr_len = 12 };

	CHECK(ask(device(), "left", NETMAP_REQ_PORT_HDR_SET, &h) == EINVAL);
	CHECK(ask(device(), "x{1", NETMAP_REQ_PORT_HDR_SET, &h) == ENXIO);
	bound("x{1");
	CHECK(ask(device(), "x{1", NETMAP_REQ_PORT_HDR_SET, &h) == EINVAL);
	CHECK(ask(device(), "vale0:nobody", NETMAP_REQ_PORT_HDR_SET, &h) == ENXIO);
	CHECK(ask(device(), "nothing", NETMAP_REQ_PORT_HDR_GET, &h) == ENXIO);
	CHECK(ask(device(), "left", NETMAP_REQ_PORT_HDR_GET, &h) == 0 && h.nr_hdr_len == 0);
}

/* ---- persistent ports ---- */

static void
persistent_port_stays_until_it_is_removed(void)
{
	struct nmreq_vale_newif n = { .nr_tx_slots = 64, .nr_rx_slots = 128, .nr_tx_rings = 2 };
	struct nmreq_vale_attach a;
	struct port p;

	CHECK(ask(device(), "stays", NETMAP_REQ_VALE_NEWIF, &n) == 0 && n.nr_mem_id != 0);
	p = bound("stays");
	CHECK(p.reg.nr_tx_slots == 64 && p.reg.nr_rx_slots == 128 && p.reg.nr_tx_rings == 2);
	CHECK(p.reg.nr_mem_id == n.nr_mem_id);
	munmap(p.mem, p.reg.nr_memsize);
	close(p.fd);
	CHECK(attach("vale0:stays", &a) == 0 && detach("vale0:stays") == 0 && unmake("stays") == 0);
	CHECK(try_register("stays", (struct nmreq_register)ALL) == ENXIO);
}

static void
name_of_a_persistent_port_that_is_no_name_is_einval(void)
{
	CHECK(make("vale0:a") == EINVAL && make("valeport") == EINVAL);
	CHECK(make("sixteen_letters_") == EINVAL && make("fifteen_letters") == 0);
}

static void
persistent_port_of_a_name_that_is_taken_is_eexist(void)
{
	CHECK(make("stays") == 0 && make("stays") == EEXIST && make("left") == EEXIST);
}

static void
removing_nothing_is_enxio_and_something_else_einval(void)
{
	CHECK(unmake("nothing") == ENXIO && unmake("left") == EINVAL);
}

static void
removing_what_is_in_use_is_ebusy(void)
{
	struct nmreq_vale_attach a;
	struct port p;

	CHECK(make("stays") == 0 && attach("vale0:stays", &a) == 0 && unmake("stays") == EBUSY);
	CHECK(detach("vale0:stays") == 0);
	p = bound("stays");
	CHECK(unmake("stays") == EBUSY);
	munmap(p.mem, p.reg.nr_memsize);
	close(p.fd);
	CHECK(unmake("stays") == 0);
}

/* ---- polling ---- */

static struct nmreq_vale_polling one_cpu = { NETMAP_POLLING_MODE_SINGLE_CPU, 0, 1, 0 };

static int
polling(const char *name, int on)
{
	struct nmreq_vale_polling p = one_cpu;

	return ask(device(), name,
	    on ? NETMAP_REQ_VALE_POLLING_ENABLE : NETMAP_REQ_VALE_POLLING_DISABLE, &p);
}

static void
polling_goes_on_and_off_once(void)
{
	struct nmreq_vale_attach a;

	CHECK(attach("vale0:left", &a) == 0);
	CHECK(polling("vale0:left", 0) == EFAULT);
	CHECK(polling("vale0:left", 1) == 0 && polling("vale0:left", 1) == EFAULT);
	CHECK(detach("vale0:left") == EBUSY);
	CHECK(polling("vale0:left", 0) == 0 && detach("vale0:left") == 0);
}

static void
polling_of_what_cannot_be_polled(void)
{
	struct port p = bound("vale0:a");

	CHECK(p.fd >= 0 && polling("vale0:a", 1) == EOPNOTSUPP && polling("vale0:nothing", 1) == ENXIO);
	CHECK(polling("left", 1) == EINVAL);
}

static void
polling_by_no_or_too_many_processors_is_einval(void)
{
	struct nmreq_vale_polling none = { 1, 0, 0, 0 }, beyond = { 1, 4000, 1, 0 }, mode = { 9, 0, 1, 0 };
	struct nmreq_vale_attach a;

	CHECK(attach("vale0:left", &a) == 0);
	CHECK(ask(device(), "vale0:left", NETMAP_REQ_VALE_POLLING_ENABLE, &none) == EINVAL);
	CHECK(ask(device(), "vale0:left", NETMAP_REQ_VALE_POLLING_ENABLE, &beyond) == EINVAL);
	CHECK(ask(device(), "vale0:left", NETMAP_REQ_VALE_POLLING_ENABLE, &mode) == EINVAL);
}

/* ---- interfaces ---- */

static void
interface_moves_frames(void)
{
	struct port a = bound("left"), b = bound("right");
	int i;

	for (i = 0; i < 20; i++)
		put(tx(&a), 1, (char)i, 60, 0);
	CHECK(call(a.fd, NIOCTXSYNC, NULL) == 0);
	for (i = 0; i < 20; i++) {
		while (!space(rx(&b)))
			CHECK(polled(b.fd, POLLIN, 120000) & POLLIN);
		CHECK(take(rx(&b)) == i);
	}
}

static void
pipe_on_an_interface_is_not_that_interface(void)
{
	struct port a = bound("left{1"), b = bound("left}1");

	put(tx(&a), 1, 5, 60, 0);
	CHECK(call(a.fd, NIOCTXSYNC, NULL) == 0 && call(b.fd, NIOCRXSYNC, NULL) == 0);
	CHECK(take(rx(&b)) == 5);
	CHECK(try_register("left", (struct nmreq_register){ .nr_mode = NR_REG_ALL_NIC,
	    .nr_flags = NR_EXCLUSIVE }) == 0);
}

#define SCENARIO(name) { #name, name }

static const struct scenario scenarios[] = {
	SCENARIO(attach_and_detach_tell_the_index),
	SCENARIO(attached_interface_forwards),
	SCENARIO(attach_of_what_is_attached_is_ebusy),
	SCENARIO(attach_of_what_is_in_use_is_ebusy),
	SCENARIO(attach_without_a_switch_is_einval),
	SCENARIO(attach_of_nothing_is_einval),
	SCENARIO(register_of_what_is_attached_is_ebusy),
	SCENARIO(detach_of_nothing_is_enxio),
	SCENARIO(detach_of_a_port_that_lives_by_its_openers_is_einval),
	SCENARIO(list_goes_through_all_ports),
	SCENARIO(list_of_a_name_tells_where_it_is),
	SCENARIO(list_of_no_switch_is_einval_and_of_an_unknown_one_enoent),
	SCENARIO(header_of_a_switch_port_can_be_0_10_or_12),
	SCENARIO(header_of_another_port_is_einval_and_of_nothing_enxio),
	SCENARIO(persistent_port_stays_until_it_is_removed),
	SCENARIO(name_of_a_persistent_port_that_is_no_name_is_einval),
	SCENARIO(persistent_port_of_a_name_that_is_taken_is_eexist),
	SCENARIO(removing_nothing_is_enxio_and_something_else_einval),
	SCENARIO(removing_what_is_in_use_is_ebusy),
	SCENARIO(polling_goes_on_and_off_once),
	SCENARIO(polling_of_what_cannot_be_polled),
	SCENARIO(polling_by_no_or_too_many_processors_is_einval),
	SCENARIO(interface_moves_frames),
	SCENARIO(pipe_on_an_interface_is_not_that_interface),
	{ NULL, NULL },
};

int
main(int argc, char **argv)
{
	return run_scenario(scenarios, argc, argv);
}
