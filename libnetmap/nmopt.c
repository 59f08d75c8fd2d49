/*
 * Options: as lists in requests, and as text in names. SPDX-License-Identifier: BSD-2-Clause
 *
 *   "@" PREFIX ":" KEY "=" VALUE { "," KEY "=" VALUE }
 *   "@" PREFIX "=" VALUE               the default key; VALUE goes to the end or the next "@"
 *
 * "_" in a key is "-"; "@" and "," of a value are written twice.
 */
#include "internal.h"

#include <errno.h>
#include <string.h>

/* ---- lists ---- */

void
nmreq_push_option(struct nmreq_header *h, struct nmreq_option *o)
{
	o->nro_next = h->nr_options;
	h->nr_options = (uintptr_t)o;
}

void
nmreq_remove_option(struct nmreq_header *h, struct nmreq_option *o)
{
	uint64_t *link = &h->nr_options;

	while (*link != 0 && *link != (uintptr_t)o)
		link = &((struct nmreq_option *)(uintptr_t)*link)->nro_next;
	if (*link != 0)
		*link = o->nro_next;
}

struct nmreq_option *
nmreq_find_option(struct nmreq_header *h, uint32_t reqtype)
{
	struct nmreq_option *o;

	nmreq_foreach_option(h, o) {
		if (o->nro_reqtype == reqtype)
			return o;
	}
	return NULL;
}

void
nmreq_free_options(struct nmreq_header *h)
{
	while (h->nr_options != 0) {
		struct nmreq_option *o = (struct nmreq_option *)(uintptr_t)h->nr_options;

		h->nr_options = o->nro_next;
		nmctx_free(nmctx_get(), o);
	}
}

const char *
nmreq_option_name(uint32_t reqtype)
{
	switch (reqtype) {
	case NETMAP_REQ_OPT_EXTMEM: return "extmem";
	case NETMAP_REQ_OPT_SYNC_KLOOP_EVENTFDS: return "sync-kloop-eventfds";
	case NETMAP_REQ_OPT_CSB: return "csb";
	case NETMAP_REQ_OPT_SYNC_KLOOP_MODE: return "sync-kloop-mode";
	case NETMAP_REQ_OPT_OFFSETS: return "offsets";
	default: return "unknown";
	}
}

/* ---- text ---- */

/* Whether the len characters of s are word. "_" equals "-". */
static int
is_word(const char *s, size_t len, const char *word)
{
	size_t i;

	for (i = 0; i < len; i++)
		if (word[i] == '\0' || (s[i] == '_' ? '-' : s[i]) != word[i])
			return 0;
	return word[len] == '\0';
}

static size_t
word_len(const char *s)
{
	return strspn(s, "abcdefghijklmnopqrstuvwxyz-_");
}

static struct nmreq_opt_parser *
find_parser(struct nmreq_opt_parser *p, const char *s, size_t len)
{
	while (p && (!is_word(s, len, p->prefix) || (p->flags & NMREQ_OPTF_DISABLED)))
		p = p->next;
	return p;
}

/* Copies a value to *out, with each doubled character as one. */
static int
value(const char **at, const struct nmreq_opt_key *key, const char *ends, char **out,
    struct nmctx *ctx)
{
	const char *start = *at;
	char *first = *out;
	int c;

	if (key->flags & NMREQ_OPTK_NUMBER)
		while (**at >= '0' && **at <= '9')
			*(*out)++ = *(*at)++;
	else
		while ((c = nm_literal(at, ends)) != '\0')
			*(*out)++ = (char)c;
	if (*out == first && !(key->flags & NMREQ_OPTK_ALLOWEMPTY))
		return nm_refuse(ctx, "expected a value", start);
	*(*out)++ = '\0';
	return 0;
}

static const struct nmreq_opt_key *
find_key(const struct nmreq_opt_parser *p, const char *s, size_t len)
{
	int i;

	for (i = 0; i < p->nr_keys; i++)
		if (is_word(s, len, p->keys[i].key))
			return &p->keys[i];
	return NULL;
}

/* Parses "key=value,...". */
static int
pairs(const char **at, const struct nmreq_opt_parser *p, struct nmreq_parse_ctx *into, char *out)
{
	for (;; ++*at) {
		size_t len = word_len(*at);
		const struct nmreq_opt_key *key = find_key(p, *at, len);

		if (!key || into->keys[key->id])
			return nm_refuse(into->ctx, key ? "this key is given twice" :
			    "the option has no such key", *at);
		*at += len;
		if (**at != '=')
			return nm_refuse(into->ctx, "expected =", *at);
		++*at;
		into->keys[key->id] = out;
		if (value(at, key, ",@", &out, into->ctx) != 0)
			return -1;
		if (**at != ',')
			return 0;
	}
}

static int
default_value(const char **at, const struct nmreq_opt_parser *p, struct nmreq_parse_ctx *into,
    char *out)
{
	const struct nmreq_opt_key *key = &p->keys[p->default_key];

	into->keys[key->id] = out;
	return value(at, key, "@", &out, into->ctx);
}

static int
keys_are_set(const struct nmreq_opt_parser *p, const struct nmreq_parse_ctx *parsed)
{
	int i;

	for (i = 0; i < p->nr_keys; i++)
		if ((p->keys[i].flags & NMREQ_OPTK_MUSTSET) && !parsed->keys[p->keys[i].id])
			return 0;
	return 1;
}

/* Parses the text after the option's prefix. Values go to space, which is as large as the text. */
static int
body(const char **at, const struct nmreq_opt_parser *p, struct nmreq_parse_ctx *into, char *space)
{
	if (**at == '=' && p->default_key >= 0) {
		++*at;
		return default_value(at, p, into, space);
	}
	if (**at == ':') {
		++*at;
		return pairs(at, p, into, space);
	}
	if (p->flags & NMREQ_OPTF_ALLOWEMPTY)
		return 0;
	return nm_refuse(into->ctx, "expected :", *at);
}

int
nm_one_option(const char **at, struct nmreq_opt_parser *parsers, void *token, struct nmctx *ctx)
{
	struct nmreq_parse_ctx parsed = { .ctx = ctx, .token = token };
	const char *word = *at + 1;
	size_t len = word_len(word);
	struct nmreq_opt_parser *p = find_parser(parsers, word, len);
	char *space;
	int error;

	if (!p)
		return nm_refuse(ctx, "there is no such option", *at);
	space = nmctx_malloc(ctx, strlen(word) + 1);
	if (!space) {
		errno = ENOMEM;
		return -1;
	}
	*at = word + len;
	error = body(at, p, &parsed, space);
	if (error == 0 && !keys_are_set(p, &parsed))
		error = nm_refuse(ctx, "a key that the option needs is not there", word);
	if (error == 0)
		error = p->parse(&parsed);
	nmctx_free(ctx, space);
	return error;
}

int
nmreq_options_decode(const char *opt, struct nmreq_opt_parser *parsers, void *token,
    struct nmctx *ctx)
{
	while (*opt == '@')
		if (nm_one_option(&opt, parsers, token, ctx) != 0)
			return -1;
	return *opt == '\0' ? 0 : nm_refuse(ctx, "expected @ or the end", opt);
}
