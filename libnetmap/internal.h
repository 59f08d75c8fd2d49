/* Declarations shared by the files of the library. SPDX-License-Identifier: BSD-2-Clause */
#ifndef LIBNETMAP_INTERNAL_H_
#define LIBNETMAP_INTERNAL_H_

#include <libnetmap.h>
#include <sys/stat.h>

#define HIDDEN __attribute__((visibility("hidden")))

/*
 * A mapped memory, which ports share. Its number is unique for one device file only: other users
 * and other daemons have memories with the same numbers on other device files.
 */
struct nmem_d {
	struct nmem_d *next;
	dev_t dev;
	ino_t ino;
	uint16_t mem_id;
	int users;
	int external;            /* the program's own memory, not to be unmapped */
	void *mem;
	size_t size;
};

/* Reports an error and its place. Returns -1 with EINVAL. */
HIDDEN int nm_refuse(struct nmctx *ctx, const char *what, const char *at);
HIDDEN int nm_literal(const char **at, const char *ends);
HIDDEN int nm_number(const char **at, uint64_t min, uint64_t max, uint64_t *number,
    struct nmctx *ctx);
HIDDEN int nm_flags(const char **at, struct nmreq_register *r, struct nmctx *ctx);
HIDDEN int nm_region(const char **at, struct nmreq_register *r, struct nmctx *ctx);

/* Parses the option at an '@'. */
HIDDEN int nm_one_option(const char **at, struct nmreq_opt_parser *parsers, void *token,
    struct nmctx *ctx);
/* Parses the options of a port's name, from its first '@' to its end. */
HIDDEN int nm_port_options(struct nmport_d *d, const char *options);

/* Puts a cleanup on a port's list. It runs when nmport_undo_parse() is called. */
HIDDEN void nm_push_cleanup(struct nmport_d *d, struct nmport_cleanup_d *c,
    void (*cleanup)(struct nmport_cleanup_d *, struct nmport_d *));

#endif /* LIBNETMAP_INTERNAL_H_ */
