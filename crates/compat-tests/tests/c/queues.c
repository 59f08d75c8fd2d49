/*
 * Tests of queues of an interface, synced in the program: `near` and `far` are the ends of a cable.
 */
#define NETMAP_WITH_LIBS
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <net/netmap_user.h>

#include "check.h"
#include "lent_queues.h"
#include "shut.h"

enum { LEN = 100 };

static struct nm_desc *
opened(const char *name)
{
	struct nm_desc *d = nm_open(name, NULL, 0, NULL);

	CHECK(d);
	return d;
}

static int
is_lent(struct nm_desc *d)
{
	return nm_inprocess && nm_inprocess->active(d->fd) > 0;
}

static int
is_wished(void)
{
	return getenv("NETMAP_INPROCESS")[0] != '0';
}

static void
make(unsigned char *frame, uint32_t number)
{
	int i;

	memset(frame, 0xff, 6);
	memset(frame + 6, 2, 6);
	frame[12] = 0x88, frame[13] = 0xb5;
	memcpy(frame + 14, &number, 4);
	for (i = 18; i < LEN; i++)
		frame[i] = (unsigned char)(number + (uint32_t)i);
}

/* Returns the number of a complete frame of this test; 0 for other frames. */
static uint32_t
number_of(const unsigned char *got, uint32_t len)
{
	unsigned char frame[LEN];
	uint32_t number;

	if (len < 18 || got[12] != 0x88 || got[13] != 0xb5)
		return 0;
	memcpy(&number, got + 14, 4);
	make(frame, number);
	CHECK(len == LEN && memcmp(got, frame, LEN) == 0);
	return number;
}

static void
sync_tx(struct nm_desc *d)
{
	CHECK(ioctl(d->fd, NIOCTXSYNC, NULL) == 0);
}

/* Sends the frames from..to, a batch at a time. */
static void
send_frames(struct nm_desc *d, uint32_t from, uint32_t to)
{
	unsigned char frame[LEN];

	for (; from < to; from++) {
		make(frame, from);
		while (nm_inject(d, frame, LEN) != LEN)
			sync_tx(d);
	}
	sync_tx(d);
}

/*
 * Receives exactly these frames, in order. Also syncs the sender, because its sync is skipped while
 * another party syncs the ring.
 */
static void
receive_frames(struct nm_desc *sender, struct nm_desc *d, uint32_t from, uint32_t to)
{
	struct nm_pkthdr h;
	unsigned char *got;
	int tries = 0;

	while (from < to) {
		CHECK(ioctl(d->fd, NIOCRXSYNC, NULL) == 0);
		while ((got = nm_nextpkt(d, &h)) != NULL) {
			uint32_t number = number_of(got, h.len);

			if (number) {
				CHECK(number == from);
				from++, tries = 0;
			}
		}
		if (from < to) {
			CHECK(tries++ < 120000);
			sync_tx(sender);
			usleep(1000);
		}
	}
}

static void
exchange(struct nm_desc *a, struct nm_desc *b, int rounds)
{
	static uint32_t next = 1;

	for (; rounds > 0; rounds--, next += 200) {
		send_frames(a, next, next + 200);
		receive_frames(a, b, next, next + 200);
		send_frames(b, next, next + 200);
		receive_frames(b, a, next, next + 200);
	}
}

static void
an_interface_is_synced_in_the_program_without_the_device(void)
{
	struct nm_desc *a = opened("netmap:near"), *b = opened("netmap:far");
	int kept[2] = { -1, -1 };

	CHECK(is_lent(a) == is_wished() && is_lent(b) == is_wished());
	if (is_wished())
		kept[0] = shut(a), kept[1] = shut(b);
	exchange(a, b, 50);
	if (is_wished()) {
		CHECK(ioctl(a->fd, NIOCGINFO, &a->req) != 0);
		open_again(a, kept[0]), open_again(b, kept[1]);
	}
	nm_close(a);
	nm_close(b);
}

static void *
sends_later(void *arg)
{
	usleep(100000);
	send_frames(arg, 1, 2);
	return NULL;
}

/*
 * Tests both kinds of poll: of the descriptor alone, and together with another descriptor, which
 * the device answers.
 */
static void
who_sleeps_is_woken_by_a_frame(void)
{
	struct nm_desc *a = opened("netmap:near"), *b = opened("netmap:far");
	nfds_t count;

	for (count = 1; count <= 2; count++) {
		struct pollfd p[2] = { { b->fd, POLLIN, 0 }, { -1, POLLIN, 0 } };
		struct nm_pkthdr h;
		unsigned char *got;
		pthread_t t;
		int frames = 0;

		CHECK(pthread_create(&t, NULL, sends_later, a) == 0);
		while (frames == 0) {
			CHECK(poll(p, count, 120000) == 1 && p[0].revents == POLLIN);
			while ((got = nm_nextpkt(b, &h)) != NULL)
				frames += number_of(got, h.len) == 1;
		}
		CHECK(frames == 1 && pthread_join(t, NULL) == 0);
	}
	nm_close(a);
	nm_close(b);
}

/* The device does the syncs of a second opener, and takes turns with the syncs in this process. */
static void
two_openers_of_an_interface_take_turns(void)
{
	struct nm_desc *a = opened("netmap:near"), *b = opened("netmap:far"), *again = opened("netmap:near");
	int i;

	CHECK(!is_lent(again));
	for (i = 0; i < 40; i++) {
		exchange(a, b, 1);
		CHECK(ioctl(again->fd, NIOCTXSYNC, NULL) == 0 && ioctl(again->fd, NIOCRXSYNC, NULL) == 0);
	}
	nm_close(again);
	exchange(a, b, 3);
	nm_close(a);
	nm_close(b);
}

static void
an_interface_is_closed_and_opened_again(void)
{
	int i;

	for (i = 0; i < 10; i++) {
		struct nm_desc *a = opened("netmap:near"), *b = opened("netmap:far");

		CHECK(is_lent(a) == is_wished());
		exchange(a, b, 2);
		nm_close(a);
		nm_close(b);
	}
}

static void
packets_of_several_slots_are_the_devices(void)
{
	struct nm_desc *a = opened("netmap:near"), *b = opened("netmap:far");
	struct netmap_ring *tx = NETMAP_TXRING(a->nifp, a->first_tx_ring);
	unsigned char frame[LEN], *got = NULL;
	struct nm_pkthdr h;
	uint32_t i;
	int tries;

	for (i = 1; i < 20; i++) {
		uint32_t cur = tx->cur, next = nm_ring_next(tx, cur);

		make(frame, i);
		memcpy(NETMAP_BUF(tx, tx->slot[cur].buf_idx), frame, 50);
		memcpy(NETMAP_BUF(tx, tx->slot[next].buf_idx), frame + 50, LEN - 50);
		tx->slot[cur].len = 50, tx->slot[cur].flags = NS_MOREFRAG;
		tx->slot[next].len = LEN - 50, tx->slot[next].flags = 0;
		tx->head = tx->cur = nm_ring_next(tx, next);
		sync_tx(a);
		for (tries = 0; tries < 120000; tries++) {
			CHECK(ioctl(b->fd, NIOCRXSYNC, NULL) == 0);
			while ((got = nm_nextpkt(b, &h)) != NULL && number_of(got, h.len) != i)
				;
			if (got)
				break;
			usleep(1000);
		}
		CHECK(got);
		exchange(a, b, 1);
	}
	nm_close(a);
	nm_close(b);
}

static void
a_monitor_sees_what_the_program_would_sync_itself(void)
{
	struct nm_desc *a = opened("netmap:near"), *b = opened("netmap:far"), *m;
	struct nm_pkthdr h;
	unsigned char *got;
	uint32_t sent = 0, came = 0, number;

	exchange(a, b, 2);
	m = opened("netmap:near/rt");
	send_frames(a, 1000001, 1000101);
	receive_frames(a, b, 1000001, 1000101);
	send_frames(b, 2000001, 2000101);
	receive_frames(b, a, 2000001, 2000101);
	CHECK(ioctl(m->fd, NIOCRXSYNC, NULL) == 0);
	while ((got = nm_nextpkt(m, &h)) != NULL)
		if ((number = number_of(got, h.len)) != 0) {
			CHECK(number > 1000000);
			sent += number < 2000000;
			came += number > 2000000;
		}
	CHECK(sent == 100 && came == 100);
	nm_close(m);
	exchange(a, b, 2);
	nm_close(a);
	nm_close(b);
}

/* Asserts that each buffer is in the rings exactly once. */
static void
no_buffer_is_lost(struct nm_desc *d)
{
	static unsigned char seen[1 << 20];
	struct netmap_ring *rings[2] = { NETMAP_TXRING(d->nifp, 0), NETMAP_RXRING(d->nifp, 0) };
	uint32_t i, k;

	memset(seen, 0, sizeof(seen));
	for (k = 0; k < 2; k++)
		for (i = 0; i < rings[k]->num_slots; i++) {
			uint32_t buf = rings[k]->slot[i].buf_idx;

			CHECK(buf >= 2 && buf < sizeof(seen) && !seen[buf]);
			seen[buf] = 1;
		}
}

static void
exchange_forever(void)
{
	struct nm_desc *a = opened("netmap:near");
	unsigned char frame[LEN];
	struct nm_pkthdr h;

	CHECK(is_lent(a) == is_wished());
	make(frame, 7);
	for (;;) {
		nm_inject(a, frame, LEN);
		nm_inject(a, frame, LEN);
		ioctl(a->fd, NIOCTXSYNC, NULL);
		ioctl(a->fd, NIOCRXSYNC, NULL);
		while (nm_nextpkt(a, &h))
			;
	}
}

/* A second opener keeps the interface bound, and continues where the first one was killed. */
static void
a_program_killed_in_mid_sync_leaves_all_as_it_should_be(void)
{
	const char *wish = getenv("NETMAP_INPROCESS");
	struct nm_desc *keeps, *b;
	struct nm_pkthdr h;
	unsigned char *got;
	int round, i;

	wish = wish[0] == '0' ? "0" : "1";
	setenv("NETMAP_INPROCESS", "0", 1);
	keeps = opened("netmap:near");
	for (round = 0; round < 10; round++) {
		pid_t pid = fork();

		CHECK(pid >= 0);
		if (pid == 0) {
			setenv("NETMAP_INPROCESS", wish, 1);
			exchange_forever();
		}
		b = opened("netmap:far");
		for (i = 0; i < 30 + round * 12; i++) {
			unsigned char frame[LEN];

			make(frame, 9);
			nm_inject(b, frame, LEN);
			CHECK(ioctl(b->fd, NIOCTXSYNC, NULL) == 0 && ioctl(b->fd, NIOCRXSYNC, NULL) == 0);
			while ((got = nm_nextpkt(b, &h)) != NULL)
				number_of(got, h.len);
			usleep(100 + round * 4);
		}
		CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
		/*
		 * Frames of the killed program may still arrive or be in flight: wait until the
		 * device has noticed the program's end and all sent frames are complete.
		 */
		for (i = 0; i < 100 || (nm_tx_pending(NETMAP_TXRING(keeps->nifp, 0)) && i < 600000); i++) {
			CHECK(ioctl(keeps->fd, NIOCRXSYNC, NULL) == 0 && ioctl(keeps->fd, NIOCTXSYNC, NULL) == 0);
			while (nm_nextpkt(keeps, &h))
				;
			CHECK(ioctl(b->fd, NIOCRXSYNC, NULL) == 0);
			while (nm_nextpkt(b, &h))
				;
			usleep(200);
		}
		no_buffer_is_lost(keeps);
		exchange(keeps, b, 2);
		nm_close(b);
	}
	nm_close(keeps);
}

/*
 * A program that corrupts the words that were lent to it loses its syncs; the next program finds
 * consistent rings.
 */
static void
words_that_make_no_sense_hurt_who_wrote_them(void)
{
	int round;

	for (round = 0; round < 6; round++) {
		pid_t pid = fork();
		struct nm_desc *a, *b;
		int status;

		CHECK(pid >= 0);
		if (pid == 0) {
			static struct nm_lent_queues lent;
			struct nm_nic_queue *q;
			char *mem;
			uint64_t *words;
			uint32_t i;

			if (!is_wished())
				_exit(0);
			/* Syncs without the library, because the library keeps to the rules. */
			CHECK(setenv("NETMAP_INPROCESS", "0", 1) == 0);
			srand((unsigned)round);
			a = opened("netmap:near");
			b = opened("netmap:far");
			exchange(a, b, 1);
			q = nm_nic_start(a->fd, a->memsize, &lent);
			CHECK(q);
			mem = (char *)a->mem;
			words = (uint64_t *)(void *)(mem + q->lent.words);
			for (i = 0; i < 200; i++) {
				uint32_t *indices[8] = { q->fill.producer, q->fill.consumer, q->rx.producer,
				    q->rx.consumer, q->tx.producer, q->tx.consumer, q->completion.producer,
				    q->completion.consumer };
				uint32_t *index = indices[rand() % 8];

				switch (rand() % 3) {
				case 0:
					words[rand() % 32] = (uint64_t)(rand() % 3 ? rand() % 4 : rand());
					break;
				case 1:
					*index = rand() % 2 ? *index + (uint32_t)rand() % 64 : (uint32_t)rand();
					break;
				default:
					((uint64_t *)q->rx.cells)[rand() % 64] = (uint64_t)rand() << 20 ^ (uint64_t)rand();
				}
				(ioctl)(a->fd, NIOCTXSYNC, NULL);
				(ioctl)(a->fd, NIOCRXSYNC, NULL);
			}
			_exit(0);
		}
		CHECK(waitpid(pid, &status, 0) == pid && status == 0);
		a = opened("netmap:near");
		b = opened("netmap:far");
		exchange(a, b, 1);
		nm_close(a);
		nm_close(b);
	}
}

static void
who_keeps_a_socket_keeps_the_queue(void)
{
	struct nm_desc *a = opened("netmap:near");
	int kept, error;

	CHECK(is_lent(a) == is_wished());
	if (!is_wished())
		return;
	kept = dup(nm_inprocess->socket(a->fd, 0));
	CHECK(kept >= 0);
	nm_close(a);
	a = nm_open("netmap:near", NULL, 0, NULL);
	error = errno;
	CHECK(!a && error == EBUSY);
	close(kept);
	nm_close(opened("netmap:near"));
}

static void
shell(const char *command)
{
	CHECK(system(command) == 0);
}

/*
 * Once a sleeping program was woken because the interface is gone, each of its syncs fails, even
 * without frames.
 */
static void
is_told(struct nm_desc *d)
{
	struct pollfd p = { .fd = d->fd, .events = POLLIN };
	int i;

	CHECK(poll(&p, 1, 120000) == 1 && p.revents & POLLERR);
	for (i = 0; i < 100; i++) {
		CHECK(ioctl(d->fd, NIOCRXSYNC, NULL) == -1 && errno == EIO);
		CHECK(ioctl(d->fd, NIOCTXSYNC, NULL) == -1 && errno == EIO);
	}
}

static void
an_interface_that_is_down_is_silent_and_goes_on_when_it_is_up(void)
{
	struct nm_desc *a = opened("netmap:near"), *b = opened("netmap:far");
	struct pollfd p = { .fd = a->fd, .events = POLLIN };
	int kept, i;

	exchange(a, b, 1);
	shell("ip link set near down");
	for (i = 0; i < 100; i++) {
		CHECK(ioctl(a->fd, NIOCRXSYNC, NULL) == 0);
		CHECK(ioctl(a->fd, NIOCTXSYNC, NULL) == 0);
	}
	CHECK(poll(&p, 1, 100) == 0);
	/* Frames sent while the interface is down wait. */
	send_frames(a, 1, 50);
	shell("ip link set near up");
	receive_frames(a, b, 1, 50);
	exchange(a, b, 1);
	exchange(b, a, 1);
	if (is_wished()) {
		/* The program syncs in its own process again. */
		kept = shut(a);
		exchange(b, a, 1);
		open_again(a, kept);
	}
	nm_close(a);
	nm_close(b);
}

static void
an_interface_that_comes_again_is_another_one(void)
{
	struct nm_desc *old = opened("netmap:near"), *a, *b;

	shell("ip link del near");
	CHECK(!nm_open("netmap:near", NULL, 0, NULL) && errno == ENXIO);
	is_told(old);
	shell("ip link add near numtxqueues 1 numrxqueues 1 type veth peer name far numtxqueues 1 numrxqueues 1"
	    " && ip link set near addrgenmode none up && ip link set far addrgenmode none up");
	a = opened("netmap:near");
	b = opened("netmap:far");
	exchange(a, b, 2);
	is_told(old);
	nm_close(old);
	exchange(b, a, 1);
	nm_close(a);
	nm_close(b);
}

/*
 * Closes a port without notifying the library, and gives the descriptor's number to another file.
 */
static int
close_unsaid(struct nm_desc *d, int other[2])
{
	int fd = d->fd;

	CHECK(munmap(d->mem, d->memsize) == 0 && close(fd) == 0 && pipe(other) == 0 && other[0] == fd);
	free(d);
	return fd;
}

static void
a_number_that_was_closed_unsaid_is_another_files(void)
{
	const char *names[] = { "netmap:x{1", "netmap:near" };
	struct nm_desc *a, *b;
	int i, tries;

	for (i = 0; i < 2; i++) {
		struct pollfd p = { .events = POLLIN | POLLOUT };
		int other[2];

		p.fd = close_unsaid(opened(names[i]), other);
		/* The device notices the close a moment later. */
		for (tries = 0; poll(&p, 1, 0) != 0; tries++) {
			CHECK(tries < 120000);
			usleep(1000);
		}
		CHECK(ioctl(p.fd, NIOCTXSYNC, NULL) == -1 && errno == ENOTTY);
		CHECK(write(other[1], "x", 1) == 1 && poll(&p, 1, 0) == 1 && p.revents == POLLIN);
		close(other[0]);
		close(other[1]);
	}
	for (i = 0; i < 50; i++) {
		a = opened("netmap:x{1");
		CHECK(munmap(a->mem, a->memsize) == 0 && close(a->fd) == 0);
		free(a);
	}
	a = opened("netmap:x{1");
	CHECK(is_wished() == (nm_inprocess && nm_inprocess->active(a->fd) != 0));
	b = opened("netmap:x}1");
	exchange(a, b, 1);
	nm_close(a);
	nm_close(b);
	a = opened("netmap:near");
	CHECK(is_wished() == is_lent(a));
	b = opened("netmap:far");
	exchange(a, b, 1);
	nm_close(a);
	nm_close(b);
}

/* Syncs until there is an error; all later syncs must fail, too. */
static void
is_deserted(struct nm_desc *d)
{
	time_t start = time(NULL);
	int i;

	while (ioctl(d->fd, NIOCTXSYNC, NULL) == 0 && ioctl(d->fd, NIOCRXSYNC, NULL) == 0)
		CHECK(time(NULL) - start < 30);
	for (i = 0; i < 100; i++) {
		CHECK(ioctl(d->fd, NIOCTXSYNC, NULL) == -1 && (errno == ENOTCONN || errno == EIO));
		CHECK(ioctl(d->fd, NIOCRXSYNC, NULL) == -1 && (errno == ENOTCONN || errno == EIO));
	}
}

/* The variable DAEMON contains the process id of the daemon. */
static void
the_end_of_the_daemon_is_told_to_who_never_sleeps(void)
{
	const char *names[] = { "netmap:near", "netmap:far", "netmap:x{1", "netmap:x}1", "vale0:a" };
	struct nm_desc *d[5];
	int i;

	for (i = 0; i < 5; i++)
		d[i] = opened(names[i]);
	exchange(d[0], d[1], 1);
	exchange(d[2], d[3], 1);
	CHECK(kill(atoi(getenv("DAEMON")), SIGKILL) == 0);
	for (i = 0; i < 5; i++)
		is_deserted(d[i]);
	for (i = 0; i < 5; i++)
		nm_close(d[i]);
}

#define SCENARIO(name) { #name, name }

static const struct scenario scenarios[] = {
	SCENARIO(an_interface_is_synced_in_the_program_without_the_device),
	SCENARIO(who_sleeps_is_woken_by_a_frame),
	SCENARIO(two_openers_of_an_interface_take_turns),
	SCENARIO(an_interface_is_closed_and_opened_again),
	SCENARIO(packets_of_several_slots_are_the_devices),
	SCENARIO(a_monitor_sees_what_the_program_would_sync_itself),
	SCENARIO(a_program_killed_in_mid_sync_leaves_all_as_it_should_be),
	SCENARIO(who_keeps_a_socket_keeps_the_queue),
	SCENARIO(words_that_make_no_sense_hurt_who_wrote_them),
	SCENARIO(an_interface_that_is_down_is_silent_and_goes_on_when_it_is_up),
	SCENARIO(an_interface_that_comes_again_is_another_one),
	SCENARIO(a_number_that_was_closed_unsaid_is_another_files),
	SCENARIO(the_end_of_the_daemon_is_told_to_who_never_sleeps),
	{ NULL, NULL },
};

int
main(int argc, char **argv)
{
	return run_scenario(scenarios, argc, argv);
}
