/* Contexts: memory, messages, a lock. SPDX-License-Identifier: BSD-2-Clause */
#include <libnetmap.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static void
say(struct nmctx *ctx, const char *message)
{
	(void)ctx;
	fprintf(stderr, "libnetmap: %s\n", message);
}

static void *
allocate(struct nmctx *ctx, size_t size)
{
	(void)ctx;
	return malloc(size);
}

static void
release(struct nmctx *ctx, void *mem)
{
	(void)ctx;
	free(mem);
}

static struct nmctx first = { .error = say, .malloc = allocate, .free = release };
static struct nmctx *by_default = &first;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void
lock(struct nmctx *ctx, int take)
{
	(void)ctx;
	if (take)
		pthread_mutex_lock(&mutex);
	else
		pthread_mutex_unlock(&mutex);
}

int nmctx_threadsafe;

__attribute__((constructor)) void
nmctx_set_threadsafe(void)
{
	nmctx_threadsafe = 1;
	first.lock = lock;
}

struct nmctx *
nmctx_get(void)
{
	return by_default;
}

struct nmctx *
nmctx_set_default(struct nmctx *ctx)
{
	struct nmctx *old = by_default;

	by_default = ctx;
	return old;
}

void
nmctx_ferror(struct nmctx *ctx, const char *fmt, ...)
{
	char message[512];
	va_list args;

	va_start(args, fmt);
	vsnprintf(message, sizeof(message), fmt, args);
	va_end(args);
	ctx->error(ctx, message);
}

void *
nmctx_malloc(struct nmctx *ctx, size_t size)
{
	return ctx->malloc(ctx, size);
}

void
nmctx_free(struct nmctx *ctx, void *mem)
{
	ctx->free(ctx, mem);
}

void
nmctx_lock(struct nmctx *ctx)
{
	if (ctx->lock)
		ctx->lock(ctx, 1);
}

void
nmctx_unlock(struct nmctx *ctx)
{
	if (ctx->lock)
		ctx->lock(ctx, 0);
}
