/*
 * Opens a port of the device FILE as nm_open does, up to fetching the sockets of its queues:
 * squatters FILE.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>

#define NETMAP_SYNC_NO_NAMES
#include <net/netmap_sync.h>

#include "lent_queues.h"

/* FILE is not a device; this ioctl answers that a queue is lent. */
int
ioctl(int fd, unsigned long request, ...)
{
	struct nm_lent_queues *lent;
	va_list rest;

	(void)fd;
	va_start(rest, request);
	lent = va_arg(rest, struct nm_lent_queues *);
	va_end(rest);
	if (request != NIOCLENDQ) {
		errno = ENOTTY;
		return -1;
	}
	lent->version = 1;
	lent->who = 7;
	lent->count = 1;
	lent->token = 42;
	return 0;
}

int
main(int argc, char **argv)
{
	int fd = argc == 2 ? open(argv[1], O_RDONLY) : -1;

	if (fd < 0)
		return 1;
	nm_sync_start(fd, 1 << 20, 0);
	printf("%d sockets\n", nm_inprocess ? nm_inprocess->active(fd) : -1);
	return 0;
}
