/*
 * libslipring: ports of every kind, their rings, waiting, counters, and emulated links.
 * SPDX-License-Identifier: BSD-2-Clause
 *
 *   struct slipring_port *port;
 *   if (slipring_open("netmap:eth1", NULL, &port) < 0)
 *           errx(1, "%s; try: %s", slipring_error_message(), slipring_error_help());
 *   struct netmap_ring *ring = slipring_rx_ring(port, 0);       (net/netmap_user.h has its macros)
 *   struct slipring_wait wait = { port, SLIPRING_WAIT_RX, 0 };
 *   while (slipring_wait(&wait, 1, -1) >= 0)
 *           for (; !nm_ring_empty(ring); ring->head = ring->cur = nm_ring_next(ring, ring->head))
 *                   use(NETMAP_BUF(ring, ring->slot[ring->head].buf_idx));
 *   slipring_close(port);
 *
 * Link with -lslipring; pkg-config knows it as `slipring`. docs/c-api.md has a whole program.
 *
 * Results. A function that returns int returns a status: 0 or more when it succeeds, one of the
 * SLIPRING_ERR_ numbers otherwise. What failed and what to try next then stand in texts of the
 * calling thread. Functions that return a pointer return NULL instead.
 *
 * Threads. All functions may be called from any thread. Calls on the same queue, or on the same
 * network, wait for each other; calls on different queues run in parallel. The slots of a ring
 * between head and tail belong to the program: its own threads have to agree on who uses them.
 * Closing a port or freeing a network must be the last call on it.
 *
 * Versions. Structures with a `size` begin with it: set it to sizeof before the call. Functions and
 * fields are added and never changed, and SLIPRING_API_VERSION grows: a program runs with every
 * library whose slipring_version() is not lower than the number it was compiled with.
 */
#ifndef SLIPRING_H
#define SLIPRING_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SLIPRING_API_VERSION 1

/* ---- errors ---- */

#define SLIPRING_ERR_USAGE (-1)    /* a name, value or file that cannot be */
#define SLIPRING_ERR_MACHINE (-2)  /* the machine cannot: privilege, kernel, interface */
#define SLIPRING_ERR_PEER (-3)     /* the port was lost while in use */
#define SLIPRING_ERR_ARGUMENT (-4) /* an argument that no caller should pass: NULL, no such queue */
#define SLIPRING_ERR_LEFT_OUT (-5) /* this library was built without it */
#define SLIPRING_ERR_DEFECT (-6)   /* a defect of the library; close what the call was made for */

/* SLIPRING_API_VERSION of the library, and the version of slipring that it belongs to. */
uint32_t slipring_version(void);
const char *slipring_version_string(void);

/*
 * This thread's last error: its code ("SR0107", or "" for one that has none; `slipring explain CODE`
 * tells more), what failed and why, and what to try next ("" if nothing). Never NULL; the texts stay
 * until the thread's next error.
 */
const char *slipring_error_code(void);
const char *slipring_error_message(void);
const char *slipring_error_help(void);

/* ---- ports ---- */

struct slipring_port;
struct netmap_ring; /* net/netmap.h */

#define SLIPRING_ALL_QUEUES UINT32_C(0xffffffff)
#define SLIPRING_NEVER UINT64_C(0xffffffffffffffff)

#define SLIPRING_OPEN_SHARED 1            /* leave the interface to the host's stack as well */
#define SLIPRING_OPEN_TAKE_OVER 2         /* allow the interface that carries the default route */
#define SLIPRING_OPEN_NO_PROMISC 4        /* receive only frames for this host */
#define SLIPRING_OPEN_EXIT_ON_LINK_DOWN 8 /* an interface that goes down ends the port */
#define SLIPRING_OPEN_RX_ONLY 16          /* only receive: a capture is read */
#define SLIPRING_OPEN_TX_ONLY 32          /* only send: a capture is written, over one that exists */

#define SLIPRING_XDP_BEST 0     /* the best way into an interface; slipring_port_mode tells which */
#define SLIPRING_XDP_ZEROCOPY 1 /* this one or none */
#define SLIPRING_XDP_NATIVE 2
#define SLIPRING_XDP_GENERIC 3

struct slipring_options {
	uint32_t size;         /* sizeof(struct slipring_options) */
	uint32_t flags;        /* SLIPRING_OPEN_ */
	uint32_t slots;        /* of each ring; 0: 1024 */
	uint32_t buf_size;     /* bytes of a buffer; 0: what suits the ports */
	uint32_t xdp_mode;     /* SLIPRING_XDP_ */
	uint32_t busy_poll_us; /* busy-poll the device so long per system call */
	const char *run_dir;   /* run directory of the daemon whose pipes are meant; NULL: pipes are of this process */
};

/*
 * Opens a port of any kind by its name: netmap:eth0, eth0-2, eth0^, xdp:, packet:, tap:, vhost:,
 * x{1 and x}1 (the ends of a pipe), vale0:a, kernel:, pcap:FILE, null:. options may be NULL.
 * *port is NULL after an error. Both ends of a pipe may be opened by one process.
 */
int slipring_open(const char *name, const struct slipring_options *options, struct slipring_port **port);

/*
 * Opens `count` ports at once, in one piece of memory where their kinds allow it: slipring_forward
 * moves frames between them without a copy, and the program may exchange buf_idx of their slots
 * (and set NS_BUF_CHANGED). All entries of `ports` are NULL after an error.
 */
int slipring_open_all(const char *const *names, size_t count, const struct slipring_options *options, struct slipring_port **ports);

/* What was queued and not synced is lost; slipring_drain first. NULL is fine. */
void slipring_close(struct slipring_port *port);

/* The name that it was opened by, its kind ("xdp", "pipe", ...), and the mode in use: "key=value ..." */
const char *slipring_port_name(struct slipring_port *port);
const char *slipring_port_kind(struct slipring_port *port);
const char *slipring_port_mode(struct slipring_port *port);

struct slipring_port_info {
	uint32_t size;        /* sizeof(struct slipring_port_info) */
	uint32_t queues;
	uint32_t can_receive, can_send;
	uint32_t max_packet;  /* bytes of the longest packet, without CRC, over several slots */
	uint32_t max_slot;    /* bytes that one slot should carry at most */
	uint32_t mtu;         /* 0: it has none */
	uint32_t has_mac;
	uint8_t mac[6];
	uint8_t reserved[2];
};

int slipring_port_info(struct slipring_port *port, struct slipring_port_info *info);

/* ---- rings ---- */

/* Number of queues; each has a tx and an rx ring. */
int slipring_queues(struct slipring_port *port);

/*
 * The rings, as net/netmap.h has them: with head, cur and tail to be moved as netmap has it, and
 * NETMAP_BUF to find a slot's buffer. NULL for a direction that the port does not have. They stay
 * where they are until the port is closed; nothing moves but by a sync or a wait.
 */
struct netmap_ring *slipring_tx_ring(struct slipring_port *port, uint32_t queue);
struct netmap_ring *slipring_rx_ring(struct slipring_port *port, uint32_t queue);

/* 1 if buffers may be exchanged between slots of the two ports' rings, else 0. */
int slipring_share_buffers(struct slipring_port *one, struct slipring_port *other);

/*
 * Send the slots before head, and free those that were sent; give slots before head back, and take
 * what has arrived. Neither blocks. `queue` may be SLIPRING_ALL_QUEUES.
 */
int slipring_tx_sync(struct slipring_port *port, uint32_t queue);
int slipring_rx_sync(struct slipring_port *port, uint32_t queue);

/* 1 if no frame will ever arrive again (the end of a capture), else 0. */
int slipring_has_ended(struct slipring_port *port);

/* Queues a copy of a frame for the next tx sync; 1, or 0 if there is no room for it. */
int slipring_send(struct slipring_port *port, uint32_t queue, const void *frame, size_t len);

/*
 * Takes a frame off the rx ring: copies up to `size` bytes of it to `buffer`, and its whole length
 * to *len. 1, or 0 if there is none.
 */
int slipring_receive(struct slipring_port *port, uint32_t queue, void *buffer, size_t size, size_t *len);

/* Rx sync, up to `max` slots of each queue from port to port, tx sync. How many were moved. */
int slipring_forward(struct slipring_port *from, struct slipring_port *to, uint32_t max);

/* Syncs until all that was queued has left, or time is up (negative: never). Slots still under way. */
int slipring_drain(struct slipring_port *port, int64_t timeout_ns);

/* ---- waiting ---- */

#define SLIPRING_WAIT_RX 1 /* frames behind cur of an rx ring */
#define SLIPRING_WAIT_TX 2 /* slots behind cur of a tx ring */
#define SLIPRING_WAIT_END 4 /* told only: no frame will ever arrive again */

struct slipring_wait {
	struct slipring_port *port;
	uint32_t events; /* wanted */
	uint32_t ready;  /* told */
};

/*
 * Syncs what is waited for, and sleeps until a port is ready or time is up (negative: never); a
 * signal ends it early. How many ports are ready, which may be 0.
 */
int slipring_wait(struct slipring_wait *waits, size_t count, int64_t timeout_ns);

/*
 * The same in a loop of the program's own. slipring_arm syncs, and prepares the descriptor
 * slipring_port_fd for a sleep: it becomes readable (POLLIN) when `events` may be ready. What is
 * ready at once, SLIPRING_WAIT_ bits: then do not sleep. *until_ns: sleep no longer than that, a time
 * of CLOCK_MONOTONIC, or SLIPRING_NEVER. After the sleep, slipring_disarm with the same events syncs
 * and returns what is ready. Nothing is to be read from the descriptor, and another thread may be
 * the one that polls it.
 */
int slipring_port_fd(struct slipring_port *port);
int slipring_arm(struct slipring_port *port, uint32_t events, uint64_t *until_ns);
int slipring_disarm(struct slipring_port *port, uint32_t events);

/* ---- counters ---- */

struct slipring_stats {
	uint32_t size; /* sizeof(struct slipring_stats) */
	uint32_t reserved;
	uint64_t rx_packets, rx_bytes; /* that the program could read */
	uint64_t tx_packets, tx_bytes; /* that have left for good */
	uint64_t in_flight;            /* submitted, and not completed */
	uint64_t dropped;              /* for all reasons */
	uint64_t strays;               /* completions that nothing was waiting for: the kernel misbehaved */
	uint64_t uncaptured;           /* passed, but not in the capture that was asked for */
};

/* As of the last sync. `queue` may be SLIPRING_ALL_QUEUES. */
int slipring_stats(struct slipring_port *port, uint32_t queue, struct slipring_stats *stats);

/* Reasons are numbers from 0 on, with names such as "rx_ring_full"; later versions have more. */
uint32_t slipring_drop_reasons(void);
const char *slipring_drop_name(uint32_t reason);
uint64_t slipring_dropped(struct slipring_port *port, uint32_t queue, uint32_t reason);

/* ---- emulated links ---- */

/*
 * The engine of `slipring emulate`, without ports, clocks or threads: the program brings frames with
 * their arrival times, says how late it is, and takes frames with their release times. Times are ns on
 * any clock of the program's that does not go back. The same links, seed and arrivals give the same
 * deliveries on every machine.
 */
struct slipring_network;

#define SLIPRING_NETWORK_EARLY 1  /* deliver as soon as the release time is known, which may be to come */
#define SLIPRING_NETWORK_LOSSES 2 /* keep lost frames for slipring_network_take_loss */

struct slipring_network_options {
	uint32_t size;      /* sizeof(struct slipring_network_options) */
	uint32_t flags;     /* SLIPRING_NETWORK_ */
	uint64_t seed;      /* of all random decisions, unless the file has one */
	uint64_t start_ns;  /* when time begins: traces, schedules, [[at]] */
	uint64_t max_bytes; /* of stored frames; 0: 1 GiB */
};

/*
 * Makes a network of a file as `slipring emulate --config` reads, or of its text. What it says of the
 * devices of ports is not looked at. options may be NULL. *network is NULL after an error.
 */
int slipring_network_load(const char *path, const struct slipring_network_options *options, struct slipring_network **network);
int slipring_network_parse(const char *toml, const struct slipring_network_options *options, struct slipring_network **network);

/* Frames inside are lost, and so is the delivery that was taken last. NULL is fine. */
void slipring_network_free(struct slipring_network *network);

/* Entries, exits and links have names, and numbers from 0 on in the order of the file. */
#define SLIPRING_ENTRIES 0
#define SLIPRING_EXITS 1
#define SLIPRING_LINKS 2

int slipring_network_count(struct slipring_network *network, uint32_t what);
const char *slipring_network_name(struct slipring_network *network, uint32_t what, uint32_t number);
int slipring_network_find(struct slipring_network *network, uint32_t what, const char *name);

/*
 * Brings a frame, whose bytes are copied; without bytes (NULL) no stage can look at them. `len` is
 * without CRC, `tag` comes back with the delivery. arrival_ns must not be before that of an earlier
 * call, nor before the time of the last run. 1, or 0 if max_bytes are stored already.
 */
int slipring_network_push(struct slipring_network *network, uint32_t entry, uint64_t arrival_ns, const void *frame, uint32_t len, uint64_t tag);

/* Performs all that is due up to now_ns. */
int slipring_network_run(struct slipring_network *network, uint64_t now_ns);

/* When something happens next: the time to run again. SLIPRING_NEVER if nothing will. */
uint64_t slipring_network_next(struct slipring_network *network);

struct slipring_delivery {
	uint32_t size;       /* sizeof(struct slipring_delivery) */
	uint32_t exit, link; /* where it leaves, and the last link that it passed */
	uint32_t len;        /* bytes of the frame, without CRC */
	uint64_t release_ns; /* when it is to leave: never before */
	uint64_t arrival_ns; /* as it was pushed */
	uint64_t tag;        /* likewise; a copy has that of its original */
	const uint8_t *data; /* its bytes, until the next slipring_network_take */
	uint64_t data_len;
};

/* Takes the next frame that leaves; 1, or 0 if there is none for now. */
int slipring_network_take(struct slipring_network *network, struct slipring_delivery *delivery);

struct slipring_loss {
	uint32_t size;  /* sizeof(struct slipring_loss) */
	uint32_t cause; /* slipring_cause_name */
	uint32_t link;  /* UINT32_MAX: no link wanted it */
	uint32_t len;
	uint64_t at_ns;
	uint64_t tag;
};

/* Takes the next frame that was lost, with SLIPRING_NETWORK_LOSSES; 1, or 0 if there is none. */
int slipring_network_take_loss(struct slipring_network *network, struct slipring_loss *loss);

/* At any moment input + copied = output + dropped + in_flight. */
struct slipring_link_stats {
	uint32_t size; /* sizeof(struct slipring_link_stats) */
	uint32_t reserved;
	uint64_t input_packets, input_bytes;
	uint64_t copied_packets, copied_bytes;
	uint64_t output_packets, output_bytes;
	uint64_t dropped_packets, dropped_bytes;
	uint64_t in_flight_packets, in_flight_bytes;
	uint64_t marked_packets;    /* with congestion experienced; counted where they went, too */
	uint64_t corrupted_packets; /* with bit errors, that went on; likewise */
};

int slipring_link_stats(struct slipring_network *network, uint32_t link, struct slipring_link_stats *stats);

/* Frames that a link lost for one cause; causes are numbers from 0 on. The name is NULL behind the last. */
uint64_t slipring_link_dropped(struct slipring_network *network, uint32_t link, uint32_t cause);
const char *slipring_cause_name(uint32_t cause);

#ifdef __cplusplus
}
#endif

#endif /* SLIPRING_H */
