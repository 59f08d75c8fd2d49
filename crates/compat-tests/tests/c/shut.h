/* The way to the device, shut to prove that frames pass without it. */
#pragma once
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <net/netmap_user.h>

#include "check.h"

/* The time stands still at this, if it is not 0: once a second a sync is the device's. */
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

/* Whatever goes to the device from now on fails, until what is given back opens it again. */
static int
shut(struct nm_desc *d)
{
	int kept = dup(d->fd), null = open("/dev/null", O_RDWR), ready;

	CHECK(kept >= 0 && dup2(null, d->fd) == d->fd && close(null) == 0);
	stands = time(NULL);
	/* Whether it asks the device or not, it does not ask again in this second. */
	nm_inprocess->sync(d->fd, NM_SYNC_TX_IN_POLL, &ready);
	return kept;
}

static void
open_again(struct nm_desc *d, int kept)
{
	CHECK(dup2(kept, d->fd) == d->fd && close(kept) == 0);
	stands = 0;
}
