/*
 * libnetmap: ports by name, for programs. SPDX-License-Identifier: BSD-2-Clause
 *
 * Names, layouts and behaviour are those of netmap's library; the text is slipring's own.
 *
 *   struct nmport_d *d = nmport_open("netmap:eth1-0/x");
 *   ... rings d->first_rx_ring to d->last_rx_ring by NETMAP_RXRING(d->nifp, i), poll(d->fd) ...
 *   nmport_close(d);
 *
 * Functions that return int return 0, or -1 with errno, unless stated otherwise; functions that
 * return pointers return NULL with errno. Messages go through the context, to stderr by default.
 *
 *   PORT   = ( "netmap:" NAME | "vale" [ID] ":" NAME ) [ "{" ID | "}" ID ] [ RINGS ] { FLAGS | OPTION }
 *   RINGS  = "-" N  ring pair N | "*" NIC and host | "^" host | "^" N  host ring pair N
 *   FLAGS  = "/" letters: x exclusive, t monitor tx, r monitor rx, z zero-copy monitor (z alone: both),
 *            T tx rings only, R rx rings only
 *   OPTION = "@" N                      memory number N
 *          | "@share:port=" PORT        memory of that port
 *          | "@extmem:file=" F [",if-num=" N ",if-size=" N ",ring-num=" ... ",buf-size=" N]
 *          | "@conf:" KEY "=" N ...     rings, host-rings, tx-rings, rx-rings, host-tx-rings,
 *                                       host-rx-rings, slots, tx-slots, rx-slots
 *          | "@offset:initial=" N [",bits=" N]   off unless nmport_enable_option("offset")
 *
 * A character of - * ^ @ that belongs to the name is written twice: netmap:br--lan-2.
 */
#ifndef LIBNETMAP_H_
#define LIBNETMAP_H_

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <net/netmap_user.h>
#include <net/netmap_sync.h>

#ifdef __cplusplus
extern "C" {
#endif

struct nmctx;
struct nmport_d;
struct nmem_d;

/* ---- ports ---- */

struct nmport_cleanup_d {
	struct nmport_cleanup_d *next;
	void (*cleanup)(struct nmport_cleanup_d *, struct nmport_d *);
};

struct nmport_d {
	struct nmreq_header hdr;
	struct nmreq_register reg;
	struct nmem_d *mem;      /* equal for ports that share memory, so that buffers can be exchanged */
	struct nmctx *ctx;
	int register_done;
	int mmap_done;
	struct nmreq_opt_extmem *extmem;
	/* The following fields are valid once the port is registered and mapped. */
	int fd;
	struct netmap_if *nifp;
	uint16_t first_tx_ring, last_tx_ring;
	uint16_t first_rx_ring, last_rx_ring;
	uint16_t cur_tx_ring;    /* the ring with which nmport_inject continues */
	uint16_t cur_rx_ring;    /* for the program; the library does not use it */
	struct nmport_cleanup_d *clist;
};

/* Opens a port in one step. */
struct nmport_d *nmport_open(const char *portspec);
void nmport_close(struct nmport_d *d);

/* Open a port in two steps, so that the caller can change d->reg between them. */
struct nmport_d *nmport_prepare(const char *portspec);
int nmport_open_desc(struct nmport_d *d);
void nmport_undo_open_desc(struct nmport_d *d);
void nmport_undo_prepare(struct nmport_d *d);

/* The single steps. */
struct nmport_d *nmport_new(void);
int nmport_parse(struct nmport_d *d, const char *portspec);
int nmport_register(struct nmport_d *d);
int nmport_mmap(struct nmport_d *d);
void nmport_undo_mmap(struct nmport_d *d);
void nmport_undo_register(struct nmport_d *d);
void nmport_undo_parse(struct nmport_d *d);
void nmport_delete(struct nmport_d *d);

/* Returns a new, unregistered port with the same request, without its options. */
struct nmport_d *nmport_clone(struct nmport_d *d);

/*
 * Copies a frame to free slots, without a sync. Returns the frame's size, or 0 if there is no room.
 */
int nmport_inject(struct nmport_d *d, const void *buf, size_t size);

/*
 * Options of a port that is not registered yet. External memory is a shared mapping of a memory
 * file: objects of the port are in that mapping, and so are those of other ports of this process
 * with the same memory number, as long as the port that provided the memory is open.
 */
int nmport_extmem(struct nmport_d *d, void *base, size_t size);
int nmport_extmem_from_file(struct nmport_d *d, const char *fname);
struct nmreq_pools_info *nmport_extmem_getinfo(struct nmport_d *d);
int nmport_offset(struct nmport_d *d, uint64_t initial, uint64_t maxoff, uint64_t bits, uint64_t mingap);

/* Select which of extmem, share, conf and offset may occur in names. */
int nmport_enable_option(const char *opt);
int nmport_disable_option(const char *opt);

/* ---- requests ---- */

void nmreq_header_init(struct nmreq_header *h, uint16_t reqtype, void *body);

/* Parses the name and the pipe; sets *pname to the first character after them. */
int nmreq_header_decode(const char **pname, struct nmreq_header *h, struct nmctx *ctx);
/*
 * Parses rings, flags and memory number; sets *psuffix to the first option with a name, or the end.
 */
int nmreq_register_decode(const char **psuffix, struct nmreq_register *r, struct nmctx *ctx);
/* Parses a number, or returns the memory of the port with that name; negative on failure. */
int32_t nmreq_get_mem_id(const char **pname, struct nmctx *ctx);

/* Options in a request are a linked list. */
#define nmreq_foreach_option(h, o)                                                            \
	for ((o) = (struct nmreq_option *)(uintptr_t)(h)->nr_options; (o) != NULL;            \
	    (o) = (struct nmreq_option *)(uintptr_t)(o)->nro_next)
void nmreq_push_option(struct nmreq_header *h, struct nmreq_option *o);
void nmreq_remove_option(struct nmreq_header *h, struct nmreq_option *o);
struct nmreq_option *nmreq_find_option(struct nmreq_header *h, uint32_t reqtype);
void nmreq_free_options(struct nmreq_header *h);
const char *nmreq_option_name(uint32_t reqtype);

/* ---- options in names, described by tables ---- */

struct nmreq_parse_ctx;
typedef int (*nmreq_opt_parser_cb)(struct nmreq_parse_ctx *);

#define NMREQ_OPT_MAXKEYS 16

struct nmreq_opt_key {
	const char *key;
	int id;                          /* index of the value in nmreq_parse_ctx.keys */
	unsigned int flags;
#define NMREQ_OPTK_ALLOWEMPTY (1U << 0)
#define NMREQ_OPTK_MUSTSET (1U << 1)
#define NMREQ_OPTK_DEFAULT (1U << 2)     /* the key that "@opt=value" sets */
#define NMREQ_OPTK_NUMBER (1U << 3)      /* not in netmap: the value ends with its last digit */
};

struct nmreq_opt_parser {
	const char *prefix;
	nmreq_opt_parser_cb parse;
	int default_key;                 /* -1: there is none */
	int nr_keys;
	unsigned int flags;
#define NMREQ_OPTF_DISABLED (1U << 0)
#define NMREQ_OPTF_ALLOWEMPTY (1U << 1)
	struct nmreq_opt_parser *next;
	struct nmreq_opt_key keys[NMREQ_OPT_MAXKEYS];
};

struct nmreq_parse_ctx {
	struct nmctx *ctx;
	void *token;                     /* the token that was passed to nmreq_options_decode */
	const char *keys[NMREQ_OPT_MAXKEYS];
};

int nmreq_options_decode(const char *opt, struct nmreq_opt_parser *parsers, void *token,
    struct nmctx *ctx);

/* ---- contexts ---- */

typedef void (*nmctx_error_cb)(struct nmctx *, const char *);
typedef void *(*nmctx_malloc_cb)(struct nmctx *, size_t);
typedef void (*nmctx_free_cb)(struct nmctx *, void *);
typedef void (*nmctx_lock_cb)(struct nmctx *, int take);

/* The source of memory and the destination of messages, and the memories that are mapped. */
struct nmctx {
	int verbose;
	nmctx_error_cb error;
	nmctx_malloc_cb malloc;
	nmctx_free_cb free;
	nmctx_lock_cb lock;
	struct nmem_d *mem_descs;
};

/* Return the context of new ports, and replace it; the replacement returns the old one. */
struct nmctx *nmctx_get(void);
struct nmctx *nmctx_set_default(struct nmctx *ctx);
/*
 * Gives the default context a mutex. A program that is linked with this function runs it at its
 * start.
 */
void nmctx_set_threadsafe(void);
extern int nmctx_threadsafe;

void nmctx_ferror(struct nmctx *ctx, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void *nmctx_malloc(struct nmctx *ctx, size_t size);
void nmctx_free(struct nmctx *ctx, void *mem);
void nmctx_lock(struct nmctx *ctx);
void nmctx_unlock(struct nmctx *ctx);

#ifdef __cplusplus
}
#endif

#endif /* LIBNETMAP_H_ */
