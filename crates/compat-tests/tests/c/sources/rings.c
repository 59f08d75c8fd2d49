/*
 * A source that uses rings directly: everything that netmap_user.h provides without
 * NETMAP_WITH_LIBS, and the system's headers that it includes.
 */
#include <net/netmap_user.h>

#ifndef NETMAP_DEVICE_NAME
#error "no name of the device"
#endif
#ifdef HAVE_NETMAP_WITH_LIBS
#error "the client came without being asked for"
#endif

static int
is_printable(const char *frame)
{
	uint8_t first = (uint8_t)frame[0];
	struct timeval now;

	errno = 0;
	return isprint(first) && !gettimeofday(&now, NULL) && errno != EINVAL &&
	    strlen(NETMAP_DEVICE_NAME) < IFNAMSIZ && AF_UNSPEC == 0;
}

static uint32_t
pass(struct netmap_ring *from, struct netmap_ring *to)
{
	uint32_t i = from->head, count = 0;

	while (likely(nm_ring_space(from) > 0) && !nm_ring_empty(to)) {
		struct netmap_slot *in = &from->slot[i], *out = &to->slot[to->head];
		char *frame = NETMAP_BUF(from, in->buf_idx);

		if (unlikely(!is_printable(frame)))
			RD(5, "frame of %u bytes in buffer %lu", in->len,
			    (unsigned long)NETMAP_BUF_IDX(from, frame));
		nm_pkt_copy(NETMAP_BUF_OFFSET(from, in), NETMAP_BUF_OFFSET(to, out), in->len);
		NETMAP_WOFFSET(to, out, NETMAP_ROFFSET(from, in));
		out->len = in->len;
		out->flags |= NS_REPORT;
		i = from->head = from->cur = nm_ring_next(from, i);
		to->head = to->cur = nm_ring_next(to, to->head);
		count++;
	}
	return count;
}

int
main(int argc, char **argv)
{
	struct netmap_if *nifp = NETMAP_IF(argv, 0);

	struct nm_ifreq ifreq;

	memset(ifreq.data, 0, NM_IFRDATA_LEN);
	nm_stst_barrier();
	nm_ldld_barrier();
	nm_stld_barrier();
	D("started");
	D("with %d arguments", argc);
	ND("never said %d", argc);
	RD(1, "at most once in a second");
	if (argc < 100)
		return 0;
	return nm_tx_pending(NETMAP_TXRING(nifp, 0)) +
	    (int)pass(NETMAP_RXRING(nifp, 0), NETMAP_TXRING(nifp, 0));
}
