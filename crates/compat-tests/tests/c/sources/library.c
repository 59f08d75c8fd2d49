/* A source for libnetmap, whose header includes the header for rings. */
#include <libnetmap.h>

int
main(int argc, char **argv)
{
	struct nmport_d *d;
	uint32_t space = 0;

	if (argc < 2)
		return 0;
	d = nmport_open(argv[1]);
	if (d == NULL) {
		D("cannot open %s: %s", argv[1], strerror(errno));
		return 1;
	}
	for (uint16_t i = d->first_tx_ring; i <= d->last_tx_ring; i++)
		space += nm_ring_space(NETMAP_TXRING(d->nifp, i));
	nmport_close(d);
	return space > 0;
}
