/* Tests of the option OFFSETS, by a program that uses only open, ioctl and mmap. */
#include <stdint.h>
#include <sys/ioctl.h>

#include "client.h"

#define LEN 60

/* An initial offset of 128 and at most 256, in the low 16 bits. */
static struct nmreq_opt_offsets
usual(void)
{
	return (struct nmreq_opt_offsets){ .nro_opt.nro_reqtype = NETMAP_REQ_OPT_OFFSETS,
		.nro_max_offset = 256, .nro_initial_offset = 128, .nro_offset_bits = 16 };
}

static int
bind_with(struct port *p, const char *name, uint64_t flags, struct nmreq_opt_offsets *option)
{
	struct nmreq_header h = header(name, NETMAP_REQ_REGISTER, &p->reg);

	*p = (struct port){ .fd = device(), .reg = { .nr_mode = NR_REG_ALL_NIC, .nr_flags = flags } };
	h.nr_options = (uintptr_t)option;
	return call(p->fd, NIOCCTRL, &h);
}

static struct port
with_offsets(const char *name)
{
	struct nmreq_opt_offsets option = usual();
	struct port p;

	CHECK(bind_with(&p, name, 0, &option) == 0 && option.nro_opt.nro_status == 0);
	map(&p);
	return p;
}

/* Asserts that a bind is refused with this error, which must also be in the option. */
static void
refused(const char *name, uint64_t flags, struct nmreq_opt_offsets option, int error)
{
	struct port p;

	CHECK(bind_with(&p, name, flags, &option) == error);
	CHECK(option.nro_opt.nro_status == (uint32_t)error);
	CHECK(call(p.fd, NIOCTXSYNC, NULL) == ENXIO);
}

static void
send_at(struct port *p, uint64_t offset, uint64_t real, char mark)
{
	struct netmap_ring *r = tx(p);
	struct netmap_slot *slot = &r->slot[r->head];
	char *frame = buffer(r, r->head) + real;

	memset(frame, mark, LEN);
	memset(frame, 0xff, 6);
	memcpy(frame + 6, "\2\0\0\0\0\1", 6);
	slot->ptr = (slot->ptr & ~r->offset_mask) | offset;
	slot->len = LEN;
	r->head = r->cur = after(r, r->head);
	CHECK(call(p->fd, NIOCTXSYNC, NULL) == 0);
}

/* Asserts that the next frame has this mark and is at this offset. */
static void
arrived_at(struct port *p, uint64_t offset, char mark)
{
	struct netmap_ring *r = rx(p);
	struct netmap_slot *slot;
	char *frame;

	CHECK(call(p->fd, NIOCRXSYNC, NULL) == 0 && space(r) == 1);
	slot = &r->slot[r->head];
	frame = buffer(r, r->head) + offset;
	CHECK((slot->ptr & r->offset_mask) == offset && slot->len == LEN);
	CHECK(frame[0] == (char)0xff && frame[12] == mark && frame[LEN - 1] == mark);
	r->head = r->cur = after(r, r->head);
}

static void
rings_show_the_mask_and_slots_the_offset(void)
{
	struct port p = with_offsets("x{1");

	CHECK(tx(&p)->offset_mask == 0xffff && rx(&p)->offset_mask == 0xffff);
	CHECK((tx(&p)->slot[0].ptr & 0xffff) == 128);
	CHECK((tx(&p)->slot[tx(&p)->num_slots - 1].ptr & 0xffff) == 128);
}

static void
rings_without_the_option_have_no_mask(void)
{
	struct port p = bound("vale0:a");

	CHECK(tx(&p)->offset_mask == 0 && rx(&p)->offset_mask == 0);
}

static void
more_bits_than_a_pointer_has_are_einval(void)
{
	struct nmreq_opt_offsets o = usual();

	o.nro_offset_bits = 65;
	refused("x{1", 0, o, EINVAL);
}

static void
offset_beyond_the_buffer_is_einval(void)
{
	struct nmreq_opt_offsets o = usual();

	o.nro_max_offset = 2049;
	refused("x{1", 0, o, EINVAL);
}

static void
offset_that_the_bits_cannot_say_is_einval(void)
{
	struct nmreq_opt_offsets o = usual();

	o.nro_offset_bits = 8;
	refused("x{1", 0, o, EINVAL);
}

static void
first_offset_beyond_the_largest_is_einval(void)
{
	struct nmreq_opt_offsets o = usual();

	o.nro_initial_offset = 257;
	refused("x{1", 0, o, EINVAL);
}

static void
busy_port_does_not_grow_its_offsets(void)
{
	struct port first = with_offsets("x{1"), second;
	struct nmreq_opt_offsets o = usual();

	o.nro_max_offset = 512;
	refused("x{1", 0, o, EBUSY);
	o.nro_max_offset = 200;
	o.nro_offset_bits = 9;
	CHECK(bind_with(&second, "x{1", 0, &o) == 0);
	CHECK(o.nro_max_offset == 256 && o.nro_offset_bits == 16);
	CHECK(first.fd != second.fd);
}

static void
zero_copy_monitor_has_offsets_of_its_own(void)
{
	struct port p = with_offsets("x{1"), m;
	struct nmreq_opt_offsets o = usual();

	CHECK(bind_with(&m, "x{1", NR_MONITOR_TX | NR_ZCOPY_MON, &o) == 0);
	map(&m);
	send_at(&p, 64, 64, 'z');
	arrived_at(&m, 128, 'z');
}

static void
interface_moves_frames_from_offset_to_offset(void)
{
	struct port a = with_offsets("left"), b = with_offsets("right");
	struct pollfd p = { .fd = b.fd, .events = POLLIN };

	send_at(&a, 200, 200, 'i');
	CHECK(poll(&p, 1, 120000) == 1);
	arrived_at(&b, 128, 'i');
}

static void
offset_beyond_what_an_interface_leaves_is_einval(void)
{
	struct nmreq_opt_offsets o = usual();

	o.nro_max_offset = 257;
	refused("left", 0, o, EINVAL);
}

static void
pipe_carries_the_offset(void)
{
	struct port a = with_offsets("x{1"), b = with_offsets("x}1");

	send_at(&a, 200, 200, 'p');
	arrived_at(&b, 200, 'p');
}

static void
switch_moves_frames_from_offset_to_offset(void)
{
	struct port a = with_offsets("vale0:a"), b = with_offsets("vale0:b"), c = bound("vale0:c");

	send_at(&a, 200, 200, '1');
	arrived_at(&b, 128, '1');
	arrived_at(&c, 0, '1');
	/* A value above the maximum offset means the maximum. */
	send_at(&a, 0xffff, 256, '2');
	arrived_at(&b, 128, '2');
	arrived_at(&c, 0, '2');
}

static void
monitor_shows_a_frame_at_its_own_offset(void)
{
	struct port p = with_offsets("x{1"), m;
	struct nmreq_opt_offsets o = usual();

	CHECK(bind_with(&m, "x{1", NR_MONITOR_TX, &o) == 0);
	map(&m);
	send_at(&p, 64, 64, 'm');
	arrived_at(&m, 128, 'm');
}

#define SCENARIO(name) { #name, name }

static const struct scenario scenarios[] = {
	SCENARIO(rings_show_the_mask_and_slots_the_offset),
	SCENARIO(rings_without_the_option_have_no_mask),
	SCENARIO(more_bits_than_a_pointer_has_are_einval),
	SCENARIO(offset_beyond_the_buffer_is_einval),
	SCENARIO(offset_that_the_bits_cannot_say_is_einval),
	SCENARIO(first_offset_beyond_the_largest_is_einval),
	SCENARIO(busy_port_does_not_grow_its_offsets),
	SCENARIO(zero_copy_monitor_has_offsets_of_its_own),
	SCENARIO(interface_moves_frames_from_offset_to_offset),
	SCENARIO(offset_beyond_what_an_interface_leaves_is_einval),
	SCENARIO(pipe_carries_the_offset),
	SCENARIO(switch_moves_frames_from_offset_to_offset),
	SCENARIO(monitor_shows_a_frame_at_its_own_offset),
	{ NULL, NULL },
};

int
main(int argc, char **argv)
{
	return run_scenario(scenarios, argc, argv);
}
