/*
 * Tests of the rings of the host. The host has the address 10.9.9.1 on `left`, and knows 10.9.9.2
 * as 02:..:02.
 */
#include "client.h"

#include <arpa/inet.h>

static struct netmap_ring *
host_tx(struct port *p)
{
	return ring_at(p, p->nif->ni_tx_rings);
}

static struct netmap_ring *
host_rx(struct port *p)
{
	return ring_at(p, p->nif->ni_tx_rings + p->nif->ni_host_tx_rings + p->nif->ni_rx_rings);
}

static struct port
bind_as(uint32_t mode)
{
	return bound_with("left", (struct nmreq_register){ .nr_mode = mode });
}

/* Returns the next frame from the host with this EtherType; skips all others. */
static char *
from_host(struct port *p, uint16_t ethertype)
{
	struct netmap_ring *r = host_rx(p);

	for (;;) {
		while (space(r) == 0)
			CHECK(polled(p->fd, POLLIN, 120000) & POLLIN);
		char *frame = buffer(r, r->head);
		uint16_t type;

		memcpy(&type, frame + 12, 2);
		r->head = r->cur = after(r, r->head);
		if (ntohs(type) == ethertype)
			return frame;
	}
}

/* An ARP request for 10.9.9.1 from 10.9.9.2. */
static const char question[42] =
    "\xff\xff\xff\xff\xff\xff\2\0\0\0\0\2\x08\x06\0\1\x08\0\6\4\0\1\2\0\0\0\0\2\x0a\x09\x09\2"
    "\0\0\0\0\0\0\x0a\x09\x09\1";

static void
put_question(struct netmap_ring *r)
{
	CHECK(space(r) > 0);
	memset(buffer(r, r->head), 0, 60);
	memcpy(buffer(r, r->head), question, sizeof(question));
	r->slot[r->head].len = 60;
	r->slot[r->head].flags = 0;
	r->head = r->cur = after(r, r->head);
}

static void
must_be_answer(const char *frame)
{
	/* An ARP reply from 10.9.9.1, to the sender of the request. */
	CHECK(memcmp(frame, "\2\0\0\0\0\2", 6) == 0 && frame[21] == 2);
	CHECK(memcmp(frame + 28, "\x0a\x09\x09\1", 4) == 0);
}

static void
host_rings_show_what_the_host_sends(void)
{
	struct port p = bind_as(NR_REG_SW);
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(9) };
	int s = socket(AF_INET, SOCK_DGRAM, 0);
	char *frame;

	CHECK(p.reg.nr_host_rx_rings >= 1 && !p.nif->ring_ofs[0]);
	inet_pton(AF_INET, "10.9.9.2", &to.sin_addr);
	CHECK(sendto(s, "netmap", 6, 0, (struct sockaddr *)&to, sizeof(to)) == 6);
	frame = from_host(&p, 0x0800);
	CHECK(memcmp(frame, "\2\0\0\0\0\2", 6) == 0 && memcmp(frame + 42, "netmap", 6) == 0);
}

static void
host_rings_take_frames_to_the_host(void)
{
	struct port p = bind_as(NR_REG_SW);

	put_question(host_tx(&p));
	CHECK(call(p.fd, NIOCTXSYNC, NULL) == 0);
	must_be_answer(from_host(&p, 0x0806));
}

static void
all_rings_have_their_places_in_order(void)
{
	struct port p = bind_as(NR_REG_NIC_SW);
	uint32_t i, n = p.nif->ni_tx_rings + p.nif->ni_host_tx_rings + p.nif->ni_rx_rings +
	    p.nif->ni_host_rx_rings;

	for (i = 0; i < n; i++)
		CHECK(p.nif->ring_ofs[i] != 0);
	CHECK(host_tx(&p)->dir == 0 && host_rx(&p)->dir == 1 && rx(&p)->dir == 1);
}

static void
host_ring_that_is_not_there_is_einval(void)
{
	struct nmreq_register one = { .nr_mode = NR_REG_ONE_SW };

	CHECK(try_register("left", one) == 0);
	one.nr_ringid = 99;
	CHECK(try_register("left", one) == EINVAL);
}

/* Marks all frames in the rx rings, those of the host included, and releases them. */
static void
mark_all(struct port *p)
{
	uint32_t tx_rings = p->nif->ni_tx_rings + p->nif->ni_host_tx_rings, i;
	uint32_t rx_rings = p->nif->ni_rx_rings + p->nif->ni_host_rx_rings;

	for (i = 0; i < rx_rings; i++) {
		struct netmap_ring *r = ring_at(p, tx_rings + i);

		r->flags |= NR_FORWARD;
		for (; space(r) > 0; r->head = r->cur = after(r, r->head))
			r->slot[r->head].flags |= NS_FORWARD;
	}
}

/* Whether the answer has arrived. */
static int
has_answer(struct port *p)
{
	struct netmap_ring *r = rx(p);
	int found = 0;

	CHECK(call(p->fd, NIOCRXSYNC, NULL) == 0);
	for (; space(r) > 0 && !found; r->head = r->cur = after(r, r->head)) {
		const char *frame = buffer(r, r->head);

		found = memcmp(frame + 12, "\x08\x06", 2) == 0 && frame[21] == 2;
		if (found)
			must_be_answer(frame);
	}
	return found;
}

static void
marked_frames_pass_between_the_interface_and_its_host(void)
{
	struct port p = bind_as(NR_REG_NIC_SW), far = bound("right");
	int tries = 100;

	mark_all(&p);
	put_question(tx(&far));
	CHECK(call(far.fd, NIOCTXSYNC, NULL) == 0);
	for (; !has_answer(&far); tries--) {
		CHECK(tries > 0);
		polled(p.fd, POLLIN, 100);
		mark_all(&p);
		CHECK(call(p.fd, NIOCRXSYNC, NULL) == 0);
	}
}

#define SCENARIO(name) { #name, name }

static const struct scenario scenarios[] = {
	SCENARIO(host_rings_show_what_the_host_sends),
	SCENARIO(host_rings_take_frames_to_the_host),
	SCENARIO(all_rings_have_their_places_in_order),
	SCENARIO(host_ring_that_is_not_there_is_einval),
	SCENARIO(marked_frames_pass_between_the_interface_and_its_host),
	{ NULL, NULL },
};

int
main(int argc, char **argv)
{
	return run_scenario(scenarios, argc, argv);
}
