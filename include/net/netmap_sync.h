/*
 * Syncs in the program itself, if the device is slipring's and the port is the end of a pipe, or an
 * interface by AF_XDP.
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * nm_open and nmport_open ask the device to lend the rings that they bound. From then on, on that
 * descriptor,
 *
 *   ioctl(fd, NIOCTXSYNC), ioctl(fd, NIOCRXSYNC)   move slots here, without a system call
 *   poll of this descriptor alone                  syncs here, and calls the kernel only if nothing is ready
 *
 * keep their meaning. The descriptor still belongs to the device: everything else (select, epoll,
 * dup, fork, exec, passing it on, polling it with others) goes to the device, which syncs the same
 * rings. In a forked process, or if the device lends nothing, all calls go to the device. Once a
 * second a sync goes to the device, which can then report that the interface or the daemon is gone.
 *
 * The code is in libslipring, which contains libnetmap; this header only finds it:
 *
 *   linked with libnetmap.so or libslipring.so    by name
 *   linked with libnetmap.a or libslipring.a      by name, for ports of nmport_open; programs that use
 *                                                 nm_open alone define NETMAP_INPROCESS_LINKED
 *   linked with neither                           by dlopen, if the library is installed
 *   static, linked with neither                   not at all: everything goes to the device
 *
 * NETMAP_INPROCESS=0 in the environment leaves all syncs to the device. So do sources that define
 * NETMAP_NO_INPROCESS before they include this, and C++, whose methods may be called poll.
 */
#ifndef _NET_NETMAP_SYNC_H_
#define _NET_NETMAP_SYNC_H_

#if defined(__linux__) && !defined(__cplusplus) && !defined(NETMAP_NO_INPROCESS)

#include <poll.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>

#include <net/netmap_user.h>

#define NM_INPROCESS_VERSION 1
#define NM_INPROCESS_LIBRARY "libslipring.so.1"

/* The functions of the library; none of them changes errno. */
struct nm_inprocess_calls {
	uint32_t version;
	uint32_t reserved;
	/* Syncs the rings of fd in this process from now on, if the device lends them. */
	void (*start)(int fd, uint64_t memsize, uint64_t flags);
	/* Must be called before fd is closed. */
	void (*stop)(int fd);
	/*
	 * Must be called before a port is opened: releases ports whose descriptors were closed
	 * without stop.
	 */
	void (*sweep)(void);
	/*
	 * Syncs as `what` says (NM_SYNC_...). Returns 0 if the device must sync. *ready: whether
	 * there are slots beyond cur.
	 */
	int (*sync)(int fd, int what, int *ready);
	/*
	 * Passes on the device's answer to such a sync. Only the device knows errors; after one, it
	 * does all syncs until it reports success.
	 */
	void (*record)(int fd, int failed);
	/*
	 * Returns who syncs fd: 0 the device, -1 this process as the end of a pipe, otherwise this
	 * process, with that many queues.
	 */
	int (*active)(int fd);
	/*
	 * Returns the AF_XDP socket of a queue, which belongs to the library; -1 if there is none.
	 */
	int (*socket)(int fd, size_t queue);
};

#define NM_SYNC_TX 0
#define NM_SYNC_RX 1
#define NM_SYNC_TX_IN_POLL 2 /* in a poll that waits for frames; not for ports with NR_NO_TX_POLL */

/*
 * NULL until a port is opened, or if the library is not found. All objects of a program share it.
 */
__attribute__((weak)) const struct nm_inprocess_calls *nm_inprocess;

#ifdef NETMAP_INPROCESS_LINKED
const struct nm_inprocess_calls *nm_inprocess_calls(uint32_t version);
#else
__attribute__((weak)) const struct nm_inprocess_calls *nm_inprocess_calls(uint32_t version);
/* Weak, so that static programs are not linked with it. */
extern void *dlopen(const char *name, int flags) __attribute__((weak));
extern void *dlsym(void *library, const char *name) __attribute__((weak));
#endif

static inline const struct nm_inprocess_calls *
nm_inprocess_calls_(void)
{
	return __atomic_load_n(&nm_inprocess, __ATOMIC_ACQUIRE);
}

/* Looks for the library, once. Threads that call this at the same time find the same library. */
static inline const struct nm_inprocess_calls *
nm_inprocess_find_(void)
{
	const struct nm_inprocess_calls *(*calls)(uint32_t) = nm_inprocess_calls;
	static int tried;

	if (nm_inprocess_calls_() || __atomic_load_n(&tried, __ATOMIC_ACQUIRE))
		return nm_inprocess_calls_();
#ifndef NETMAP_INPROCESS_LINKED
	/* A static program has no dynamic loader, and loading a library would add a second libc. */
	if (!calls && dlopen && dlsym && getauxval(7 /* AT_BASE */)) {
		void *library = dlopen(NM_INPROCESS_LIBRARY, 1 /* RTLD_LAZY */);

		if (library)
			*(void **)&calls = dlsym(library, "nm_inprocess_calls");
	}
#endif
	if (calls)
		__atomic_store_n(&nm_inprocess, calls(NM_INPROCESS_VERSION), __ATOMIC_RELEASE);
	__atomic_store_n(&tried, 1, __ATOMIC_RELEASE);
	return nm_inprocess_calls_();
}

static inline void
nm_sync_start(int fd, uint64_t memsize, uint64_t flags)
{
	const struct nm_inprocess_calls *calls = nm_inprocess_find_();

	if (calls)
		calls->start(fd, memsize, flags);
}

static inline void
nm_sync_sweep(void)
{
	const struct nm_inprocess_calls *calls = nm_inprocess_calls_();

	if (calls)
		calls->sweep();
}

static inline void
nm_sync_stop(int fd)
{
	const struct nm_inprocess_calls *calls = nm_inprocess_calls_();

	if (calls)
		calls->stop(fd);
}

static inline int
nm_sync_ioctl(int fd, unsigned long request, ...)
{
	const struct nm_inprocess_calls *calls = nm_inprocess_calls_();
	va_list rest;
	void *arg;
	int ready, result;

	if (request != NIOCTXSYNC && request != NIOCRXSYNC)
		calls = NULL;
	if (calls && calls->sync(fd, request == NIOCRXSYNC ? NM_SYNC_RX : NM_SYNC_TX, &ready))
		return 0;
	va_start(rest, request);
	arg = va_arg(rest, void *);
	va_end(rest);
	result = ioctl(fd, request, arg);
	if (calls)
		calls->record(fd, result != 0);
	return result;
}

static inline int
nm_sync_poll(struct pollfd *fds, nfds_t count, int timeout)
{
	const struct nm_inprocess_calls *calls = nm_inprocess_calls_();
	int in, out, frames = 0, room = 0;

	if (!calls || count != 1 || !fds)
		return poll(fds, count, timeout);
	in = fds->events & (POLLIN | POLLRDNORM);
	out = fds->events & (POLLOUT | POLLWRNORM);
	if (!calls->sync(fds->fd, out ? NM_SYNC_TX : NM_SYNC_TX_IN_POLL, &room) ||
	    (in && !calls->sync(fds->fd, NM_SYNC_RX, &frames)) ||
	    !((in && frames) || (out && room)))
		return poll(fds, 1, timeout);
	fds->revents = (short)((frames ? in : 0) | (room ? out : 0));
	return 1;
}

#ifndef NETMAP_SYNC_NO_NAMES
#define ioctl(fd, ...) nm_sync_ioctl(fd, __VA_ARGS__, (void *)0)
#define poll(fds, count, timeout) nm_sync_poll(fds, count, timeout)
#endif

#else

static inline void
nm_sync_start(int fd, uint64_t memsize, uint64_t flags)
{
	(void)fd, (void)memsize, (void)flags;
}

static inline void
nm_sync_sweep(void)
{
}

static inline void
nm_sync_stop(int fd)
{
	(void)fd;
}

#endif

#endif /* _NET_NETMAP_SYNC_H_ */
