/*
 * Receives frames through Snort's DAQ, and forwards those with an even number between the two
 * interfaces of PAIR, until it has received COUNT frames: daq MODULES PAIR COUNT
 */
#include <daq.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int seen, wanted;

static DAQ_Verdict
judge(void *user, const DAQ_PktHdr_t *hdr, const uint8_t *frame)
{
	(void)user;
	if (hdr->pktlen < 15 || frame[12] != 0x88 || frame[13] != 0xb5)
		return DAQ_VERDICT_BLOCK;
	seen++;
	return frame[14] % 2 ? DAQ_VERDICT_BLOCK : DAQ_VERDICT_PASS;
}

static void
must(int error, const char *what, const char *why)
{
	if (error) {
		fprintf(stderr, "%s: %s\n", what, why);
		exit(1);
	}
}

int
main(int argc, char **argv)
{
	const char *directories[] = { argc == 4 ? argv[1] : ".", NULL };
	char error[256] = "";
	DAQ_Config_t config = { .snaplen = 1518, .timeout = 100, .mode = DAQ_MODE_INLINE };
	const DAQ_Module_t *module;
	DAQ_Stats_t stats;
	void *daq;

	must(argc != 4, "usage", "daq MODULES PAIR COUNT");
	config.name = argv[2];
	wanted = atoi(argv[3]);
	must(daq_load_modules(directories), "load", directories[0]);
	module = daq_find_module("netmap");
	must(!module, "find", "netmap");
	must(daq_initialize(module, &config, &daq, error, sizeof(error)), "initialize", error);
	must(daq_set_filter(module, daq, "ether proto 0x88b5"), "filter", daq_get_error(module, daq));
	must(daq_start(module, daq), "start", daq_get_error(module, daq));
	printf("started\n");
	fflush(stdout);
	while (seen < wanted)
		must(daq_acquire(module, daq, 0, judge, NULL) < 0, "acquire", daq_get_error(module, daq));
	/* The verdicts are carried out by the poll with which the next call begins. */
	must(daq_acquire(module, daq, 0, judge, NULL) < 0, "acquire", daq_get_error(module, daq));
	must(daq_get_stats(module, daq, &stats), "stats", daq_get_error(module, daq));
	printf("passed %d blocked %d\n", (int)stats.verdicts[DAQ_VERDICT_PASS],
	    (int)stats.verdicts[DAQ_VERDICT_BLOCK]);
	daq_stop(module, daq);
	daq_shutdown(module, daq);
	return 0;
}
