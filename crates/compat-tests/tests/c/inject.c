/*
 * Sends COUNT frames to PORT by libpcap, and prints that: inject PORT COUNT
 * Byte 14 of a frame is its number. LD_LIBRARY_PATH selects the libpcap, as for Debian's programs;
 * the name below is the one that they use.
 */
#include <dlfcn.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *
function(const char *name)
{
	static void *library;

	if (!library)
		library = dlopen("libpcap.so.0.8", RTLD_NOW);
	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	return dlsym(library, name);
}

int
main(int argc, char **argv)
{
	void *(*open_live)(const char *, int, int, int, char *) = function("pcap_open_live");
	int (*inject)(void *, const void *, size_t) = function("pcap_inject");
	int (*selectable_fd)(void *) = function("pcap_get_selectable_fd");
	const char *(*last_error)(void *) = function("pcap_geterr");
	void (*close_port)(void *) = function("pcap_close");
	char error[256] = "", frame[60] = "\377\377\377\377\377\377\2\0\0\0\0\1\210\265";
	void *p = argc == 3 ? open_live(argv[1], 65535, 0, 100, error) : NULL;
	struct pollfd ready = { .events = POLLOUT };
	int i;

	if (!p) {
		fprintf(stderr, "%s\n", error);
		return 1;
	}
	ready.fd = selectable_fd(p);
	for (i = 0; i < atoi(argv[2]); i++) {
		frame[14] = (char)i;
		if (inject(p, frame, sizeof(frame)) != (int)sizeof(frame)) {
			fprintf(stderr, "%s\n", last_error(p));
			return 1;
		}
		/* On a netmap port, this call sends the frames. */
		if (poll(&ready, 1, 120000) != 1) {
			fprintf(stderr, "not sent\n");
			return 1;
		}
	}
	printf("sent\n");
	close_port(p);
	return 0;
}
