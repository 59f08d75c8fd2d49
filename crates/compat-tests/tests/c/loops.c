/* Tests of the options CSB, KLOOP_EVENTFDS and KLOOP_MODE, and of the sync loop. */
#define _GNU_SOURCE
#include <net/netmap_virt.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include "client.h"

/* One tx and one rx ring. */
#define RINGS 2
#define TX 0
#define RX 1

struct blocks {
	struct nm_csb_atok atok[RINGS];
	struct nm_csb_ktoa ktoa[RINGS];
};

static struct blocks *
blocks(int flags)
{
	char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);

	/* The page after the blocks is not mapped. */
	CHECK(pages != MAP_FAILED && munmap(pages + 4096, 4096) == 0);
	return (struct blocks *)pages;
}

static struct nmreq_opt_csb
option(struct blocks *b)
{
	struct nmreq_opt_csb o = { .nro_opt.nro_reqtype = NETMAP_REQ_OPT_CSB };

	o.csb_atok = (uintptr_t)b->atok;
	o.csb_ktoa = (uintptr_t)b->ktoa;
	return o;
}

static struct port
alone(const char *name)
{
	struct nmreq_register reg = { .nr_mode = NR_REG_ALL_NIC, .nr_flags = NR_EXCLUSIVE };

	return bound_with(name, reg);
}

static int
enable(int fd, struct nmreq_opt_csb *o)
{
	struct nmreq_header h = header("", NETMAP_REQ_CSB_ENABLE, NULL);

	h.nr_options = (uintptr_t)o;
	return call(fd, NIOCCTRL, &h);
}

static struct port
with_blocks(const char *name, struct blocks *b)
{
	struct port p = alone(name);
	struct nmreq_opt_csb o = option(b);

	CHECK(enable(p.fd, &o) == 0 && o.nro_opt.nro_status == 0);
	return p;
}

/* ---- control blocks ---- */

static void
blocks_begin_with_what_the_rings_say(void)
{
	struct blocks *b = blocks(MAP_SHARED);
	struct port p = with_blocks("x{1", b);

	CHECK(b->atok[TX].head == 0 && b->atok[TX].cur == 0 && b->atok[TX].appl_need_kick == 1);
	CHECK(b->ktoa[TX].hwtail == tx(&p)->num_slots - 1 && b->ktoa[TX].hwcur == 0);
	CHECK(b->ktoa[RX].hwtail == 0 && b->ktoa[RX].kern_need_kick == 1);
}

static void
blocks_come_with_the_bind_as_well(void)
{
	struct nmreq_register reg = { .nr_mode = NR_REG_ALL_NIC, .nr_flags = NR_EXCLUSIVE };
	struct nmreq_header h = header("x{1", NETMAP_REQ_REGISTER, &reg);
	struct blocks *b = blocks(MAP_PRIVATE);
	struct nmreq_opt_csb o = option(b);
	int fd = device();

	h.nr_options = (uintptr_t)&o;
	reg.nr_flags = 0;
	CHECK(call(fd, NIOCCTRL, &h) == EINVAL && o.nro_opt.nro_status == EINVAL);
	CHECK(call(fd, NIOCTXSYNC, NULL) == ENXIO);
	reg.nr_flags = NR_EXCLUSIVE;
	CHECK(call(fd, NIOCCTRL, &h) == 0 && b->ktoa[TX].hwtail == reg.nr_tx_slots - 1);
}

static void
blocks_of_a_shared_bind_are_einval(void)
{
	struct port p = bound("x{1");
	struct nmreq_opt_csb o = option(blocks(MAP_SHARED));

	CHECK(enable(p.fd, &o) == EINVAL && o.nro_opt.nro_status == EINVAL);
	CHECK(call(p.fd, NIOCTXSYNC, NULL) == 0);
}

static void
blocks_that_are_not_aligned_are_einval(void)
{
	struct port p = alone("x{1");
	struct nmreq_opt_csb o = option(blocks(MAP_SHARED));

	o.csb_atok += 32;
	CHECK(enable(p.fd, &o) == EINVAL);
	o = option(blocks(MAP_SHARED));
	o.csb_ktoa += 8;
	CHECK(enable(p.fd, &o) == EINVAL);
}

static void
blocks_that_are_not_there_are_efault(void)
{
	struct port p = alone("x{1");
	struct nmreq_opt_csb o = option(blocks(MAP_SHARED));

	o.csb_ktoa = 64;
	CHECK(enable(p.fd, &o) == EFAULT && o.nro_opt.nro_status == EFAULT);
	o = option(blocks(MAP_PRIVATE));
	o.csb_atok += 4096 - 64;
	CHECK(enable(p.fd, &o) == EFAULT);
	o.csb_atok = UINT64_MAX - 63;
	CHECK(enable(p.fd, &o) == EFAULT);
}

static void
enabling_without_the_option_is_einval(void)
{
	CHECK(enable(alone("x{1").fd, NULL) == EINVAL);
}

static void
enabling_on_an_unbound_open_is_enxio(void)
{
	struct nmreq_opt_csb o = option(blocks(MAP_SHARED));

	CHECK(enable(device(), &o) == ENXIO);
}

static void
enabling_twice_is_ebusy(void)
{
	struct blocks *b = blocks(MAP_SHARED);
	struct port p = with_blocks("x{1", b);
	struct nmreq_opt_csb o = option(b);

	CHECK(enable(p.fd, &o) == EBUSY && o.nro_opt.nro_status == EBUSY);
}

static void
option_given_twice_is_einval_in_both(void)
{
	struct port p = alone("x{1");
	struct nmreq_opt_csb one = option(blocks(MAP_SHARED)), two = one;

	one.nro_opt.nro_next = (uintptr_t)&two;
	CHECK(enable(p.fd, &one) == EINVAL);
	CHECK(one.nro_opt.nro_status == EINVAL && two.nro_opt.nro_status == EINVAL);
}

static void
option_that_enabling_does_not_use_is_eopnotsupp(void)
{
	struct port p = alone("x{1");
	struct nmreq_opt_csb o = option(blocks(MAP_SHARED));
	struct nmreq_opt_offsets other = { .nro_opt.nro_reqtype = NETMAP_REQ_OPT_OFFSETS };

	o.nro_opt.nro_next = (uintptr_t)&other;
	CHECK(enable(p.fd, &o) == EOPNOTSUPP && other.nro_opt.nro_status == EOPNOTSUPP);
}

static void
syncs_are_ebusy_and_polls_pollerr(void)
{
	struct port p = with_blocks("x{1", blocks(MAP_SHARED));

	CHECK(call(p.fd, NIOCTXSYNC, NULL) == EBUSY && call(p.fd, NIOCRXSYNC, NULL) == EBUSY);
	CHECK(polled(p.fd, POLLIN | POLLOUT, -1) & POLLERR);
}

/* ---- requests for a loop that are refused ---- */

struct eventfds {
	struct nmreq_option nro_opt;
	struct { int32_t io, irq; } of[RINGS];
};

static struct eventfds
no_eventfds(void)
{
	struct eventfds e = { .of = { { -1, -1 }, { -1, -1 } } };

	e.nro_opt.nro_reqtype = NETMAP_REQ_OPT_SYNC_KLOOP_EVENTFDS;
	e.nro_opt.nro_size = sizeof(e);
	return e;
}

static struct eventfds
eventfds(void)
{
	struct eventfds e = no_eventfds();
	int k;

	for (k = 0; k < RINGS; k++) {
		e.of[k].io = eventfd(0, 0);
		e.of[k].irq = eventfd(0, 0);
	}
	return e;
}

static int
start(int fd, uint32_t sleep_us, void *options)
{
	struct nmreq_sync_kloop_start s = { .sleep_us = sleep_us };
	struct nmreq_header h = header("", NETMAP_REQ_SYNC_KLOOP_START, &s);

	h.nr_options = (uintptr_t)options;
	return call(fd, NIOCCTRL, &h);
}

static int
stop(int fd)
{
	return ask(fd, "", NETMAP_REQ_SYNC_KLOOP_STOP, NULL);
}

static void
loop_of_an_unbound_open_is_enxio(void)
{
	CHECK(start(device(), 0, NULL) == ENXIO && stop(device()) == ENXIO);
}

static void
loop_without_blocks_is_einval(void)
{
	CHECK(start(alone("x{1").fd, 0, NULL) == EINVAL);
}

static void
loop_that_sleeps_longer_than_a_second_is_einval(void)
{
	CHECK(start(with_blocks("x{1", blocks(MAP_SHARED)).fd, 1000001, NULL) == EINVAL);
}

static void
eventfds_of_another_number_than_rings_are_einval(void)
{
	struct port p = with_blocks("x{1", blocks(MAP_SHARED));
	struct eventfds e = no_eventfds();

	e.nro_opt.nro_size -= 8;
	CHECK(start(p.fd, 0, &e) == EINVAL && e.nro_opt.nro_status == EINVAL);
	e.nro_opt.nro_size = sizeof(e.nro_opt);
	CHECK(start(p.fd, 0, &e) == EINVAL);
	e.nro_opt.nro_size = 0;
	CHECK(start(p.fd, 0, &e) == EINVAL);
	e.nro_opt.nro_size = 5000;
	CHECK(start(p.fd, 0, &e) == EMSGSIZE);
}

static void
descriptors_that_are_no_eventfds_are_refused(void)
{
	struct port p = with_blocks("x{1", blocks(MAP_SHARED));
	struct eventfds e = eventfds();

	e.of[1].irq = p.fd;
	CHECK(start(p.fd, 0, &e) == EINVAL && e.nro_opt.nro_status == EINVAL);
	e.of[1].irq = 9999;
	CHECK(start(p.fd, 0, &e) == EBADF && e.nro_opt.nro_status == EBADF);
}

static void
direct_mode_needs_eventfds_and_known_bits(void)
{
	struct port p = with_blocks("x{1", blocks(MAP_SHARED));
	struct nmreq_opt_sync_kloop_mode m = { .nro_opt.nro_reqtype = NETMAP_REQ_OPT_SYNC_KLOOP_MODE };
	struct eventfds e = eventfds();

	m.mode = NM_OPT_SYNC_KLOOP_DIRECT_TX;
	CHECK(start(p.fd, 0, &m) == EINVAL && m.nro_opt.nro_status == EINVAL);
	m.nro_opt.nro_next = (uintptr_t)&e;
	e.of[TX].irq = -1;
	CHECK(start(p.fd, 0, &m) == EINVAL);
	m.mode = 4;
	CHECK(start(p.fd, 0, &m) == EINVAL);
}

static void
option_that_a_loop_does_not_use_is_eopnotsupp(void)
{
	struct blocks *b = blocks(MAP_SHARED);
	struct port p = with_blocks("x{1", b);
	struct nmreq_opt_csb o = option(b);

	CHECK(start(p.fd, 0, &o) == EOPNOTSUPP && o.nro_opt.nro_status == EOPNOTSUPP);
}

/* ---- a running loop ---- */

struct looping {
	struct port p;
	struct blocks *b;
	void *options;
	uint32_t sleep_us;
	int result;
	pthread_t thread;
};

static void *
run_loop(void *arg)
{
	struct looping *l = arg;

	l->result = start(l->p.fd, l->sleep_us, l->options);
	return NULL;
}

static struct looping *
looping(const char *name, int flags, uint32_t sleep_us, void *options)
{
	struct looping *l = calloc(1, sizeof(*l));

	l->b = blocks(flags);
	l->p = with_blocks(name, l->b);
	l->sleep_us = sleep_us;
	l->options = options;
	CHECK(pthread_create(&l->thread, NULL, run_loop, l) == 0);
	return l;
}

static void
ends(struct looping *l, int result)
{
	CHECK(pthread_join(l->thread, NULL) == 0 && l->result == result);
	close(l->p.fd);
}

/* Gives the slots before i to the loop, and wakes the loop if it wants that. */
static void
give(struct looping *l, int k, uint32_t i, int io)
{
	uint64_t one = 1;

	nm_sync_kloop_appl_write(&l->b->atok[k], i, i);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (io >= 0 && __atomic_load_n(&l->b->ktoa[k].kern_need_kick, __ATOMIC_ACQUIRE))
		CHECK(write(io, &one, sizeof(one)) == sizeof(one));
}

/*
 * Waits until the loop has moved the tail of ring k away from old: by eventfd, or by polling the
 * tail.
 */
static uint32_t
tail_beyond(struct looping *l, int k, uint32_t old, int irq)
{
	uint32_t hwtail, hwcur;
	uint64_t count;

	for (;;) {
		nm_sync_kloop_appl_read(&l->b->ktoa[k], &hwtail, &hwcur);
		if (hwtail != old)
			return hwtail;
		if (irq >= 0)
			CHECK(read(irq, &count, sizeof(count)) == sizeof(count));
		else
			sched_yield();
	}
}

static void
write_frame(struct netmap_ring *r, uint32_t i, char number)
{
	buffer(r, i)[14] = number;
	r->slot[i].len = 60;
}

/* Passes frames from a loop to an ordinary program and back. */
static void
both_ways(struct looping *l, struct port *other, struct eventfds *e)
{
	struct netmap_ring *t = tx(&l->p), *r = rx(&l->p);
	int i, tail = 0;

	for (i = 0; i < 20; i++) {
		write_frame(t, (uint32_t)i, (char)i);
		give(l, TX, (uint32_t)i + 1, e ? e->of[TX].io : -1);
		CHECK(polled(other->fd, POLLIN, 120000) == POLLIN);
		CHECK(take(rx(other)) == i);
		put(tx(other), 1, (char)(100 + i), 60, 0);
		CHECK(call(other->fd, NIOCTXSYNC, NULL) == 0);
		tail = (int)tail_beyond(l, RX, (uint32_t)tail, e ? e->of[RX].irq : -1);
		CHECK(tail == i + 1 && buffer(r, (uint32_t)i)[14] == 100 + i);
		give(l, RX, (uint32_t)tail, e ? e->of[RX].io : -1);
	}
}

static void
moves_frames(int flags, uint32_t sleep_us, struct eventfds *e, void *options)
{
	static int pipes;
	char names[2][16];
	struct port other;
	struct looping *l;

	/* Each time a new pipe: frames remain in the rings of an earlier pipe. */
	sprintf(names[0], "x{%d", ++pipes);
	sprintf(names[1], "x}%d", pipes);
	other = bound(names[1]);
	l = looping(names[0], flags, sleep_us, options);
	both_ways(l, &other, e);
	CHECK(stop(l->p.fd) == 0);
	ends(l, 0);
}

static void
loop_without_eventfds_looks_by_itself(void)
{
	moves_frames(MAP_SHARED, 50, NULL, NULL);
	moves_frames(MAP_SHARED, 0, NULL, NULL);
}

static void
blocks_in_private_memory_will_do(void)
{
	struct eventfds e = eventfds();

	moves_frames(MAP_PRIVATE, 50, NULL, NULL);
	moves_frames(MAP_PRIVATE, 0, &e, &e);
}

static void
loop_sleeps_by_eventfds(void)
{
	struct eventfds e = eventfds();

	moves_frames(MAP_SHARED, 0, &e, &e);
}

static void
loop_with_some_eventfds_looks_by_itself_and_wakes_who_has_one(void)
{
	struct eventfds e = eventfds();

	e.of[TX].io = -1;
	moves_frames(MAP_SHARED, 50, &e, &e);
}

static void
direct_mode_moves_frames_as_well(void)
{
	struct eventfds e = eventfds();
	struct nmreq_opt_sync_kloop_mode m = { .nro_opt.nro_reqtype = NETMAP_REQ_OPT_SYNC_KLOOP_MODE };

	m.nro_opt.nro_next = (uintptr_t)&e;
	m.mode = NM_OPT_SYNC_KLOOP_DIRECT_TX | NM_OPT_SYNC_KLOOP_DIRECT_RX;
	moves_frames(MAP_SHARED, 0, &e, &m);
}

static void
loop_serves_a_port_of_a_switch(void)
{
	struct eventfds e = eventfds();
	struct port other = bound("vale0:b");
	struct looping *l = looping("vale0:a", MAP_SHARED, 0, &e);
	struct netmap_ring *t = tx(&l->p);

	memset(buffer(t, 0), 0xff, 60);
	t->slot[0].len = 60;
	give(l, TX, 1, e.of[TX].io);
	CHECK(polled(other.fd, POLLIN, 120000) == POLLIN && space(rx(&other)) == 1);
	CHECK(stop(l->p.fd) == 0);
	ends(l, 0);
}

/* The program is notified as soon as there is room. */
static void
full_ring_is_refilled_when_the_reader_makes_room(void)
{
	struct eventfds e = eventfds();
	struct port other = bound("x}1");
	struct looping *l = looping("x{1", MAP_SHARED, 0, &e);
	uint32_t n = tx(&l->p)->num_slots, tail;

	give(l, TX, n - 1, e.of[TX].io);
	CHECK(polled(other.fd, POLLIN, 120000) == POLLIN && space(rx(&other)) == n - 1);
	rx(&other)->head = rx(&other)->cur = 10;
	CHECK(call(other.fd, NIOCRXSYNC, NULL) == 0);
	tail = tail_beyond(l, TX, n - 1, e.of[TX].irq);
	CHECK(tail == 9);
	CHECK(stop(l->p.fd) == 0);
	ends(l, 0);
}

static void
impossible_indices_harm_nobody(void)
{
	struct eventfds e = eventfds();
	struct port other = bound("x}1");
	struct looping *l = looping("x{1", MAP_SHARED, 0, &e);

	give(l, TX, 70000, e.of[TX].io);
	give(l, RX, 5, e.of[RX].io);
	nm_sync_kloop_appl_write(&l->b->atok[RX], 0, 0);
	write_frame(tx(&l->p), 0, 7);
	give(l, TX, 1, e.of[TX].io);
	CHECK(polled(other.fd, POLLIN, 120000) == POLLIN && take(rx(&other)) == 7);
	CHECK(stop(l->p.fd) == 0);
	ends(l, 0);
}

/* Waits until the loop of l runs, by passing a frame through it. */
static void
runs(struct looping *l, struct port *other, struct eventfds *e)
{
	write_frame(tx(&l->p), 0, 1);
	give(l, TX, 1, e->of[TX].io);
	CHECK(polled(other->fd, POLLIN, 120000) == POLLIN);
}

static void
second_loop_is_ebusy(void)
{
	struct eventfds e = eventfds();
	struct port other = bound("x}1");
	struct looping *l = looping("x{1", MAP_SHARED, 0, &e);

	runs(l, &other, &e);
	CHECK(start(l->p.fd, 0, NULL) == EBUSY);
	CHECK(stop(l->p.fd) == 0);
	ends(l, 0);
}

static void
stop_before_the_start_ends_the_next_loop_only(void)
{
	struct eventfds e = eventfds();
	struct blocks *b = blocks(MAP_SHARED);
	struct port p = with_blocks("x{1", b), other;

	CHECK(stop(p.fd) == 0 && start(p.fd, 0, &e) == 0);
	close(p.fd);
	other = bound("x}1");
	struct looping *l = looping("x{1", MAP_SHARED, 0, &e);
	runs(l, &other, &e);
	CHECK(stop(l->p.fd) == 0);
	ends(l, 0);
}

static void
on_signal(int number)
{
	(void)number;
}

static void
signal_ends_a_loop_with_eintr(void)
{
	struct sigaction act = { .sa_handler = on_signal };
	struct eventfds e = eventfds();
	struct port other = bound("x}1");
	struct looping *l;

	CHECK(sigaction(SIGUSR1, &act, NULL) == 0);
	l = looping("x{1", MAP_SHARED, 0, &e);
	runs(l, &other, &e);
	CHECK(pthread_kill(l->thread, SIGUSR1) == 0);
	ends(l, EINTR);
}

static void
killed_caller_ends_its_loop(void)
{
	struct nmreq_register reg = { .nr_mode = NR_REG_ALL_NIC, .nr_flags = NR_EXCLUSIVE };
	struct port other = bound("x}1");
	int status, child = fork();

	if (child == 0) {
		struct eventfds e = eventfds();
		struct looping *l = looping("x{1", MAP_SHARED, 0, &e);

		write_frame(tx(&l->p), 0, 1);
		give(l, TX, 1, e.of[TX].io);
		pause();
	}
	CHECK(polled(other.fd, POLLIN, 120000) == POLLIN);
	CHECK(try_register("x{1", reg) == EBUSY);
	CHECK(kill(child, SIGKILL) == 0 && waitpid(child, &status, 0) == child);
	CHECK(try_register("x{1", reg) == 0);
}

/* Runs more loops than the device has threads for calls of one user. */
static void
many_loops_run_beside_each_other(void)
{
	struct looping *l[24];
	struct port other[24];
	struct eventfds e[24];
	char name[16];
	int i;

	for (i = 0; i < 24; i++) {
		e[i] = eventfds();
		sprintf(name, "x}%d", i);
		other[i] = bound(name);
		sprintf(name, "x{%d", i);
		l[i] = looping(name, MAP_SHARED, 0, &e[i]);
	}
	for (i = 0; i < 24; i++)
		runs(l[i], &other[i], &e[i]);
	for (i = 0; i < 24; i++) {
		CHECK(stop(l[i]->p.fd) == 0);
		ends(l[i], 0);
	}
}

#define SCENARIO(name) { #name, name }

static const struct scenario scenarios[] = {
	SCENARIO(blocks_begin_with_what_the_rings_say),
	SCENARIO(blocks_come_with_the_bind_as_well),
	SCENARIO(blocks_of_a_shared_bind_are_einval),
	SCENARIO(blocks_that_are_not_aligned_are_einval),
	SCENARIO(blocks_that_are_not_there_are_efault),
	SCENARIO(enabling_without_the_option_is_einval),
	SCENARIO(enabling_on_an_unbound_open_is_enxio),
	SCENARIO(enabling_twice_is_ebusy),
	SCENARIO(option_given_twice_is_einval_in_both),
	SCENARIO(option_that_enabling_does_not_use_is_eopnotsupp),
	SCENARIO(syncs_are_ebusy_and_polls_pollerr),
	SCENARIO(loop_of_an_unbound_open_is_enxio),
	SCENARIO(loop_without_blocks_is_einval),
	SCENARIO(loop_that_sleeps_longer_than_a_second_is_einval),
	SCENARIO(eventfds_of_another_number_than_rings_are_einval),
	SCENARIO(descriptors_that_are_no_eventfds_are_refused),
	SCENARIO(direct_mode_needs_eventfds_and_known_bits),
	SCENARIO(option_that_a_loop_does_not_use_is_eopnotsupp),
	SCENARIO(loop_without_eventfds_looks_by_itself),
	SCENARIO(blocks_in_private_memory_will_do),
	SCENARIO(loop_sleeps_by_eventfds),
	SCENARIO(loop_with_some_eventfds_looks_by_itself_and_wakes_who_has_one),
	SCENARIO(direct_mode_moves_frames_as_well),
	SCENARIO(loop_serves_a_port_of_a_switch),
	SCENARIO(full_ring_is_refilled_when_the_reader_makes_room),
	SCENARIO(impossible_indices_harm_nobody),
	SCENARIO(second_loop_is_ebusy),
	SCENARIO(stop_before_the_start_ends_the_next_loop_only),
	SCENARIO(signal_ends_a_loop_with_eintr),
	SCENARIO(killed_caller_ends_its_loop),
	SCENARIO(many_loops_run_beside_each_other),
	{ NULL, NULL },
};

int
main(int argc, char **argv)
{
	return run_scenario(scenarios, argc, argv);
}
