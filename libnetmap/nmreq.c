/*
 * Requests from names. SPDX-License-Identifier: BSD-2-Clause
 *
 * Left to right: the name and the pipe, then rings, flags and memory number. Options with a name
 * are for nmopt.c. What is accepted here is what slipring's own parser accepts
 * (crates/abi/src/name), character for character; a test holds the two together.
 */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

void
nmreq_header_init(struct nmreq_header *h, uint16_t reqtype, void *body)
{
	memset(h, 0, sizeof(*h));
	h->nr_version = NETMAP_API;
	h->nr_reqtype = reqtype;
	h->nr_body = (uintptr_t)body;
}

/* ---- the name ---- */

int
nm_refuse(struct nmctx *ctx, const char *what, const char *at)
{
	nmctx_ferror(ctx, "%s at '%s'", what, at);
	errno = EINVAL;
	return -1;
}

/*
 * Reads one character of a text that ends before any character of ends. Such a character twice
 * stands for itself.
 */
int
nm_literal(const char **at, const char *ends)
{
	char c = **at;

	if (c == '\0')
		return '\0';
	if (strchr(ends, c)) {
		if ((*at)[1] != c)
			return '\0';
		++*at;
	}
	++*at;
	return (unsigned char)c;
}

static size_t
identifier(const char *s)
{
	return strspn(s, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_");
}

/* A name while it is written to a request. */
struct writer {
	char *name;
	size_t len;
};

static int
put(struct writer *w, char c)
{
	if (w->len == NETMAP_REQ_IFNAMSIZ - 1)
		return -1;
	w->name[w->len++] = c;
	return 0;
}

static int
put_all(struct writer *w, const char *s, size_t len)
{
	for (; len > 0; len--)
		if (put(w, *s++) != 0)
			return -1;
	return 0;
}

static int
is_never_in_a_name(int c)
{
	return strchr(":/{}", c) || c <= ' ' || c == 0x7f;
}

/* "vale[ID]:", which stays part of the name, or "netmap:", which does not. */
static int
prefix(const char **at, struct writer *w, int *is_vale, struct nmctx *ctx)
{
	const char *start = *at;
	size_t len = identifier(start);

	if (start[len] != ':')
		return nm_refuse(ctx, "expected netmap: or vale[ID]:", start);
	*at += len + 1;
	*is_vale = len >= 4 && memcmp(start, NM_BDG_NAME, 4) == 0;
	if (!*is_vale && !(len == 6 && memcmp(start, "netmap", 6) == 0))
		return nm_refuse(ctx, "expected netmap: or vale[ID]:", start);
	if (*is_vale && put_all(w, start, len + 1) != 0)
		return nm_refuse(ctx, "the name is too long", start);
	return 0;
}

static int
own_name(const char **at, struct writer *w, struct nmctx *ctx)
{
	size_t before = w->len;
	int c;

	for (;;) {
		const char *here = *at;

		c = nm_literal(at, "-*^{}@/");
		if (c == '\0')
			break;
		if (is_never_in_a_name(c))
			return nm_refuse(ctx, "this cannot be part of a name", here);
		if (put(w, (char)c) != 0)
			return nm_refuse(ctx, "the name is too long", here);
	}
	return w->len > before ? 0 : nm_refuse(ctx, "expected a name", *at);
}

static int
pipe_end(const char **at, struct writer *w, struct nmctx *ctx)
{
	size_t len = identifier(*at + 1);

	if (len == 0)
		return nm_refuse(ctx, "expected the identifier of a pipe", *at + 1);
	if (put_all(w, *at, len + 1) != 0)
		return nm_refuse(ctx, "the name is too long", *at);
	*at += len + 1;
	return 0;
}

/* Whether Linux cannot have an interface of this name. */
static int
is_no_interface(const struct writer *w)
{
	return w->len >= IFNAMSIZ || strcmp(w->name, ".") == 0 || strcmp(w->name, "..") == 0;
}

int
nmreq_header_decode(const char **pname, struct nmreq_header *h, struct nmctx *ctx)
{
	char name[NETMAP_REQ_IFNAMSIZ] = { 0 };
	struct writer w = { name, 0 };
	const char *at = *pname;
	int is_vale;

	if (prefix(&at, &w, &is_vale, ctx) != 0 || own_name(&at, &w, ctx) != 0)
		return -1;
	if (*at == '{' || *at == '}') {
		if (pipe_end(&at, &w, ctx) != 0)
			return -1;
	} else if (!is_vale && is_no_interface(&w)) {
		return nm_refuse(ctx, "no interface can have this name", *pname);
	}
	memcpy(h->nr_name, name, sizeof(name));
	*pname = at;
	return 0;
}

/* ---- rings, flags, memory ---- */

/* Takes a decimal number from min to max. */
int
nm_number(const char **at, uint64_t min, uint64_t max, uint64_t *number, struct nmctx *ctx)
{
	const char *start = *at;
	char *end;

	if (*start < '0' || *start > '9')
		return nm_refuse(ctx, "expected a number", start);
	errno = 0;
	*number = strtoull(start, &end, 10);
	if (errno != 0 || *number < min || *number > max)
		return nm_refuse(ctx, "the number is out of range", start);
	*at = end;
	return 0;
}

static int
rings(const char **at, struct nmreq_register *r, struct nmctx *ctx)
{
	uint64_t ring = 0;
	char sign = **at;

	r->nr_mode = NR_REG_ALL_NIC;
	if (sign != '*' && sign != '-' && sign != '^')
		return 0;
	++*at;
	if (sign == '*') {
		r->nr_mode = NR_REG_NIC_SW;
	} else if (sign == '^' && !(**at >= '0' && **at <= '9')) {
		r->nr_mode = NR_REG_SW;
	} else {
		if (nm_number(at, 0, UINT16_MAX, &ring, ctx) != 0)
			return -1;
		r->nr_mode = sign == '^' ? NR_REG_ONE_SW : NR_REG_ONE_NIC;
	}
	r->nr_ringid = (uint16_t)ring;
	return 0;
}

static uint64_t
flag_of(char letter)
{
	switch (letter) {
	case 'x': return NR_EXCLUSIVE;
	case 'z': return NR_ZCOPY_MON;
	case 't': return NR_MONITOR_TX;
	case 'r': return NR_MONITOR_RX;
	case 'T': return NR_TX_RINGS_ONLY;
	case 'R': return NR_RX_RINGS_ONLY;
	default: return 0;
	}
}

/* A zero-copy monitor without a direction watches both. */
static uint64_t
nm_whole_flags(uint64_t flags)
{
	const uint64_t both = NR_MONITOR_TX | NR_MONITOR_RX;

	return (flags & NR_ZCOPY_MON) && !(flags & both) ? flags | both : flags;
}

int
nm_flags(const char **at, struct nmreq_register *r, struct nmctx *ctx)
{
	const char *start = ++*at;
	uint64_t flags = 0;

	for (; **at != '\0' && **at != '/' && **at != '@'; ++*at) {
		uint64_t flag = flag_of(**at);

		if (flag == 0)
			return nm_refuse(ctx, "the flags are x z t r T R", *at);
		flags |= flag;
	}
	r->nr_flags |= nm_whole_flags(flags);
	return *at > start ? 0 : nm_refuse(ctx, "expected the letter of a flag", *at);
}

/* Reads "@N", from the N on. If the name has two, they must be equal. */
int
nm_region(const char **at, struct nmreq_register *r, struct nmctx *ctx)
{
	uint64_t id;

	if (nm_number(at, 1, UINT16_MAX, &id, ctx) != 0)
		return -1;
	if (r->nr_mem_id != 0 && r->nr_mem_id != id)
		return nm_refuse(ctx, "another memory is asked for already", *at);
	r->nr_mem_id = (uint16_t)id;
	return 0;
}

int
nmreq_register_decode(const char **psuffix, struct nmreq_register *r, struct nmctx *ctx)
{
	struct nmreq_register wanted = *r;
	const char *at = *psuffix;

	wanted.nr_ringid = 0;
	wanted.nr_flags = 0;
	if (rings(&at, &wanted, ctx) != 0)
		return -1;
	for (;;) {
		const char *behind = at + 1;

		if (*at == '/') {
			if (nm_flags(&at, &wanted, ctx) != 0)
				return -1;
		} else if (*at == '@' && *behind >= '0' && *behind <= '9') {
			if (nm_region(&behind, &wanted, ctx) != 0)
				return -1;
			at = behind;
		} else if (*at == '@' && *behind == '\0') {
			return nm_refuse(ctx, "expected the number of a memory, or an option", behind);
		} else if (*at == '\0' || *at == '@') {
			break;
		} else {
			return nm_refuse(ctx, "expected a suffix or the end", at);
		}
	}
	*r = wanted;
	*psuffix = at;
	return 0;
}

/* Asks the device for the memory of a port. */
static int32_t
mem_id_of(struct nmreq_header *h, struct nmctx *ctx)
{
	struct nmreq_port_info_get info = { 0 };
	int fd = open(NETMAP_DEVICE_NAME, O_RDWR), error;

	h->nr_body = (uintptr_t)&info;
	if (fd >= 0 && ioctl(fd, NIOCCTRL, h) == 0) {
		close(fd);
		return info.nr_mem_id;
	}
	error = errno;
	nmctx_ferror(ctx, "cannot ask for the memory of %s: %s", h->nr_name, strerror(error));
	if (fd >= 0)
		close(fd);
	errno = error;
	return -1;
}

int32_t
nmreq_get_mem_id(const char **pname, struct nmctx *ctx)
{
	struct nmreq_header h;
	uint64_t id;

	if (**pname >= '0' && **pname <= '9')
		return nm_number(pname, 1, UINT16_MAX, &id, ctx) == 0 ? (int32_t)id : -1;
	nmreq_header_init(&h, NETMAP_REQ_PORT_INFO_GET, NULL);
	if (nmreq_header_decode(pname, &h, ctx) != 0)
		return -1;
	return mem_id_of(&h, ctx);
}
