/* Passes a frame through a pipe, and prints where its ports are synced: where */
#define NETMAP_WITH_LIBS
#include <net/netmap_user.h>
#include <poll.h>
#include <stdio.h>

#include "check.h"

static const char *
place(struct nm_desc *d)
{
	return nm_inprocess && nm_inprocess->active(d->fd) != 0 ? "here" : "by the device";
}

int
main(void)
{
	struct nm_desc *a = nm_open("netmap:x{1", NULL, 0, NULL), *b = nm_open("netmap:x}1", NULL, 0, NULL);
	struct pollfd p;
	struct nm_pkthdr h;
	char frame[60] = { 0 };

	CHECK(a && b);
	p.fd = b->fd;
	p.events = POLLIN;
	CHECK(nm_inject(a, frame, sizeof(frame)) == sizeof(frame) && ioctl(a->fd, NIOCTXSYNC, NULL) == 0);
	CHECK(poll(&p, 1, 120000) == 1 && nm_nextpkt(b, &h) && h.len == sizeof(frame));
	printf("%s, %s\n", place(a), place(b));
	nm_close(a);
	nm_close(b);
	return 0;
}
