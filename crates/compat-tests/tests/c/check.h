/* Runs the scenario that the argument names, and defines its checks. */
#pragma once
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what)                                                                            \
	do {                                                                                   \
		if (!(what)) {                                                                 \
			fprintf(stderr, "%s:%d: not so: %s (errno %d: %s)\n", __FILE__,        \
			    __LINE__, #what, errno, strerror(errno));                          \
			exit(1);                                                               \
		}                                                                              \
	} while (0)

struct scenario {
	const char *name;
	void (*run)(void);
};

static inline int
run_scenario(const struct scenario *s, int argc, char **argv)
{
	for (; argc == 2 && s->name; s++)
		if (strcmp(argv[1], s->name) == 0) {
			s->run();
			return 0;
		}
	fprintf(stderr, "no such scenario\n");
	return 2;
}
