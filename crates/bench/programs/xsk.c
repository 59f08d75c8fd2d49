/* A plain AF_XDP program in C, with which slipring's AF_XDP ports are compared: no library, no
 * slots, one counter, and the fastest loop that the kernel's rings allow.
 *
 *   xsk tx IF SECONDS BATCH LENGTH        sends frames of LENGTH bytes
 *   xsk rx IF SECONDS BATCH LENGTH        receives and drops
 *   xsk fwd IF IF SECONDS BATCH LENGTH    receives on the first, sends on the second
 *
 * Prints one line: packets, nanoseconds of wall clock and of CPU time.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <linux/if_xdp.h>
#include <net/if.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define CHUNK 2048u
#define RING 1024u
#define CHUNKS (4 * RING)
#define TX_BUDGET_OPTION 9

struct ring {
	uint32_t *producer, *consumer, *flags;
	void *slots;
	uint32_t cached_producer, cached_consumer;
};

struct socket {
	int fd;
	struct ring fill, completion, rx, tx;
};

static uint8_t *umem;

static void die(const char *what)
{
	fprintf(stderr, "xsk: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t nanos(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void map_ring(struct ring *ring, int fd, const struct xdp_ring_offset *at, size_t slot, off_t page)
{
	uint8_t *base = mmap(NULL, at->desc + RING * slot, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, page);
	if (base == MAP_FAILED)
		die("map a ring");
	ring->producer = (uint32_t *)(base + at->producer);
	ring->consumer = (uint32_t *)(base + at->consumer);
	ring->flags = (uint32_t *)(base + at->flags);
	ring->slots = base + at->desc;
}

static void set(int fd, int option, uint32_t value)
{
	if (setsockopt(fd, SOL_XDP, option, &value, sizeof(value)) != 0)
		die("set up a ring");
}

/* The second socket registers the same memory again, because each device needs its own UMEM. */
static void open_socket(struct socket *s, const char *ifname)
{
	struct xdp_umem_reg reg = { .addr = (uintptr_t)umem, .len = (uint64_t)CHUNKS * CHUNK, .chunk_size = CHUNK };
	struct sockaddr_xdp address = { .sxdp_family = AF_XDP, .sxdp_flags = XDP_COPY | XDP_USE_NEED_WAKEUP };
	struct xdp_mmap_offsets at;
	socklen_t len = sizeof(at);
	uint32_t budget = 256;
	int buffer = 16 << 20;

	s->fd = socket(AF_XDP, SOCK_RAW, 0);
	if (s->fd < 0)
		die("open a socket");
	if (setsockopt(s->fd, SOL_XDP, XDP_UMEM_REG, &reg, sizeof(reg)) != 0)
		die("register memory");
	set(s->fd, XDP_UMEM_FILL_RING, RING);
	set(s->fd, XDP_UMEM_COMPLETION_RING, RING);
	set(s->fd, XDP_RX_RING, RING);
	set(s->fd, XDP_TX_RING, RING);
	/* Older kernels have neither of these limits. */
	(void)setsockopt(s->fd, SOL_XDP, TX_BUDGET_OPTION, &budget, sizeof(budget));
	(void)setsockopt(s->fd, SOL_SOCKET, SO_SNDBUFFORCE, &buffer, sizeof(buffer));
	if (getsockopt(s->fd, SOL_XDP, XDP_MMAP_OFFSETS, &at, &len) != 0)
		die("ask for ring offsets");
	map_ring(&s->fill, s->fd, &at.fr, 8, XDP_UMEM_PGOFF_FILL_RING);
	map_ring(&s->completion, s->fd, &at.cr, 8, XDP_UMEM_PGOFF_COMPLETION_RING);
	map_ring(&s->rx, s->fd, &at.rx, sizeof(struct xdp_desc), XDP_PGOFF_RX_RING);
	map_ring(&s->tx, s->fd, &at.tx, sizeof(struct xdp_desc), XDP_PGOFF_TX_RING);
	address.sxdp_ifindex = if_nametoindex(ifname);
	if (address.sxdp_ifindex == 0)
		die(ifname);
	/* The kernel releases the queue of a closed socket a moment later. */
	for (int tries = 0; bind(s->fd, (struct sockaddr *)&address, sizeof(address)) != 0; tries++) {
		if (errno != EBUSY || tries == 200)
			die("bind");
		usleep(5000);
	}
}

static int bpf(int command, union bpf_attr *attr)
{
	return (int)syscall(SYS_bpf, command, attr, sizeof(*attr));
}

/* return bpf_redirect_map(&map, ctx->rx_queue_index, XDP_PASS) */
static void attach_program(const struct socket *s, const char *ifname)
{
	union bpf_attr map = { .map_type = BPF_MAP_TYPE_XSKMAP, .key_size = 4, .value_size = 4, .max_entries = 1 };
	int map_fd = bpf(BPF_MAP_CREATE, &map);
	if (map_fd < 0)
		die("create a map");
	struct bpf_insn code[] = {
		{ .code = BPF_LDX | BPF_MEM | BPF_W, .dst_reg = 2, .src_reg = 1, .off = 16 },
		{ .code = BPF_LD | BPF_DW | BPF_IMM, .dst_reg = 1, .src_reg = BPF_PSEUDO_MAP_FD, .imm = map_fd },
		{ 0 },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 3, .imm = XDP_PASS },
		{ .code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_redirect_map },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	union bpf_attr load = { .prog_type = BPF_PROG_TYPE_XDP, .insns = (uintptr_t)code,
				.insn_cnt = sizeof(code) / sizeof(code[0]), .license = (uintptr_t)"Dual BSD/GPL" };
	int program = bpf(BPF_PROG_LOAD, &load);
	if (program < 0)
		die("load a program");
	uint32_t key = 0, value = (uint32_t)s->fd;
	union bpf_attr update = { .map_fd = (uint32_t)map_fd, .key = (uintptr_t)&key, .value = (uintptr_t)&value };
	if (bpf(BPF_MAP_UPDATE_ELEM, &update) != 0)
		die("fill the map");
	union bpf_attr link = { .link_create = { .prog_fd = (uint32_t)program, .target_ifindex = if_nametoindex(ifname),
						 .attach_type = BPF_XDP, .flags = XDP_FLAGS_DRV_MODE } };
	if (bpf(BPF_LINK_CREATE, &link) < 0)
		die("attach a program");
}

static uint32_t ready(struct ring *ring)
{
	if (ring->cached_producer == ring->cached_consumer)
		ring->cached_producer = __atomic_load_n(ring->producer, __ATOMIC_ACQUIRE);
	return ring->cached_producer - ring->cached_consumer;
}

static uint32_t room(struct ring *ring)
{
	uint32_t used = ring->cached_producer - ring->cached_consumer;
	if (used == RING) {
		ring->cached_consumer = __atomic_load_n(ring->consumer, __ATOMIC_ACQUIRE);
		used = ring->cached_producer - ring->cached_consumer;
	}
	return RING - used;
}

static void give(struct ring *ring)
{
	__atomic_store_n(ring->producer, ring->cached_producer, __ATOMIC_RELEASE);
}

static void take(struct ring *ring)
{
	__atomic_store_n(ring->consumer, ring->cached_consumer, __ATOMIC_RELEASE);
}

static void fill(struct ring *ring, uint64_t address)
{
	((uint64_t *)ring->slots)[ring->cached_producer++ & (RING - 1)] = address;
}

static void kick(struct socket *s)
{
	(void)sendto(s->fd, NULL, 0, MSG_DONTWAIT, NULL, 0);
}

static void make_frame(uint8_t *frame, uint32_t len)
{
	static const uint8_t ethernet[14] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 0x88, 0xb5 };
	memset(frame, 0, len);
	memcpy(frame, ethernet, sizeof(ethernet));
}

static uint64_t send_frames(struct socket *s, uint32_t batch, uint32_t len, uint64_t until)
{
	uint64_t done = 0, free_frames[RING];
	uint32_t frames = RING;
	for (uint32_t i = 0; i < RING; i++) {
		free_frames[i] = (uint64_t)i * CHUNK + 256;
		make_frame(umem + free_frames[i], len);
	}
	while (nanos(CLOCK_MONOTONIC) < until) {
		for (uint32_t left = ready(&s->completion); left > 0; left--, done++)
			free_frames[frames++] = ((uint64_t *)s->completion.slots)[s->completion.cached_consumer++ & (RING - 1)];
		take(&s->completion);
		uint32_t n = frames < batch ? frames : batch;
		for (uint32_t i = 0; i < n && room(&s->tx) > 0; i++) {
			struct xdp_desc *d = &((struct xdp_desc *)s->tx.slots)[s->tx.cached_producer++ & (RING - 1)];
			*d = (struct xdp_desc){ .addr = free_frames[--frames], .len = len };
		}
		give(&s->tx);
		kick(s);
	}
	return done;
}

static uint64_t receive(struct socket *s, uint32_t batch, uint64_t until)
{
	uint64_t done = 0;
	volatile uint8_t sink;
	for (uint32_t i = 0; i < RING; i++)
		fill(&s->fill, (uint64_t)i * CHUNK);
	give(&s->fill);
	while (nanos(CLOCK_MONOTONIC) < until) {
		uint32_t n = ready(&s->rx);
		if (n > batch)
			n = batch;
		for (uint32_t i = 0; i < n; i++) {
			struct xdp_desc d = ((struct xdp_desc *)s->rx.slots)[s->rx.cached_consumer++ & (RING - 1)];
			sink = umem[d.addr];
			fill(&s->fill, d.addr);
		}
		if (n > 0) {
			take(&s->rx);
			give(&s->fill);
		}
		done += n;
	}
	(void)sink;
	return done;
}

static uint64_t forward(struct socket *from, struct socket *to, uint32_t batch, uint64_t until)
{
	uint64_t done = 0, spare[CHUNKS];
	uint32_t spares = 0;
	for (uint32_t i = 0; i < CHUNKS; i++)
		spare[spares++] = (uint64_t)i * CHUNK;
	while (nanos(CLOCK_MONOTONIC) < until) {
		for (uint32_t left = ready(&to->completion); left > 0; left--, done++)
			spare[spares++] = ((uint64_t *)to->completion.slots)[to->completion.cached_consumer++ & (RING - 1)] & ~(uint64_t)(CHUNK - 1);
		take(&to->completion);
		while (spares > 0 && room(&from->fill) > 0)
			fill(&from->fill, spare[--spares]);
		give(&from->fill);
		uint32_t n = ready(&from->rx);
		if (n > batch)
			n = batch;
		for (uint32_t i = 0; i < n && room(&to->tx) > 0; i++) {
			struct xdp_desc d = ((struct xdp_desc *)from->rx.slots)[from->rx.cached_consumer++ & (RING - 1)];
			((struct xdp_desc *)to->tx.slots)[to->tx.cached_producer++ & (RING - 1)] = (struct xdp_desc){ .addr = d.addr, .len = d.len };
		}
		take(&from->rx);
		give(&to->tx);
		if (__atomic_load_n(to->tx.consumer, __ATOMIC_RELAXED) != to->tx.cached_producer)
			kick(to);
	}
	return done;
}

int main(int argc, char **argv)
{
	int two = argc == 7 && strcmp(argv[1], "fwd") == 0;
	if (!two && argc != 6) {
		fprintf(stderr, "usage: xsk tx|rx IF SECONDS BATCH LENGTH | xsk fwd IF IF SECONDS BATCH LENGTH\n");
		return 2;
	}
	double seconds = atof(argv[argc - 3]);
	uint32_t batch = (uint32_t)atoi(argv[argc - 2]), len = (uint32_t)atoi(argv[argc - 1]);
	if (!(seconds > 0 && seconds <= 60) || batch == 0 || batch > RING || len < 60 || len > 1514) {
		fprintf(stderr, "xsk: SECONDS is at most 60, BATCH from 1 to %u, LENGTH from 60 to 1514\n", RING);
		return 2;
	}
	umem = mmap(NULL, (size_t)CHUNKS * CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (umem == MAP_FAILED)
		die("map memory");

	struct socket first = { 0 }, second = { 0 };
	uint64_t packets;
	open_socket(&first, argv[2]);
	if (strcmp(argv[1], "tx") != 0)
		attach_program(&first, argv[2]);
	if (two)
		open_socket(&second, argv[3]);
	uint64_t start = nanos(CLOCK_MONOTONIC), cpu = nanos(CLOCK_PROCESS_CPUTIME_ID);
	uint64_t until = start + (uint64_t)(seconds * 1e9);
	if (two)
		packets = forward(&first, &second, batch, until);
	else if (strcmp(argv[1], "rx") == 0)
		packets = receive(&first, batch, until);
	else
		packets = send_frames(&first, batch, len, until);
	printf("%llu %llu %llu\n", (unsigned long long)packets, (unsigned long long)(nanos(CLOCK_MONOTONIC) - start),
	       (unsigned long long)(nanos(CLOCK_PROCESS_CPUTIME_ID) - cpu));
	return 0;
}
