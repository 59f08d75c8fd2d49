/* Tests of every part of slipring.h, as C11 and as C++17; the argument is the test to run. */
#include <slipring.h>

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <net/netmap_user.h>

#define CHECK(truth)                                                                         \
	do {                                                                                 \
		if (!(truth)) {                                                              \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #truth,       \
			    slipring_error_message());                                       \
			exit(1);                                                             \
		}                                                                            \
	} while (0)

static struct slipring_port *
opened(const char *name, uint32_t flags)
{
	struct slipring_options options;
	struct slipring_port *port = NULL;

	memset(&options, 0, sizeof(options));
	options.size = sizeof(options);
	options.flags = flags;
	CHECK(slipring_open(name, &options, &port) == 0);
	return port;
}

static struct slipring_stats
stats_of(struct slipring_port *port)
{
	struct slipring_stats stats;

	stats.size = sizeof(stats);
	CHECK(slipring_stats(port, SLIPRING_ALL_QUEUES, &stats) == 0);
	return stats;
}

/*
 * Passes the frames of a capture through a pipe into another capture, with rings that this program
 * moves itself.
 */
static void
capture_to_pipe_to_capture(const char *from, const char *to)
{
	char in[4096], out[4096];
	struct slipring_port *source, *sink, *left = opened("capi{1", 0), *right = opened("capi}1", 0);
	struct netmap_ring *tx, *rx;
	struct slipring_wait wait;
	unsigned char frame[4096];
	size_t len;
	uint64_t count = 0;

	snprintf(in, sizeof(in), "pcap:%s", from);
	snprintf(out, sizeof(out), "pcap:%s", to);
	source = opened(in, SLIPRING_OPEN_RX_ONLY);
	sink = opened(out, SLIPRING_OPEN_TX_ONLY);
	CHECK(slipring_tx_ring(source, 0) == NULL && slipring_rx_ring(sink, 0) == NULL);
	CHECK(slipring_share_buffers(left, right) == 1 && slipring_share_buffers(left, sink) == 0);
	tx = slipring_tx_ring(left, 0);
	rx = slipring_rx_ring(right, 0);
	CHECK(tx && rx && tx->num_slots == 1024);
	wait.port = source;
	wait.events = SLIPRING_WAIT_RX;
	for (;;) {
		CHECK(slipring_wait(&wait, 1, -1) == 1);
		while (slipring_receive(source, 0, frame, sizeof(frame), &len) == 1) {
			struct netmap_slot *slot = &tx->slot[tx->head];

			CHECK(len <= tx->nr_buf_size && nm_ring_space(tx) > 0);
			memcpy(NETMAP_BUF(tx, slot->buf_idx), frame, len);
			slot->len = (uint16_t)len;
			slot->flags = 0;
			tx->head = tx->cur = nm_ring_next(tx, tx->head);
			CHECK(slipring_tx_sync(left, 0) == 0 && slipring_rx_sync(right, 0) == 0);
			CHECK(nm_ring_space(rx) == 1);
			slot = &rx->slot[rx->head];
			CHECK(slot->len == len && memcmp(NETMAP_BUF(rx, slot->buf_idx), frame, len) == 0);
			CHECK(slipring_send(sink, 0, NETMAP_BUF(rx, slot->buf_idx), slot->len) == 1);
			rx->head = rx->cur = nm_ring_next(rx, rx->head);
			count++;
		}
		if (wait.ready & SLIPRING_WAIT_END)
			break;
	}
	CHECK(slipring_has_ended(source) == 1);
	CHECK(slipring_drain(sink, -1) == 0);
	CHECK(stats_of(source).rx_packets == count && stats_of(sink).tx_packets == count);
	CHECK(stats_of(left).tx_packets == count && stats_of(right).rx_packets == count);
	printf("%llu frames\n", (unsigned long long)count);
	slipring_close(source);
	slipring_close(left);
	slipring_close(right);
	slipring_close(sink);
}

/* Tests ports that share buffers, their properties, counters and drop reasons. */
static void
null_ports(void)
{
	const char *names[2] = { "null:@conf:rings=2", "null:" };
	struct slipring_port *ports[2];
	struct slipring_port_info info;
	uint32_t i;

	CHECK(slipring_open_all(names, 2, NULL, ports) == 0);
	info.size = sizeof(info);
	CHECK(slipring_port_info(ports[0], &info) == 0);
	CHECK(info.queues == 2 && slipring_queues(ports[0]) == 2 && info.can_send && info.can_receive);
	CHECK(info.max_slot >= 2048 && !info.has_mac && info.mtu == 0);
	CHECK(strcmp(slipring_port_kind(ports[1]), "null") == 0);
	CHECK(strcmp(slipring_port_name(ports[1]), "null:") == 0);
	CHECK(strcmp(slipring_port_mode(ports[1]), "queues=1 slots=1024") == 0);
	CHECK(slipring_share_buffers(ports[0], ports[1]) == 1);
	CHECK(slipring_forward(ports[0], ports[1], 100) == 200);
	CHECK(slipring_forward(ports[1], ports[1], 50) == 50);
	CHECK(stats_of(ports[1]).tx_packets == 250 && stats_of(ports[1]).tx_bytes == 250 * 60);
	for (i = 0; i < slipring_drop_reasons(); i++) {
		CHECK(slipring_drop_name(i) != NULL && slipring_drop_name(i)[0] != '\0');
		CHECK(slipring_dropped(ports[1], 0, i) == 0);
	}
	CHECK(slipring_drop_name(i) == NULL);
	/* Queues slots without the library's functions; one slot has no bytes. */
	{
		struct netmap_ring *ring = slipring_tx_ring(ports[1], 0);

		ring->slot[ring->head].len = 0;
		ring->head = ring->cur = nm_ring_next(ring, ring->head);
		CHECK(slipring_tx_sync(ports[1], SLIPRING_ALL_QUEUES) == 0);
		CHECK(stats_of(ports[1]).dropped == 1);
	}
	slipring_close(ports[0]);
	slipring_close(ports[1]);
	slipring_close(NULL);
}

/* Tests the descriptor in a loop of the program's own, and a cur ahead of head. */
static void
waiting(void)
{
	struct slipring_port *left = opened("waits{1", 0), *right = opened("waits}1", 0);
	struct netmap_ring *rx = slipring_rx_ring(right, 0);
	struct slipring_wait waits[2];
	struct pollfd fd;
	uint64_t until;

	fd.fd = slipring_port_fd(right);
	fd.events = POLLIN;
	CHECK(fd.fd >= 0);
	CHECK(slipring_arm(right, SLIPRING_WAIT_RX, &until) == 0 && until == SLIPRING_NEVER);
	CHECK(poll(&fd, 1, 0) == 0);
	CHECK(slipring_send(left, 0, "a frame", 7) == 1 && slipring_tx_sync(left, 0) == 0);
	CHECK(poll(&fd, 1, 120000) == 1);
	CHECK(slipring_disarm(right, SLIPRING_WAIT_RX) == SLIPRING_WAIT_RX);
	CHECK(nm_ring_space(rx) == 1);
	waits[0].port = left;
	waits[0].events = SLIPRING_WAIT_RX;
	waits[1].port = right;
	waits[1].events = SLIPRING_WAIT_RX;
	CHECK(slipring_wait(waits, 2, 0) == 1 && !waits[0].ready && waits[1].ready == SLIPRING_WAIT_RX);
	/* The program has seen the slots before cur, but still owns them. */
	rx->cur = rx->tail;
	CHECK(slipring_wait(waits, 2, 1000000) == 0 && !waits[1].ready && nm_ring_space(rx) == 1);
	CHECK(slipring_send(left, 0, "another", 7) == 1 && slipring_tx_sync(left, 0) == 0);
	CHECK(slipring_wait(waits, 2, -1) == 1 && waits[1].ready == SLIPRING_WAIT_RX);
	CHECK(nm_ring_space(rx) == 2);
	waits[0].events = SLIPRING_WAIT_TX;
	CHECK(slipring_wait(waits, 1, -1) == 1 && waits[0].ready == SLIPRING_WAIT_TX);
	slipring_close(left);
	slipring_close(right);
}

/* Tests that every error says what failed and what to try. */
static void
errors(void)
{
	struct slipring_port *port = (struct slipring_port *)&port;
	struct slipring_options options;
	struct slipring_stats stats;
	struct { struct slipring_options known; uint64_t unknown; } later;

	CHECK(slipring_open("xdp:nosuch0", NULL, &port) == SLIPRING_ERR_MACHINE && port == NULL);
	CHECK(strcmp(slipring_error_code(), "SR0102") == 0);
	CHECK(strstr(slipring_error_message(), "there is no interface `nosuch0`") != NULL);
	CHECK(strstr(slipring_error_help(), "slipring ports") != NULL);
	CHECK(slipring_open("xdp:", NULL, &port) == SLIPRING_ERR_USAGE);
	CHECK(slipring_open(NULL, NULL, &port) == SLIPRING_ERR_ARGUMENT);
	CHECK(strcmp(slipring_error_message(), "the name of a port is a null pointer") == 0);
	CHECK(slipring_open("null:", NULL, NULL) == SLIPRING_ERR_ARGUMENT);
	memset(&options, 0, sizeof(options));
	CHECK(slipring_open("null:", &options, &port) == SLIPRING_ERR_ARGUMENT);
	CHECK(strstr(slipring_error_message(), "set it to sizeof") != NULL);
	memset(&later, 0, sizeof(later));
	later.known.size = sizeof(later);
	CHECK(slipring_open("null:", &later.known, &port) == 0);
	CHECK(slipring_tx_sync(port, 1) == SLIPRING_ERR_ARGUMENT);
	stats.size = 2;
	CHECK(slipring_stats(port, 0, &stats) == SLIPRING_ERR_ARGUMENT);
	slipring_close(port);
	later.unknown = 1;
	CHECK(slipring_open("null:", &later.known, &port) == SLIPRING_ERR_ARGUMENT);
	options.size = sizeof(options);
	options.flags = 1u << 31;
	CHECK(slipring_open("null:", &options, &port) == SLIPRING_ERR_ARGUMENT);
	CHECK(slipring_tx_sync(NULL, 0) == SLIPRING_ERR_ARGUMENT);
	CHECK(slipring_rx_ring(NULL, 0) == NULL && slipring_version_string()[0] != '\0');
	CHECK(slipring_version() == SLIPRING_API_VERSION);
}

/*
 * If a program was compiled with an earlier header, the library writes no more bytes than the
 * program's structure has.
 */
static void
versions(void)
{
	struct slipring_port *port = opened("null:", 0);
	struct { struct slipring_stats stats; } place;

	memset(&place, 0x5a, sizeof(place));
	place.stats.size = offsetof(struct slipring_stats, tx_packets);
	CHECK(slipring_rx_sync(port, 0) == 0 && slipring_stats(port, 0, &place.stats) == 0);
	CHECK(place.stats.rx_packets > 0 && place.stats.rx_bytes == 60 * place.stats.rx_packets);
	CHECK(place.stats.tx_packets == UINT64_C(0x5a5a5a5a5a5a5a5a));
	slipring_close(port);
}

static const char LINKS[] =
    "[link.up]\n"
    "rate = \"8Mbit\"\n"
    "delay = \"10ms\"\n"
    "queue = \"droptail(packets=2)\"\n"
    "[link.down]\n"
    "delay = \"1ms\"\n";

/* Passes frames over a slow link, on a clock of this program. */
static void
links(const char *path)
{
	struct slipring_network *network;
	struct slipring_network_options options;
	struct slipring_delivery delivery;
	struct slipring_loss loss;
	struct slipring_link_stats stats;
	unsigned char frame[1000];
	uint64_t next, tags = 0, losses = 0;
	int entry, link;
	FILE *file = fopen(path, "w");

	CHECK(file && fputs(LINKS, file) >= 0 && fclose(file) == 0);
	memset(&options, 0, sizeof(options));
	options.size = sizeof(options);
	options.flags = SLIPRING_NETWORK_LOSSES;
	options.seed = 1;
	options.start_ns = 1000;
	CHECK(slipring_network_load(path, &options, &network) == 0);
	CHECK(slipring_network_count(network, SLIPRING_LINKS) == 2);
	CHECK(slipring_network_count(network, SLIPRING_ENTRIES) == 2);
	link = slipring_network_find(network, SLIPRING_LINKS, "up");
	CHECK(link == 0 && strcmp(slipring_network_name(network, SLIPRING_LINKS, 1), "down") == 0);
	CHECK(slipring_network_find(network, SLIPRING_LINKS, "side") == SLIPRING_ERR_USAGE);
	CHECK(strstr(slipring_error_help(), "up, down") != NULL);
	entry = 0;
	CHECK(slipring_network_next(network) == SLIPRING_NEVER);
	for (tags = 0; tags < 4; tags++) {
		memset(frame, (int)tags, sizeof(frame));
		CHECK(slipring_network_push(network, (uint32_t)entry, 1000, frame, sizeof(frame), tags) == 1);
	}
	CHECK(slipring_network_push(network, 0, 999, frame, sizeof(frame), 9) == SLIPRING_ERR_ARGUMENT);
	CHECK(slipring_network_push(network, 7, 1000, frame, sizeof(frame), 9) == SLIPRING_ERR_ARGUMENT);
	delivery.size = sizeof(delivery);
	loss.size = sizeof(loss);
	stats.size = sizeof(stats);
	CHECK(slipring_network_take(network, &delivery) == 0);
	for (tags = 0; (next = slipring_network_next(network)) != SLIPRING_NEVER;) {
		CHECK(slipring_network_run(network, next) == 0);
		while (slipring_network_take(network, &delivery) == 1) {
			CHECK(delivery.tag == tags && delivery.len == 1000 && delivery.data_len == 1000);
			CHECK(delivery.data[0] == tags && delivery.data[999] == tags);
			CHECK(delivery.arrival_ns == 1000 && delivery.link == 0);
			/*
			 * Each frame takes at least a millisecond on the line, and then the delay.
			 */
			CHECK(delivery.release_ns >= 1000 + 10000000 + (tags + 1) * 1000000);
			CHECK(strcmp(slipring_network_name(network, SLIPRING_EXITS, delivery.exit), "right") == 0);
			tags++;
		}
	}
	while (slipring_network_take_loss(network, &loss) == 1) {
		CHECK(strcmp(slipring_cause_name(loss.cause), "queue") == 0 && loss.tag >= 2);
		CHECK(loss.link == 0 && loss.len == 1000 && loss.at_ns == 1000);
		CHECK(slipring_link_dropped(network, 0, loss.cause) == 2);
		losses++;
	}
	CHECK(slipring_link_stats(network, (uint32_t)link, &stats) == 0);
	CHECK(stats.input_packets == 4 && stats.output_packets == tags && stats.dropped_packets == losses);
	CHECK(tags == 2 && losses == 2 && stats.in_flight_packets == 0);
	slipring_network_free(network);
	CHECK(slipring_network_parse("[link.up]\nrate = \"fast\"\n", NULL, &network) == SLIPRING_ERR_USAGE);
	CHECK(network == NULL && strncmp(slipring_error_code(), "SR", 2) == 0);
	CHECK(slipring_error_help()[0] != '\0');
	slipring_network_free(NULL);
}

/*
 * A caller that stores something for each tag must know which outcome of the tag is the last one.
 */
static void
copies(void)
{
	struct slipring_network *network;
	struct slipring_network_options options;
	struct slipring_delivery delivery, early;
	struct slipring_loss loss;
	unsigned char frame[100] = {0};
	uint64_t tag;
	uint32_t left[3] = {0, 0, 0}, taken = 0;
	uint32_t losses = 0;

	memset(&options, 0, sizeof(options));
	options.size = sizeof(options);
	options.flags = SLIPRING_NETWORK_LOSSES;
	CHECK(slipring_network_parse("nodes = [\"middle\"]\n"
	                             "[ports.left]\n[ports.right]\n"
	                             "[link.up]\nfrom = \"left\"\nto = \"middle\"\n"
	                             "duplicate = \"const(100%, after=1ms, copies=2)\"\n"
	                             "[link.on]\nfrom = \"middle\"\nto = \"right\"\nloss = \"nth(2)\"\n"
	                             "[link.down]\nfrom = \"right\"\nto = \"left\"\n",
	                             &options, &network) == 0);
	for (tag = 0; tag < 3; tag++)
		CHECK(slipring_network_push(network, 0, tag * 100, frame, sizeof(frame), tag) == 1);
	CHECK(slipring_network_run(network, 1000000000) == 0);
	delivery.size = sizeof(delivery);
	memset(&early, 0x5a, sizeof(early));
	early.size = offsetof(struct slipring_delivery, remaining);
	loss.size = sizeof(loss);
	/* Outcomes are counted when they are taken: all losses here, then all deliveries. */
	for (; slipring_network_take_loss(network, &loss) == 1; losses++)
		CHECK(loss.remaining + ++left[loss.tag] == 3);
	for (; slipring_network_take(network, taken ? &delivery : &early) == 1; taken++) {
		if (taken == 0) {
			CHECK(early.remaining == 0x5a5a5a5a);
			left[early.tag]++;
		} else {
			CHECK(delivery.remaining + ++left[delivery.tag] == 3);
		}
	}
	CHECK(taken + losses == 9 && losses > 0);
	CHECK(left[0] == 3 && left[1] == 3 && left[2] == 3);
	slipring_network_free(network);
}

/* The frame of a station to another one. */
static void
station_frame(unsigned char *frame, size_t len, unsigned char to, unsigned char from)
{
	memset(frame, from, len);
	memset(frame, 0, 12);
	frame[0] = frame[6] = 2;
	frame[5] = to;
	frame[11] = from;
}

/* Passes frames between three ports of a switch, each step in a call. */
static void
switches(void)
{
	struct slipring_switch *vale = NULL;
	struct slipring_switch_options options;
	struct slipring_switch_stats stats;
	struct slipring_options ring;
	struct slipring_port *ports[3], *taken = (struct slipring_port *)&vale;
	const char *names[3] = { "a", "b", "c@conf:slots=64" };
	unsigned char frame[600], got[600];
	uint32_t i, port, events, reason;
	size_t len;

	memset(&options, 0, sizeof(options));
	options.size = sizeof(options);
	options.ageing_ns = 1000;
	memset(&ring, 0, sizeof(ring));
	ring.size = sizeof(ring);
	ring.slots = 256;
	CHECK(slipring_switch_create("vale9", &options, &vale) == 0);
	for (i = 0; i < 3; i++)
		CHECK(slipring_switch_open(vale, names[i], &ring, &ports[i]) == (int)i);
	CHECK(strcmp(slipring_port_name(ports[2]), "vale9:c") == 0);
	CHECK(strcmp(slipring_port_kind(ports[0]), "vale") == 0);
	CHECK(slipring_rx_ring(ports[2], 0)->num_slots == 64 && slipring_tx_ring(ports[0], 0)->num_slots == 256);
	CHECK(slipring_switch_open(vale, "b", NULL, &taken) == SLIPRING_ERR_USAGE && taken == NULL);
	CHECK(strstr(slipring_error_message(), "vale9:b is open already") != NULL);
	CHECK(slipring_error_help()[0] != '\0');
	/* An unknown station is searched at all other ports; its answer goes to one. */
	station_frame(frame, sizeof(frame), 2, 1);
	CHECK(slipring_send(ports[0], 0, frame, sizeof(frame)) == 1 && slipring_tx_sync(ports[0], 0) == 0);
	CHECK(slipring_rx_sync(ports[1], 0) == 0 && slipring_receive(ports[1], 0, got, sizeof(got), &len) == 0);
	CHECK(slipring_switch_forward(vale, 10) == 1 && slipring_switch_forward(vale, 10) == 0);
	CHECK(slipring_switch_take_ready(vale, &port, &events) == 1 && port == 0 && events == SLIPRING_WAIT_TX);
	for (i = 1; i < 3; i++) {
		CHECK(slipring_switch_take_ready(vale, &port, &events) == 1);
		CHECK(port == i && events == SLIPRING_WAIT_RX && slipring_rx_sync(ports[i], 0) == 0);
		CHECK(slipring_receive(ports[i], 0, got, sizeof(got), &len) == 1);
		CHECK(len == sizeof(frame) && memcmp(got, frame, len) == 0);
	}
	CHECK(slipring_switch_take_ready(vale, &port, &events) == 0);
	station_frame(frame, 60, 1, 2);
	CHECK(slipring_send(ports[1], 0, frame, 60) == 1 && slipring_tx_sync(ports[1], 0) == 0);
	CHECK(slipring_switch_forward(vale, 20) == 1 && slipring_rx_sync(ports[0], 0) == 0);
	CHECK(slipring_receive(ports[0], 0, got, sizeof(got), &len) == 1 && len == 60);
	stats.size = sizeof(stats);
	CHECK(slipring_switch_stats(vale, 2, &stats) == 0 && stats.tx_packets == 1 && stats.rx_packets == 0);
	CHECK(slipring_switch_stats(vale, 0, &stats) == 0 && stats.flooded_packets == 1);
	CHECK(stats.rx_bytes == sizeof(frame) && stats.tx_bytes == 60 && stats.learned_addresses == 1);
	/* More frames than the ring of a destination holds. */
	station_frame(frame, 60, 3, 1);
	for (i = 0; i < 100; i++)
		CHECK(slipring_send(ports[0], 0, frame, 60) == 1);
	CHECK(slipring_tx_sync(ports[0], 0) == 0 && slipring_switch_forward(vale, 30) == 100);
	for (reason = 0; strcmp(slipring_switch_drop_name(reason), "destination_full") != 0; reason++)
		CHECK(slipring_switch_dropped(vale, SLIPRING_ALL_PORTS, reason) == 0);
	/* One slot is still the frame's that was received above. */
	CHECK(slipring_switch_dropped(vale, 2, reason) == 100 - 62);
	CHECK(stats_of(ports[2]).dropped == 100 - 62);
	while (slipring_switch_drop_name(reason) != NULL)
		reason++;
	CHECK(slipring_switch_dropped(vale, 2, reason) == 0);
	/* A closed port: its frames are forwarded, and its counters stay in the sum. */
	CHECK(slipring_send(ports[0], 0, frame, 60) == 1 && slipring_tx_sync(ports[0], 0) == 0);
	slipring_close(ports[0]);
	CHECK(slipring_switch_forward(vale, 40) == 1);
	CHECK(slipring_switch_stats(vale, 0, &stats) == SLIPRING_ERR_ARGUMENT);
	CHECK(slipring_switch_stats(vale, SLIPRING_ALL_PORTS, &stats) == 0 && stats.rx_packets == 103);
	CHECK(stats.rx_packets + stats.copied_packets == stats.tx_packets + stats.dropped_packets);
	CHECK(slipring_switch_open(vale, "d", NULL, &ports[0]) == 0);
	slipring_switch_free(vale);
	CHECK(slipring_send(ports[1], 0, frame, 60) == 1 && slipring_tx_sync(ports[1], 0) == 0);
	CHECK(slipring_rx_sync(ports[2], 0) == 0);
	for (i = 0; i < 3; i++)
		slipring_close(ports[i]);
	CHECK(slipring_switch_create("lan0", NULL, &vale) == SLIPRING_ERR_USAGE && vale == NULL);
	CHECK(slipring_switch_create("vale", NULL, NULL) == SLIPRING_ERR_ARGUMENT);
	CHECK(slipring_switch_forward(NULL, 0) == SLIPRING_ERR_ARGUMENT);
	slipring_switch_free(NULL);
}

/* An end of a pipe that was closed is opened again, and finds the other end. */
static void
reopened(void)
{
	struct slipring_port *left = opened("again{1", 0), *right = NULL;
	unsigned char frame[60] = {0}, got[60];
	size_t len;
	int round;

	for (round = 0; round < 3; round++) {
		right = opened("again}1", 0);
		frame[0] = (unsigned char)round;
		CHECK(slipring_send(left, 0, frame, sizeof(frame)) == 1 && slipring_tx_sync(left, 0) == 0);
		CHECK(slipring_rx_sync(right, 0) == 0);
		CHECK(slipring_receive(right, 0, got, sizeof(got), &len) == 1 && got[0] == round);
		/* It is queued, and not synced: lost with the port. */
		CHECK(slipring_send(right, 0, frame, sizeof(frame)) == 1);
		slipring_close(right);
		CHECK(slipring_rx_sync(left, 0) == 0);
		CHECK(slipring_receive(left, 0, got, sizeof(got), &len) == 0);
	}
	CHECK(slipring_open("again{1", NULL, &right) == SLIPRING_ERR_MACHINE);
	CHECK(strcmp(slipring_error_code(), "SR0112") == 0);
	slipring_close(left);
}

int
main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (strcmp(what, "captures") == 0 && argc == 4)
		capture_to_pipe_to_capture(argv[2], argv[3]);
	else if (strcmp(what, "null_ports") == 0)
		null_ports();
	else if (strcmp(what, "waiting") == 0)
		waiting();
	else if (strcmp(what, "errors") == 0)
		errors();
	else if (strcmp(what, "versions") == 0)
		versions();
	else if (strcmp(what, "switches") == 0)
		switches();
	else if (strcmp(what, "reopened") == 0)
		reopened();
	else if (strcmp(what, "copies") == 0)
		copies();
	else if (strcmp(what, "links") == 0 && argc == 3)
		links(argv[2]);
	else
		return 2;
	return 0;
}
