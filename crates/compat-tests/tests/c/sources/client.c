/*
 * A source that uses netmap's client in a header, and the system's headers that this header
 * includes.
 */
#define NETMAP_WITH_LIBS
#include <net/netmap_user.h>

#ifndef HAVE_NETMAP_WITH_LIBS
#error "the client did not come"
#endif

static void
count(u_char *arg, const struct nm_pkthdr *h, const u_char *frame)
{
	*(unsigned *)(void *)arg += h->caplen + frame[0] + (h->flags & NM_MORE_PKTS);
}

static volatile sig_atomic_t stopped;

static void
stop(int number)
{
	stopped = number;
}

int
main(int argc, char **argv)
{
	unsigned bytes = 0;
	struct nm_desc *d, *other;
	struct nm_pkthdr h;
	struct nmreq req;
	u_char *frame;

	signal(SIGINT, stop);
	memset(&req, 0, sizeof(req));
	if (argc < 2)
		return EXIT_SUCCESS;
	d = nm_open(argv[1], &req, NETMAP_NO_TX_POLL, NULL);
	if (d == NULL) {
		D("%s: %s", argv[1], strerror(errno));
		return EXIT_FAILURE;
	}
	other = nm_open(argv[1], NULL, NM_OPEN_NO_MMAP | NM_OPEN_ARG2 | NM_OPEN_IFNAME, d);
	while (!stopped && (frame = nm_nextpkt(d, &h)) != NULL)
		if (nm_inject(d, frame, h.len) == 0)
			RD(1, "no room for %u bytes", h.len);
	nm_dispatch(d, -1, count, (u_char *)&bytes);
	ioctl(NETMAP_FD(d), NIOCTXSYNC, NULL);
	if (other != NULL && IS_NETMAP_DESC(other))
		nm_close(P2NMD(other));
	nm_close(d);
	close(-1);
	return (int)bytes;
}
