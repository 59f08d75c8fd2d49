/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "slipring-poller.h"

#include "ns3/fatal-error.h"

#include <cerrno>
#include <cstring>
#include <ctime>
#include <poll.h>
#include <slipring.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

namespace ns3
{

namespace
{

/**
 * \param untilNs time of CLOCK_MONOTONIC in ns
 * \return the time until then; 0 if it has passed
 */
timespec
TimeLeft(uint64_t untilNs)
{
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t nowNs = static_cast<uint64_t>(now.tv_sec) * 1000000000 + now.tv_nsec;
    uint64_t left = untilNs > nowNs ? untilNs - nowNs : 0;
    timespec rest;
    rest.tv_sec = static_cast<time_t>(left / 1000000000);
    rest.tv_nsec = static_cast<long>(left % 1000000000);
    return rest;
}

} // namespace

SlipringPoller::SlipringPoller(int portFd, int linkFd, WakeFunction wake)
    : m_portFd(portFd),
      m_linkFd(linkFd),
      m_eventFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      m_wake(std::move(wake))
{
    if (m_eventFd < 0)
    {
        NS_FATAL_ERROR("no descriptor for the poll thread: " << std::strerror(errno)
                                                             << "; try: ulimit -n 4096");
    }
    m_thread = std::thread(&SlipringPoller::Run, this);
}

SlipringPoller::~SlipringPoller()
{
    {
        std::lock_guard<std::mutex> lock(m_mutex);
        m_stop = true;
    }
    Disturb();
    m_thread.join();
    close(m_eventFd);
}

void
SlipringPoller::Arm(uint64_t untilNs)
{
    {
        std::lock_guard<std::mutex> lock(m_mutex);
        m_armed = true;
        m_untilNs = untilNs;
        m_generation++;
    }
    Disturb();
}

void
SlipringPoller::Disarm()
{
    std::lock_guard<std::mutex> lock(m_mutex);
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
SlipringPoller::Run()
{
    for (;;)
    {
        bool armed;
        uint64_t untilNs;
        uint64_t generation;
        {
            std::lock_guard<std::mutex> lock(m_mutex);
            if (m_stop)
            {
                return;
            }
            armed = m_armed;
            untilNs = m_untilNs;
            generation = m_generation;
        }
        if (!Wait(armed, untilNs))
        {
            continue;
        }
        std::lock_guard<std::mutex> lock(m_mutex);
        if (m_armed && m_generation == generation && !m_stop)
        {
            m_armed = false;
            m_wake(PORT);
        }
    }
}

bool
SlipringPoller::Wait(bool armed, uint64_t untilNs)
{
    pollfd fds[3] = {{m_eventFd, POLLIN, 0},
                     {armed ? m_portFd : -1, POLLIN, 0},
                     {m_linkFd, POLLIN, 0}};
    timespec rest = TimeLeft(untilNs);
    bool hasLimit = armed && untilNs != SLIPRING_NEVER;
    int ready = ppoll(fds, 3, hasLimit ? &rest : nullptr, nullptr);
    if (ready < 0)
    {
        return false;
    }
    if (fds[0].revents)
    {
        uint64_t count;
        [[maybe_unused]] ssize_t got = read(m_eventFd, &count, sizeof(count));
    }
    if (fds[2].revents)
    {
        char message[8192];
        while (recv(m_linkFd, message, sizeof(message), MSG_DONTWAIT) > 0)
        {
        }
        m_wake(LINK);
    }
    return armed && (fds[1].revents || (ready == 0 && hasLimit));
}

} // namespace ns3
