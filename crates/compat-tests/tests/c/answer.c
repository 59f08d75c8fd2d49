/*
 * Answers frames: doubles their number and sends them back, until COUNT frames have arrived: answer
 * PORT COUNT
 */
#define NETMAP_WITH_LIBS
#include <net/netmap_user.h>
#include <poll.h>

#include "check.h"

int
main(int argc, char **argv)
{
	struct nm_desc *d = argc == 3 ? nm_open(argv[1], NULL, 0, NULL) : NULL;
	struct pollfd p = { .events = POLLIN };
	struct nm_pkthdr h;
	int left = argc == 3 ? atoi(argv[2]) : 0;
	u_char *frame;

	CHECK(d);
	p.fd = NETMAP_FD(d);
	printf("open\n");
	fflush(stdout);
	while (left > 0) {
		CHECK(poll(&p, 1, 120000) == 1);
		while ((frame = nm_nextpkt(d, &h)) != NULL) {
			uint32_t number;

			memcpy(&number, frame + 14, 4);
			number = __builtin_bswap32(2 * __builtin_bswap32(number));
			memcpy(frame + 14, &number, 4);
			/*
			 * Another source address, because a switch would otherwise learn the
			 * sender's address at this port.
			 */
			frame[11] ^= 0xf0;
			CHECK(nm_inject(d, frame, h.len) == (int)h.len);
			left--;
		}
		CHECK(ioctl(d->fd, NIOCTXSYNC, NULL) == 0);
	}
	/* Sent frames stay in the pipe as long as its other end is open. */
	return 0;
}
