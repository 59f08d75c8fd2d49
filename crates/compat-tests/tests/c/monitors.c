/*
 * Tests of monitors: which frames they see, and every error that they return. The tests' shell has
 * created the cable left-right.
 */
#include "client.h"

static struct port
monitor(const char *name, uint64_t flags)
{
	return bound_with(name, (struct nmreq_register){ .nr_mode = NR_REG_ALL_NIC, .nr_flags = flags });
}

static int
try_monitor(const char *name, uint64_t flags)
{
	return try_register(name,
	    (struct nmreq_register){ .nr_mode = NR_REG_ALL_NIC, .nr_flags = flags });
}

static void
sync_all(struct port *a, struct port *b)
{
	CHECK(call(a->fd, NIOCTXSYNC, NULL) == 0 && call(b->fd, NIOCRXSYNC, NULL) == 0);
}

static struct netmap_ring *
seen(struct port *m)
{
	CHECK(call(m->fd, NIOCRXSYNC, NULL) == 0);
	return rx(m);
}

static void
send_numbers(struct port *p, int from, int to)
{
	for (; from < to; from++)
		put(tx(p), 1, (char)from, (uint16_t)(60 + from), 0);
}

/* Asserts that the monitor shows exactly these numbers in order, with the right lengths. */
static void
must_show(struct port *m, int from, int to, int flag)
{
	struct netmap_ring *r = seen(m);

	for (; from < to; from++) {
		CHECK(space(r) > 0 && r->slot[r->head].len == 60 + from);
		CHECK((r->slot[r->head].flags & NS_TXMON) == flag);
		CHECK(take(r) == from);
	}
	CHECK(space(r) == 0);
}

static void
monitor_shows_what_is_sent_in_order(void)
{
	struct port a = bound("x{1"), b = bound("x}1"), m = monitor("x{1", NR_MONITOR_TX);
	int i;

	for (i = 0; i < 10; i++) {
		send_numbers(&a, 10 * i, 10 * i + 10);
		sync_all(&a, &b);
		must_show(&m, 10 * i, 10 * i + 10, NS_TXMON);
	}
	/* The port itself has received all frames. */
	for (i = 0; i < 100; i++)
		CHECK(take(rx(&b)) == i);
}

static void
monitor_shows_what_is_received_in_order(void)
{
	struct port a = bound("vale0:a"), b = bound("vale0:b"), m = monitor("vale0:b", NR_MONITOR_RX);
	int i;

	send_numbers(&a, 0, 100);
	sync_all(&a, &b);
	must_show(&m, 0, 100, 0);
	for (i = 0; i < 100; i++)
		CHECK(take(rx(&b)) == i);
	/* The monitor does not show frames that port b sends. */
	send_numbers(&b, 0, 5);
	sync_all(&b, &a);
	must_show(&m, 0, 0, 0);
}

static void
monitor_of_an_interface_shows_both_directions(void)
{
	struct port a = bound("left"), b = bound("right");
	struct port m = monitor("left", NR_MONITOR_TX | NR_MONITOR_RX);

	send_numbers(&a, 0, 5);
	sync_all(&a, &b);
	must_show(&m, 0, 5, NS_TXMON);
	send_numbers(&b, 5, 10);
	CHECK(call(b.fd, NIOCTXSYNC, NULL) == 0);
	while (space(rx(&a)) < 5) {
		CHECK(polled(a.fd, POLLIN, 120000) & POLLIN);
		rx(&a)->cur = rx(&a)->tail;
	}
	must_show(&m, 5, 10, 0);
}

static void
zero_copy_monitor_shares_the_ports_memory(void)
{
	struct port a = bound("x{1"), b = bound("x}1");
	struct port m = monitor("x{1", NR_MONITOR_TX | NR_ZCOPY_MON);
	struct port copy = monitor("x{1", NR_MONITOR_TX);
	int i;

	CHECK(m.reg.nr_mem_id == a.reg.nr_mem_id && copy.reg.nr_mem_id != a.reg.nr_mem_id);
	send_numbers(&a, 0, 20);
	sync_all(&a, &b);
	for (i = 0; i < 20; i++)
		CHECK(take(rx(&b)) == i);
	/* This monitor sees frames only when the reader has released them. */
	CHECK(call(b.fd, NIOCRXSYNC, NULL) == 0 && call(a.fd, NIOCTXSYNC, NULL) == 0);
	must_show(&m, 0, 20, NS_TXMON);
	must_show(&copy, 0, 20, NS_TXMON);
}

static void
monitor_is_woken(void)
{
	struct port a = bound("x{1"), b = bound("x}1"), m = monitor("x{1", NR_MONITOR_TX);

	CHECK(polled(m.fd, POLLIN, 0) == 0);
	send_numbers(&a, 0, 3);
	sync_all(&a, &b);
	CHECK(polled(m.fd, POLLIN, 120000) & POLLIN);
	must_show(&m, 0, 3, NS_TXMON);
}

static void
monitor_of_what_nobody_has_bound_is_einval(void)
{
	CHECK(try_monitor("x{1", NR_MONITOR_RX) == EINVAL && try_monitor("left", NR_MONITOR_TX) == EINVAL);
	CHECK(try_monitor("vale0:a", NR_MONITOR_TX | NR_ZCOPY_MON) == EINVAL);
}

static void
sending_on_a_monitor_is_eio(void)
{
	struct port a = bound("x{1"), m = monitor("x{1", NR_MONITOR_TX);

	CHECK(a.fd >= 0 && call(m.fd, NIOCTXSYNC, NULL) == EIO);
}

static void
monitor_ends_with_its_port(void)
{
	struct port a = bound("x{1"), m = monitor("x{1", NR_MONITOR_TX);
	int i, error = 0;

	munmap(a.mem, a.reg.nr_memsize);
	close(a.fd);
	/* The device notices the last close a moment later. */
	for (i = 0; i < 120000 && error == 0; i++) {
		error = call(m.fd, NIOCRXSYNC, NULL);
		usleep(1000);
	}
	CHECK(error == EIO && (polled(m.fd, POLLIN, -1) & POLLERR));
}

#define SCENARIO(name) { #name, name }

static const struct scenario scenarios[] = {
	SCENARIO(monitor_shows_what_is_sent_in_order),
	SCENARIO(monitor_shows_what_is_received_in_order),
	SCENARIO(monitor_of_an_interface_shows_both_directions),
	SCENARIO(zero_copy_monitor_shares_the_ports_memory),
	SCENARIO(monitor_is_woken),
	SCENARIO(monitor_of_what_nobody_has_bound_is_einval),
	SCENARIO(sending_on_a_monitor_is_eio),
	SCENARIO(monitor_ends_with_its_port),
	{ NULL, NULL },
};

int
main(int argc, char **argv)
{
	return run_scenario(scenarios, argc, argv);
}
