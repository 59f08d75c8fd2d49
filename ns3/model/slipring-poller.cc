/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "slipring-poller.h"

#include "ns3/fatal-error.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sched.h>
#include <slipring.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

namespace ns3
{

namespace
{

/// The events of a port that end a wait, once for each Arm
constexpr uint32_t PORT_EVENTS = EPOLLIN | EPOLLONESHOT;

/**
 * \param fd a new descriptor, or -1 with errno set
 * \return the descriptor
 */
int
Checked(int fd)
{
    if (fd < 0)
    {
        NS_FATAL_ERROR("no descriptor for the poll thread: " << std::strerror(errno)
                                                             << "; try: ulimit -n 4096");
    }
    return fd;
}

/// Reads all messages of a socket, and ignores them.
void
DiscardMessages(int fd)
{
    char message[8192];
    while (recv(fd, message, sizeof(message), MSG_DONTWAIT) > 0)
    {
    }
}

/// The argument of sched_setattr(2), in its first version. Debian 12's C library does not declare
/// it, and the kernel's header clashes with the C library's.
struct SchedulingAttributes
{
    uint32_t size;     //!< size of this structure, in bytes
    uint32_t policy;   //!< policy, such as SCHED_OTHER
    uint64_t flags;    //!< flags
    int32_t nice;      //!< nice value
    uint32_t priority; //!< static priority
    uint64_t runtime;  //!< with SCHED_OTHER, the time slice in ns; 0: the scheduler's default
    uint64_t deadline; //!< only for SCHED_DEADLINE
    uint64_t period;   //!< only for SCHED_DEADLINE
};

/**
 * Asks the scheduler to run this thread soon when it wakes, also while the simulator's thread takes
 * all of the CPU. Since Linux 6.12, a thread that wakes does not wait for the end of the running
 * thread's slice if its own slice is shorter. A thread with a real-time priority, inherited from the
 * simulator's, needs a higher one, which takes CAP_SYS_NICE or a higher RLIMIT_RTPRIO.
 */
void
RequestShortWaits()
{
    // The shortest slice that Linux gives
    constexpr uint64_t SLICE_NS = 100000;
    SchedulingAttributes scheduling{};
    if (syscall(SYS_sched_getattr, 0, &scheduling, sizeof(scheduling), 0) != 0)
    {
        return;
    }
    if (scheduling.policy == SCHED_OTHER)
    {
        scheduling.runtime = SLICE_NS;
    }
    else if (scheduling.policy == SCHED_FIFO || scheduling.policy == SCHED_RR)
    {
        scheduling.priority++;
    }
    // If this fails, the thread runs later; at a real-time priority, when the simulator sleeps.
    syscall(SYS_sched_setattr, 0, &scheduling, 0);
}

} // namespace

SlipringPoller::SlipringPoller(int portFd, int linkFd, WakeFunction wake)
    : m_portFd(portFd),
      m_linkFd(linkFd),
      m_eventFd(Checked(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))),
      m_timerFd(Checked(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK))),
      m_epollFd(Checked(epoll_create1(EPOLL_CLOEXEC))),
      m_wake(std::move(wake)),
      m_untilNs(SLIPRING_NEVER)
{
    Watch(m_eventFd, EPOLLIN);
    Watch(m_timerFd, EPOLLIN | EPOLLET);
    Watch(m_portFd, EPOLLONESHOT);
    if (m_linkFd >= 0)
    {
        Watch(m_linkFd, EPOLLIN);
    }
    m_thread = std::thread(&SlipringPoller::Run, this);
}

SlipringPoller::~SlipringPoller()
{
    m_stop = true;
    Disturb();
    m_thread.join();
    close(m_epollFd);
    close(m_timerFd);
    close(m_eventFd);
}

void
SlipringPoller::Watch(int fd, uint32_t events)
{
    epoll_event event{};
    event.events = events;
    event.data.fd = fd;
    if (epoll_ctl(m_epollFd, EPOLL_CTL_ADD, fd, &event) < 0)
    {
        NS_FATAL_ERROR("the poll thread cannot wait for descriptor " << fd << ": "
                                                                     << std::strerror(errno));
    }
}

void
SlipringPoller::Arm(uint64_t untilNs)
{
    m_armed = true;
    if (untilNs != SLIPRING_NEVER || m_untilNs != SLIPRING_NEVER)
    {
        SetTime(untilNs);
    }
    epoll_event event{};
    event.events = PORT_EVENTS;
    event.data.fd = m_portFd;
    // Wakes the thread if the port is ready already.
    epoll_ctl(m_epollFd, EPOLL_CTL_MOD, m_portFd, &event);
}

void
SlipringPoller::SetTime(uint64_t untilNs)
{
    m_untilNs = untilNs;
    // Zeros stop the timer. The time 0 has passed, and so has 1.
    uint64_t ns = untilNs == SLIPRING_NEVER ? 0 : std::max<uint64_t>(untilNs, 1);
    itimerspec time{};
    time.it_value.tv_sec = static_cast<time_t>(ns / 1000000000);
    time.it_value.tv_nsec = static_cast<long>(ns % 1000000000);
    timerfd_settime(m_timerFd, TFD_TIMER_ABSTIME, &time, nullptr);
}

void
SlipringPoller::Disarm()
{
    m_armed = false;
}

void
SlipringPoller::Disturb()
{
    uint64_t one = 1;
    // The write fails only if the counter is at its maximum. Then the thread wakes anyway.
    [[maybe_unused]] ssize_t written = write(m_eventFd, &one, sizeof(one));
}

void
SlipringPoller::WakePort()
{
    if (m_armed.exchange(false))
    {
        m_wake(PORT);
    }
}

void
SlipringPoller::Run()
{
    RequestShortWaits();
    while (!m_stop)
    {
        epoll_event event{};
        if (epoll_wait(m_epollFd, &event, 1, -1) <= 0)
        {
            continue;
        }
        if (event.data.fd == m_eventFd)
        {
            uint64_t count;
            [[maybe_unused]] ssize_t got = read(m_eventFd, &count, sizeof(count));
        }
        else if (event.data.fd == m_linkFd)
        {
            DiscardMessages(m_linkFd);
            m_wake(LINK);
        }
        else
        {
            WakePort();
        }
    }
}

} // namespace ns3
