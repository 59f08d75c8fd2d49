/* Asks the other door of a device for sockets, as nm_open does: squatters FILE. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <net/netmap_sync_nic.h>

int
main(int argc, char **argv)
{
	int fds[NM_LENT_QUEUES], fd = argc == 2 ? open(argv[1], O_RDONLY) : -1;

	if (fd < 0)
		return 1;
	printf("%u sockets\n", nm_nic_sockets_(fd, 42, fds));
	return 0;
}
