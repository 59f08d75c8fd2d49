/* Blocks a program's access to the device, to prove that frames pass without it. */
#pragma once
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <net/netmap_user.h>

#include "check.h"

/* If this is not 0, time() returns it. So no sync goes to the device because a second has passed. */
static time_t stands;

time_t
time(time_t *at)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (stands)
		now.tv_sec = stands;
	if (at)
		*at = now.tv_sec;
	return now.tv_sec;
}

/* Makes all calls of the device fail until open_again is called with the result. */
static int
shut(struct nm_desc *d)
{
	int kept = dup(d->fd), null = open("/dev/null", O_RDWR), ready;

	CHECK(kept >= 0 && dup2(null, d->fd) == d->fd && close(null) == 0);
	stands = time(NULL);
	/* After this sync, the library does not call the device again in this second. */
	nm_inprocess->sync(d->fd, NM_SYNC_TX_IN_POLL, &ready);
	return kept;
}

static void
open_again(struct nm_desc *d, int kept)
{
	CHECK(dup2(kept, d->fd) == d->fd && close(kept) == 0);
	stands = 0;
}
