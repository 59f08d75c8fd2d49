/*
 * libslipring: ports of every kind, their rings, waiting, counters, switches, and emulated links.
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
 * SLIPRING_ERR_ numbers otherwise. Texts of the calling thread then say what failed and what to try
 * next. Functions that return a pointer return NULL instead.
 *
 * Threads. All functions may be called from any thread. Calls on the same queue, switch or network
 * wait for each other; calls on different ones run in parallel. The slots of a ring
 * between head and tail belong to the program: its own threads have to agree on who uses them.
 * Closing a port or freeing a network or a switch must be the last call on it.
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

#define SLIPRING_API_VERSION 3

/* ---- errors ---- */

#define SLIPRING_ERR_USAGE (-1)    /* a name, value or file is invalid */
#define SLIPRING_ERR_MACHINE (-2)  /* the machine lacks a privilege, a kernel feature or an interface */
#define SLIPRING_ERR_PEER (-3)     /* the port was lost while in use */
#define SLIPRING_ERR_ARGUMENT (-4) /* an argument that no caller should pass, such as NULL */
#define SLIPRING_ERR_LEFT_OUT (-5) /* this library was built without the feature */
#define SLIPRING_ERR_DEFECT (-6)   /* a defect of the library; close the object of the call */

/*
 * Return SLIPRING_API_VERSION of the library, and the version of slipring that the library belongs
 * to.
 */
uint32_t slipring_version(void);
const char *slipring_version_string(void);

/*
 * Return the last error of this thread: its code ("SR0107", or "" if it has none; `slipring explain
 * CODE` describes it), what failed and why, and what to try next ("" if there is no advice). Never
 * NULL; the texts stay valid until the thread's next error.
 */
const char *slipring_error_code(void);
const char *slipring_error_message(void);
const char *slipring_error_help(void);

/* ---- ports ---- */

struct slipring_port;
struct netmap_ring; /* net/netmap.h */

#define SLIPRING_ALL_QUEUES UINT32_C(0xffffffff)
#define SLIPRING_NEVER UINT64_C(0xffffffffffffffff)

#define SLIPRING_OPEN_SHARED 1            /* let the host's stack use the interface, too */
#define SLIPRING_OPEN_TAKE_OVER 2         /* allow the interface that carries the default route */
#define SLIPRING_OPEN_NO_PROMISC 4        /* receive only frames for this host */
#define SLIPRING_OPEN_EXIT_ON_LINK_DOWN 8 /* end the port when its interface goes down */
#define SLIPRING_OPEN_RX_ONLY 16          /* only receive: a capture is read */
#define SLIPRING_OPEN_TX_ONLY 32          /* only send: a capture is written, even over an existing one */

#define SLIPRING_XDP_BEST 0     /* the best mode that the interface supports; slipring_port_mode returns it */
#define SLIPRING_XDP_ZEROCOPY 1 /* only this mode */
#define SLIPRING_XDP_NATIVE 2
#define SLIPRING_XDP_GENERIC 3

struct slipring_options {
	uint32_t size;         /* sizeof(struct slipring_options) */
	uint32_t flags;        /* SLIPRING_OPEN_ */
	uint32_t slots;        /* slots of each ring; 0: 1024 */
	uint32_t buf_size;     /* bytes of a buffer; 0: a suitable size for the ports */
	uint32_t xdp_mode;     /* SLIPRING_XDP_ */
	uint32_t busy_poll_us; /* microseconds for which a system call busy-polls the device */
	const char *run_dir;   /* run directory of the daemon with the pipes; NULL: pipes of this process */
};

/*
 * Opens a port of any kind by its name: netmap:eth0, eth0-2, eth0^, xdp:, packet:, tap:, vhost:,
 * x{1 and x}1 (the ends of a pipe), vale0:a, kernel:, pcap:FILE, null:. options may be NULL. *port
 * is NULL after an error. One process may open both ends of a pipe. A pipe of this process exists as
 * long as one of its ends is open; an end that was closed can be opened again, and finds what was
 * sent to it meanwhile.
 */
int slipring_open(const char *name, const struct slipring_options *options, struct slipring_port **port);

/*
 * Opens `count` ports together, in one memory region if their kinds allow that: then
 * slipring_forward moves frames between them without a copy, and the program may exchange buf_idx
 * of their slots (and set NS_BUF_CHANGED). All entries of `ports` are NULL after an error.
 */
int slipring_open_all(const char *const *names, size_t count, const struct slipring_options *options, struct slipring_port **ports);

/*
 * Closes the port. Frames that were queued and not synced are lost: call slipring_drain first. The
 * peer of a pipe still finds the frames that were synced before its other end was closed.
 * `port` may be NULL.
 */
void slipring_close(struct slipring_port *port);

/*
 * Return the name by which the port was opened, its kind ("xdp", "pipe", ...), and the mode in use:
 * "key=value ..."
 */
const char *slipring_port_name(struct slipring_port *port);
const char *slipring_port_kind(struct slipring_port *port);
const char *slipring_port_mode(struct slipring_port *port);

struct slipring_port_info {
	uint32_t size;        /* sizeof(struct slipring_port_info) */
	uint32_t queues;
	uint32_t can_receive, can_send;
	uint32_t max_packet;  /* length in bytes of the longest packet, without CRC, over several slots */
	uint32_t max_slot;    /* maximum number of bytes in one slot */
	uint32_t mtu;         /* in bytes; 0 if the port has none */
	uint32_t has_mac;
	uint8_t mac[6];
	uint8_t reserved[2];
};

int slipring_port_info(struct slipring_port *port, struct slipring_port_info *info);

/* ---- rings ---- */

/* Returns the number of queues; each has a tx and an rx ring. */
int slipring_queues(struct slipring_port *port);

/*
 * Return the rings, with the layout of net/netmap.h: the program moves head and cur as with netmap,
 * and finds the buffer of a slot by NETMAP_BUF. NULL for a direction that the port does not have.
 * The rings stay at the same address until the port is closed; only a sync or a wait moves slots.
 */
struct netmap_ring *slipring_tx_ring(struct slipring_port *port, uint32_t queue);
struct netmap_ring *slipring_rx_ring(struct slipring_port *port, uint32_t queue);

/* Returns 1 if buffers may be exchanged between slots of the two ports' rings, else 0. */
int slipring_share_buffers(struct slipring_port *one, struct slipring_port *other);

/*
 * slipring_tx_sync sends the slots before head, and frees the slots that were sent.
 * slipring_rx_sync returns the slots before head to the port, and takes over frames that have
 * arrived. Neither blocks. `queue` may be SLIPRING_ALL_QUEUES.
 */
int slipring_tx_sync(struct slipring_port *port, uint32_t queue);
int slipring_rx_sync(struct slipring_port *port, uint32_t queue);

/* Returns 1 if no frame will ever arrive again (the end of a capture), else 0. */
int slipring_has_ended(struct slipring_port *port);

/* Queues a copy of a frame for the next tx sync. Returns 1, or 0 if there is no room for it. */
int slipring_send(struct slipring_port *port, uint32_t queue, const void *frame, size_t len);

/*
 * Removes a frame from the rx ring: copies up to `size` bytes of it to `buffer`, and stores its
 * whole length in *len. Returns 1, or 0 if there is no frame.
 */
int slipring_receive(struct slipring_port *port, uint32_t queue, void *buffer, size_t size, size_t *len);

/*
 * Does an rx sync, moves up to `max` slots of each queue from one port to the other, and does a tx
 * sync. Returns how many slots were moved.
 */
int slipring_forward(struct slipring_port *from, struct slipring_port *to, uint32_t max);

/*
 * Syncs until all queued frames have been sent, or the timeout has expired (negative: no timeout).
 * Returns the number of slots that are still in flight.
 */
int slipring_drain(struct slipring_port *port, int64_t timeout_ns);

/* ---- waiting ---- */

#define SLIPRING_WAIT_RX 1 /* frames after cur of an rx ring */
#define SLIPRING_WAIT_TX 2 /* free slots after cur of a tx ring */
#define SLIPRING_WAIT_END 4 /* only reported: no frame will ever arrive again */

struct slipring_wait {
	struct slipring_port *port;
	uint32_t events; /* requested by the program */
	uint32_t ready;  /* set by slipring_wait */
};

/*
 * Syncs the ports, and sleeps until a port is ready or the timeout has expired (negative: no
 * timeout); a signal ends the sleep early. Returns how many ports are ready, which may be 0.
 */
int slipring_wait(struct slipring_wait *waits, size_t count, int64_t timeout_ns);

/*
 * The functions of a wait in the program's own loop. slipring_arm syncs, and prepares the
 * descriptor slipring_port_fd for a sleep: the descriptor becomes readable (POLLIN) when `events`
 * may be ready. slipring_arm returns the SLIPRING_WAIT_ bits that are ready now; if there are
 * any, the program must not sleep. It must sleep no longer than until *until_ns, a time of
 * CLOCK_MONOTONIC or SLIPRING_NEVER. After the sleep, slipring_disarm with the same events syncs
 * and returns the bits that are ready. The program must not read from the descriptor. The thread
 * that polls it may be another one.
 */
int slipring_port_fd(struct slipring_port *port);
int slipring_arm(struct slipring_port *port, uint32_t events, uint64_t *until_ns);
int slipring_disarm(struct slipring_port *port, uint32_t events);

/* ---- counters ---- */

struct slipring_stats {
	uint32_t size; /* sizeof(struct slipring_stats) */
	uint32_t reserved;
	uint64_t rx_packets, rx_bytes; /* received frames that the program could read */
	uint64_t tx_packets, tx_bytes; /* frames whose transmission is complete */
	uint64_t in_flight;            /* frames submitted and not completed */
	uint64_t dropped;              /* frames dropped, for all reasons */
	uint64_t strays;               /* unexpected completions: an error of the kernel */
	uint64_t uncaptured;           /* frames missing in the requested capture */
};

/* Stores the counters as of the last sync. `queue` may be SLIPRING_ALL_QUEUES. */
int slipring_stats(struct slipring_port *port, uint32_t queue, struct slipring_stats *stats);

/*
 * Reasons are numbered from 0 and have names such as "rx_ring_full"; later versions may have more
 * reasons.
 */
uint32_t slipring_drop_reasons(void);
const char *slipring_drop_name(uint32_t reason);
uint64_t slipring_dropped(struct slipring_port *port, uint32_t queue, uint32_t reason);

/* ---- switches of this process ---- */

/*
 * A learning switch without threads or clocks, for simulators and tests. Its ports are ports like
 * others: the program has the rings, sends by slipring_tx_sync and receives by slipring_rx_sync.
 * Frames move from port to port only in slipring_switch_forward, so the same calls give the same
 * deliveries. Since version 3.
 *
 * A port vale0:a of slipring_open, in contrast, belongs to a daemon, which other programs reach.
 */
struct slipring_switch;

#define SLIPRING_ALL_PORTS UINT32_C(0xffffffff)

struct slipring_switch_options {
	uint32_t size;      /* sizeof(struct slipring_switch_options) */
	uint32_t flags;     /* 0 */
	uint64_t ageing_ns; /* forget an address after this time without frames from it; 0: 300 s; SLIPRING_NEVER: never */
};

/*
 * Creates a switch without ports. Its name, such as "vale0", begins the names of its ports, and need
 * not differ from that of other switches. options may be NULL. *vale is NULL after an error.
 */
int slipring_switch_create(const char *name, const struct slipring_switch_options *options, struct slipring_switch **vale);

/* Frees the switch. Its ports stay open, but nothing takes what they send. `vale` may be NULL. */
void slipring_switch_free(struct slipring_switch *vale);

/*
 * Opens a port of the switch: "a", or with rings and slots of its own "a@conf:rings=2,slots=256". Of
 * the options, only slots and buf_size are used; they may be NULL. Returns the number of the port in
 * the switch, the lowest that is free. slipring_close closes the port, and frees its name.
 * The next call of slipring_switch_forward takes the frames that it had sent, drops frames for it, and
 * frees its number.
 */
int slipring_switch_open(struct slipring_switch *vale, const char *name, const struct slipring_options *options, struct slipring_port **port);

/*
 * Takes the frames that have been sent on all ports, in the order of the ports' numbers, and puts
 * copies into the rx rings of their destinations. Addresses are learned, and forgotten by now_ns, a
 * time on any clock of the program that does not go back. Frames to group addresses and to unknown
 * ones go to all other ports. Where a ring is full, the frame is dropped and counted. Returns how
 * many frames were taken.
 */
int slipring_switch_forward(struct slipring_switch *vale, uint64_t now_ns);

/*
 * Takes the next port with which slipring_switch_forward has done something since it was last taken,
 * in the order of the numbers: its number, and SLIPRING_WAIT_RX if frames have arrived, or
 * SLIPRING_WAIT_TX if slots can be freed by a tx sync, or both. Returns 1, or 0 if there is none.
 */
int slipring_switch_take_ready(struct slipring_switch *vale, uint32_t *port, uint32_t *events);

/* Counters. For SLIPRING_ALL_PORTS, rx + copied = tx + dropped. */
struct slipring_switch_stats {
	uint32_t size; /* sizeof(struct slipring_switch_stats) */
	uint32_t reserved;
	uint64_t rx_packets, rx_bytes;   /* frames that the switch took from the port */
	uint64_t tx_packets, tx_bytes;   /* frames that it put into the port's rx rings */
	uint64_t flooded_packets;        /* frames of rx that went to more than one port */
	uint64_t copied_packets;         /* additional frames made of them */
	uint64_t dropped_packets;        /* frames dropped, for all reasons */
	uint64_t learned_addresses;      /* addresses learned at the port */
	uint64_t moved_addresses;        /* addresses that moved to it from another port */
};

/*
 * Stores the counters of the port with a number; for SLIPRING_ALL_PORTS, the sums over all ports that
 * the switch has ever had.
 */
int slipring_switch_stats(struct slipring_switch *vale, uint32_t port, struct slipring_switch_stats *stats);

/*
 * slipring_switch_dropped returns the number of frames dropped for one reason. A full ring is counted
 * at the destination (also by slipring_dropped, as "rx_ring_full"), and so is one whose port was
 * closed; all others are counted at the source. Reasons are numbered from 0;
 * slipring_switch_drop_name returns NULL after the last one.
 */
uint64_t slipring_switch_dropped(struct slipring_switch *vale, uint32_t port, uint32_t reason);
const char *slipring_switch_drop_name(uint32_t reason);

/* ---- emulated links ---- */

/*
 * The engine of `slipring emulate`, without ports, clocks or threads. The program passes in frames
 * with their arrival times and the current time, and takes out frames with their release times.
 * Times are ns on any clock of the program that does not go back. The same links, seed and arrivals
 * give the same deliveries on every machine.
 */
struct slipring_network;

#define SLIPRING_NETWORK_EARLY 1  /* deliver when the release time is known, possibly before it */
#define SLIPRING_NETWORK_LOSSES 2 /* keep lost frames for slipring_network_take_loss */

struct slipring_network_options {
	uint32_t size;      /* sizeof(struct slipring_network_options) */
	uint32_t flags;     /* SLIPRING_NETWORK_ */
	uint64_t seed;      /* seed of all random decisions, unless the file has a seed */
	uint64_t start_ns;  /* start of traces, schedules and [[at]] */
	uint64_t max_bytes; /* maximum bytes of stored frames; 0: 1 GiB */
};

/*
 * Creates a network from a file in the format of `slipring emulate --config`, or from the text of
 * such a file. The devices of ports in the file are ignored. options may be NULL. *network is NULL
 * after an error.
 */
int slipring_network_load(const char *path, const struct slipring_network_options *options, struct slipring_network **network);
int slipring_network_parse(const char *toml, const struct slipring_network_options *options, struct slipring_network **network);

/*
 * Frees the network, the frames in it, and the delivery that was taken last. `network` may be NULL.
 */
void slipring_network_free(struct slipring_network *network);

/* Entries, exits and links have names, and are numbered from 0 in the order of the file. */
#define SLIPRING_ENTRIES 0
#define SLIPRING_EXITS 1
#define SLIPRING_LINKS 2

int slipring_network_count(struct slipring_network *network, uint32_t what);
const char *slipring_network_name(struct slipring_network *network, uint32_t what, uint32_t number);
int slipring_network_find(struct slipring_network *network, uint32_t what, const char *name);

/*
 * Passes in a frame, whose bytes are copied. Without bytes (NULL), no stage can read the frame.
 * `len` is the length without CRC; `tag` is returned with the delivery. arrival_ns must not be
 * before the arrival of an earlier call or the time of the last run. Returns 1, or 0 if max_bytes
 * are stored already.
 */
int slipring_network_push(struct slipring_network *network, uint32_t entry, uint64_t arrival_ns, const void *frame, uint32_t len, uint64_t tag);

/* Does all work that is due by now_ns. */
int slipring_network_run(struct slipring_network *network, uint64_t now_ns);

/*
 * Returns the time at which to call slipring_network_run next; SLIPRING_NEVER if no work is
 * pending.
 */
uint64_t slipring_network_next(struct slipring_network *network);

struct slipring_delivery {
	uint32_t size;       /* sizeof(struct slipring_delivery) */
	uint32_t exit, link; /* exit by which the frame leaves, and the last link that it passed */
	uint32_t len;        /* length of the frame, without CRC */
	uint64_t release_ns; /* when the frame must leave; the program must not send it earlier */
	uint64_t arrival_ns; /* arrival time that was passed in */
	uint64_t tag;        /* tag that was passed in; a copy has the tag of its original */
	const uint8_t *data; /* bytes of the frame, valid until the next slipring_network_take */
	uint64_t data_len;
	uint32_t remaining;  /* deliveries and losses of the same push that are still to come; version 2 */
	uint32_t reserved;
};

/* Takes the next frame that leaves. Returns 1, or 0 if there is none now. */
int slipring_network_take(struct slipring_network *network, struct slipring_delivery *delivery);

struct slipring_loss {
	uint32_t size;  /* sizeof(struct slipring_loss) */
	uint32_t cause; /* number of the cause, for slipring_cause_name */
	uint32_t link;  /* number of the link; UINT32_MAX: no link accepted the frame */
	uint32_t len;
	uint64_t at_ns;
	uint64_t tag;
	uint32_t remaining; /* as in a delivery; version 2 */
	uint32_t reserved;
};

/* Takes the next lost frame, with SLIPRING_NETWORK_LOSSES. Returns 1, or 0 if there is none. */
int slipring_network_take_loss(struct slipring_network *network, struct slipring_loss *loss);

/* Counters of a link. At any moment input + copied = output + dropped + in_flight. */
struct slipring_link_stats {
	uint32_t size; /* sizeof(struct slipring_link_stats) */
	uint32_t reserved;
	uint64_t input_packets, input_bytes;
	uint64_t copied_packets, copied_bytes;
	uint64_t output_packets, output_bytes;
	uint64_t dropped_packets, dropped_bytes;
	uint64_t in_flight_packets, in_flight_bytes;
	uint64_t marked_packets;    /* marked "congestion experienced"; also counted in output */
	uint64_t corrupted_packets; /* passed on with bit errors; also counted in output */
};

int slipring_link_stats(struct slipring_network *network, uint32_t link, struct slipring_link_stats *stats);

/*
 * slipring_link_dropped returns the number of frames that a link has lost for one cause. Causes are
 * numbered from 0; slipring_cause_name returns NULL after the last one.
 */
uint64_t slipring_link_dropped(struct slipring_network *network, uint32_t link, uint32_t cause);
const char *slipring_cause_name(uint32_t cause);

#ifdef __cplusplus
}
#endif

#endif /* SLIPRING_H */
