/* Tests of NIOCTXSYNC, NIOCRXSYNC, poll and mmap, and of every error that they return. */
#include "client.h"

#define ALL { .nr_mode = NR_REG_ALL_NIC }

static void
sync_tx(struct port *p)
{
	CHECK(call(p->fd, NIOCTXSYNC, NULL) == 0);
}

static void
sync_rx(struct port *p)
{
	CHECK(call(p->fd, NIOCRXSYNC, NULL) == 0);
}

/* ---- errors ---- */

static void
sync_of_an_unbound_open_is_enxio(void)
{
	CHECK(call(device(), NIOCTXSYNC, NULL) == ENXIO && call(device(), NIOCRXSYNC, NULL) == ENXIO);
}

static void
poll_of_an_unbound_open_is_pollerr(void)
{
	CHECK(polled(device(), POLLIN, 0) & POLLERR);
	CHECK(polled(device(), POLLIN | POLLOUT, -1) & POLLERR);
}

static void
impossible_head_makes_the_ring_anew_and_the_sync_succeed(void)
{
	struct port p = bound("x{1");

	put(tx(&p), 1, 1, 60, 0);
	tx(&p)->head = 5000;
	sync_tx(&p);
	CHECK(tx(&p)->head == 0 && tx(&p)->cur == 0 && tx(&p)->tail == 1023);
	/* After that, the ring works again. */
	put(tx(&p), 1, 2, 60, 0);
	sync_tx(&p);
}

static void
poll_with_an_impossible_head_is_pollerr(void)
{
	struct port p = bound("x{1");

	tx(&p)->cur = 5000;
	CHECK(polled(p.fd, POLLOUT, 0) & POLLERR);
	CHECK(!(polled(p.fd, POLLOUT, 0) & POLLERR));
}

static void
head_beyond_tail_takes_no_slot_that_is_not_the_programs(void)
{
	struct port a = bound("x{1"), b = bound("x}1");

	rx(&b)->head = rx(&b)->cur = 100;
	sync_rx(&b);
	/* The sync leaves the wrong values unchanged; the ring works again once they are right. */
	CHECK(rx(&b)->head == 100 && rx(&b)->tail == 0);
	rx(&b)->head = rx(&b)->cur = 0;
	put(tx(&a), 1, 7, 60, 0);
	sync_tx(&a);
	sync_rx(&b);
	CHECK(rx(&b)->tail == 1 && take(rx(&b)) == 7);
}

static void
overwritten_tail_is_restored(void)
{
	struct port a = bound("x{1"), b = bound("x}1");

	put(tx(&a), 1, 7, 60, 0);
	sync_tx(&a);
	sync_rx(&b);
	CHECK(rx(&b)->tail == 1);
	rx(&b)->tail = 900;
	sync_rx(&b);
	CHECK(rx(&b)->tail == 1);
}

static void
impossible_buffers_become_none_when_a_ring_is_made_anew(void)
{
	struct port p = bound("x{1");
	struct netmap_ring *r = tx(&p);

	r->slot[3].buf_idx = 0xffffffff;
	r->slot[4].buf_idx = 1;
	r->slot[5].len = 60000;
	r->head = 5000;
	sync_tx(&p);
	CHECK(r->slot[3].buf_idx == 0 && r->slot[3].len == 0 && r->slot[4].buf_idx == 0);
	CHECK(r->slot[5].len == 0 && r->slot[5].buf_idx >= 2);
}

/* ---- effects of syncs ---- */

static void
slots_come_back_when_the_reader_gives_them_back(void)
{
	struct port a = bound("x{1"), b = bound("x}1");
	int i;

	for (i = 0; i < 1023; i++)
		put(tx(&a), 1, (char)i, 60, 0);
	sync_tx(&a);
	CHECK(space(tx(&a)) == 0);
	sync_rx(&b);
	for (i = 0; i < 1023; i++)
		CHECK(take(rx(&b)) == (char)i);
	sync_tx(&a);
	CHECK(space(tx(&a)) == 0);
	sync_rx(&b);
	sync_tx(&a);
	CHECK(space(tx(&a)) == 1023);
}

static void
pipe_carries_buffers_lengths_flags_and_pointers(void)
{
	struct port a = bound("x{1"), b = bound("x}1");
	struct netmap_slot *s = &tx(&a)->slot[0];
	uint32_t idx = s->buf_idx;

	put(tx(&a), 1, 9, 1234, NS_BUF_CHANGED);
	s->ptr = 0x1122334455667788;
	sync_tx(&a);
	sync_rx(&b);
	s = &rx(&b)->slot[0];
	CHECK(s->buf_idx == idx && s->len == 1234 && (s->flags & NS_BUF_CHANGED));
	CHECK(s->ptr == 0x1122334455667788 && take(rx(&b)) == 9);
}

static void
parts_of_a_frame_arrive_when_its_last_one_is_sent(void)
{
	struct port a = bound("vale0:a"), b = bound("vale0:b");

	put(tx(&a), 1, 1, 2000, NS_MOREFRAG);
	put(tx(&a), 1, 2, 2000, NS_MOREFRAG);
	sync_tx(&a);
	sync_rx(&b);
	CHECK(space(rx(&b)) == 0);
	put(tx(&a), 1, 3, 100, 0);
	sync_tx(&a);
	sync_rx(&b);
	CHECK(space(rx(&b)) == 3);
	/* The flags of each slot contain the number of fragments. */
	CHECK(NS_RFRAGS(&rx(&b)->slot[0]) == 3 && (rx(&b)->slot[0].flags & NS_MOREFRAG));
	CHECK(!(rx(&b)->slot[2].flags & NS_MOREFRAG) && rx(&b)->slot[2].len == 100);
}

static void
indirect_frames_come_from_the_programs_memory(void)
{
	struct port a = bound("vale0:a"), b = bound("vale0:b");
	static char frame[100];

	memset(frame, 0x5a, sizeof(frame));
	memset(frame, 0xff, 6);
	put(tx(&a), 1, 0, sizeof(frame), NS_INDIRECT);
	tx(&a)->slot[0].ptr = (uintptr_t)frame;
	sync_tx(&a);
	sync_rx(&b);
	CHECK(space(rx(&b)) == 1 && memcmp(buffer(rx(&b), 0), frame, sizeof(frame)) == 0);
}

static void
full_destination_of_a_switch_loses_frames_and_frees_the_sender(void)
{
	struct port a = bound("vale0:a"), b = bound("vale0:b");
	int round, i;

	for (round = 0; round < 3; round++) {
		for (i = 0; i < 1000; i++)
			put(tx(&a), 1, (char)round, 60, 0);
		sync_tx(&a);
		CHECK(space(tx(&a)) == 1023);
	}
	sync_rx(&b);
	CHECK(space(rx(&b)) == 1023 && take(rx(&b)) == 0);
}

static void
switch_learns_where_an_address_is(void)
{
	struct port a = bound("vale0:a"), b = bound("vale0:b"), c = bound("vale0:c");

	/*
	 * Port a sends from 02:..:01, so the switch learns that address at a; the broadcast goes to
	 * all other ports.
	 */
	put(tx(&a), 1, 1, 60, 0);
	sync_tx(&a);
	put(tx(&b), 2, 2, 60, 0);
	memcpy(buffer(tx(&b), 0), "\2\0\0\0\0\1", 6);
	sync_tx(&b);
	sync_rx(&a);
	sync_rx(&c);
	CHECK(space(rx(&a)) == 1 && take(rx(&a)) == 2);
	CHECK(space(rx(&c)) == 1 && take(rx(&c)) == 1);
}

static void
receive_syncs_tell_the_time(void)
{
	struct port p = bound("x{1");
	struct timeval before, now;

	gettimeofday(&before, NULL);
	sync_tx(&p);
	CHECK(tx(&p)->ts.tv_sec == 0 && rx(&p)->ts.tv_sec == 0);
	sync_rx(&p);
	gettimeofday(&now, NULL);
	CHECK(!timercmp(&rx(&p)->ts, &before, <) && !timercmp(&rx(&p)->ts, &now, >));
}

/* ---- poll ---- */

static void
poll_sends_and_receives(void)
{
	struct port a = bound("x{1"), b = bound("x}1");

	put(tx(&a), 1, 3, 60, 0);
	CHECK(polled(a.fd, POLLIN, 0) == 0);
	CHECK(polled(b.fd, POLLIN, 120000) == POLLIN);
	CHECK(take(rx(&b)) == 3);
}

static void
poll_without_consent_does_not_send(void)
{
	struct port a = bound_with("x{1",
	    (struct nmreq_register){ .nr_mode = NR_REG_ALL_NIC, .nr_flags = NR_NO_TX_POLL });
	struct port b = bound("x}1");

	put(tx(&a), 1, 3, 60, 0);
	CHECK(polled(a.fd, POLLIN, 0) == 0 && polled(b.fd, POLLIN, 0) == 0);
	/* A poll for POLLOUT does send. */
	CHECK(polled(a.fd, POLLOUT, 0) == POLLOUT && polled(b.fd, POLLIN, 0) == POLLIN);
}

static void
poll_for_room_does_not_receive(void)
{
	struct port a = bound("x{1"), b = bound("x}1");

	put(tx(&a), 1, 3, 60, 0);
	sync_tx(&a);
	CHECK(polled(b.fd, POLLOUT, 0) == POLLOUT && rx(&b)->tail == 0);
	CHECK(polled(b.fd, POLLIN, 0) == POLLIN && rx(&b)->tail == 1);
}

static void
poll_answers_in_the_words_that_were_asked(void)
{
	struct port a = bound("x{1"), b = bound("x}1");

	CHECK(polled(a.fd, POLLOUT, 0) == POLLOUT);
	CHECK(polled(a.fd, POLLWRNORM, 0) == POLLWRNORM);
	put(tx(&a), 1, 3, 60, 0);
	sync_tx(&a);
	CHECK(polled(b.fd, POLLRDNORM, 0) == POLLRDNORM);
	CHECK(polled(b.fd, POLLIN | POLLOUT, 0) == (POLLIN | POLLOUT));
}

static void
poll_waits_for_more_than_cur(void)
{
	struct port a = bound("x{1"), b = bound("x}1");

	put(tx(&a), 1, 1, 60, 0);
	sync_tx(&a);
	CHECK(polled(b.fd, POLLIN, 0) == POLLIN);
	/* The program has seen the frame and keeps the slot. */
	rx(&b)->cur = rx(&b)->tail;
	CHECK(polled(b.fd, POLLIN, 0) == 0);
	put(tx(&a), 1, 2, 60, 0);
	sync_tx(&a);
	CHECK(polled(b.fd, POLLIN, 120000) == POLLIN);
	CHECK(take(rx(&b)) == 1 && take(rx(&b)) == 2);
}

/* ---- several opens, mappings ---- */

static void
opens_of_one_port_see_the_same_rings(void)
{
	struct port a = bound("x{1"), twin = bound("x{1"), b = bound("x}1");

	put(tx(&a), 1, 4, 60, 0);
	CHECK(tx(&twin)->head == 1);
	sync_tx(&twin);
	sync_rx(&b);
	CHECK(take(rx(&b)) == 4);
	close(a.fd);
	put(tx(&twin), 1, 5, 60, 0);
	sync_tx(&twin);
	sync_rx(&b);
	CHECK(take(rx(&b)) == 5);
}

static void
frames_stay_in_a_pipe_for_an_end_that_opens_again(void)
{
	struct port a = bound("x{1"), b = bound("x}1");

	put(tx(&a), 1, 6, 60, 0);
	sync_tx(&a);
	munmap(b.mem, b.reg.nr_memsize);
	close(b.fd);
	b = bound("x}1");
	sync_rx(&b);
	CHECK(take(rx(&b)) == 6);
}

static void
shorter_mapping_is_legal(void)
{
	struct port p = { .fd = device(), .reg = ALL };

	CHECK(ask(p.fd, "x{1", NETMAP_REQ_REGISTER, &p.reg) == 0);
	CHECK(mmap(NULL, 4096, PROT_READ, MAP_SHARED, p.fd, 0) != MAP_FAILED);
	CHECK(mmap(NULL, p.reg.nr_memsize, PROT_READ, MAP_SHARED, p.fd, 0) != MAP_FAILED);
}

#define SCENARIO(name) { #name, name }

static const struct scenario scenarios[] = {
	SCENARIO(sync_of_an_unbound_open_is_enxio),
	SCENARIO(poll_of_an_unbound_open_is_pollerr),
	SCENARIO(impossible_head_makes_the_ring_anew_and_the_sync_succeed),
	SCENARIO(poll_with_an_impossible_head_is_pollerr),
	SCENARIO(head_beyond_tail_takes_no_slot_that_is_not_the_programs),
	SCENARIO(overwritten_tail_is_restored),
	SCENARIO(impossible_buffers_become_none_when_a_ring_is_made_anew),
	SCENARIO(slots_come_back_when_the_reader_gives_them_back),
	SCENARIO(pipe_carries_buffers_lengths_flags_and_pointers),
	SCENARIO(parts_of_a_frame_arrive_when_its_last_one_is_sent),
	SCENARIO(indirect_frames_come_from_the_programs_memory),
	SCENARIO(full_destination_of_a_switch_loses_frames_and_frees_the_sender),
	SCENARIO(switch_learns_where_an_address_is),
	SCENARIO(receive_syncs_tell_the_time),
	SCENARIO(poll_sends_and_receives),
	SCENARIO(poll_without_consent_does_not_send),
	SCENARIO(poll_for_room_does_not_receive),
	SCENARIO(poll_answers_in_the_words_that_were_asked),
	SCENARIO(poll_waits_for_more_than_cur),
	SCENARIO(opens_of_one_port_see_the_same_rings),
	SCENARIO(frames_stay_in_a_pipe_for_an_end_that_opens_again),
	SCENARIO(shorter_mapping_is_legal),
	{ NULL, NULL },
};

int
main(int argc, char **argv)
{
	return run_scenario(scenarios, argc, argv);
}
