/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef SLIPRING_POLLER_H
#define SLIPRING_POLLER_H

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>

namespace ns3
{

/**
 * \ingroup slipring-net-device
 * \brief A thread that waits for descriptors and wakes the simulator, and does nothing else.
 *
 * \verbatim
   simulator thread                     poll thread
   Arm(until)       --- the kernel -->  epoll_wait(port, time, link, eventfd)
                    <--- wake() ---     the port is ready: disarms itself
   serves the port, and arms again
   \endverbatim
 *
 * After it has called the wake function, the thread ignores the port until it is armed again. So
 * there is at most one wake-up for each Arm, however many frames arrive.
 *
 * Arm changes what the thread's epoll descriptor waits for, and does not wake the thread. If it
 * did, frames that arrive while the thread waits for a CPU would wake nobody.
 */
class SlipringPoller
{
  public:
    /// What woke the thread
    enum Reason
    {
        PORT, ///< the port, or the time until which it may wait
        LINK, ///< the kernel reports a change of an interface
    };

    /// Called in the poll thread
    typedef std::function<void(Reason)> WakeFunction;

    /**
     * Starts the thread.
     * \param portFd descriptor of the port
     * \param linkFd descriptor that reports changes of interfaces, or -1
     * \param wake called in the poll thread
     */
    SlipringPoller(int portFd, int linkFd, WakeFunction wake);

    /// Ends the thread.
    ~SlipringPoller();

    SlipringPoller(const SlipringPoller&) = delete;
    SlipringPoller& operator=(const SlipringPoller&) = delete;

    /**
     * Makes the thread wait for the port.
     * \param untilNs time of CLOCK_MONOTONIC in ns after which it wakes in any case
     */
    void Arm(uint64_t untilNs);

    /// Makes the thread ignore the port until the next call of Arm. A wake-up that is already under
    /// way still arrives.
    void Disarm();

    /// Wakes the thread without an event of the port. The thread waits again.
    void Disturb();

  private:
    /// The thread.
    void Run();

    /// Wakes the simulator if the thread is armed, and disarms it.
    void WakePort();

    /**
     * Sets the time after which the thread wakes in any case.
     * \param untilNs time of CLOCK_MONOTONIC in ns
     */
    void SetTime(uint64_t untilNs);

    /**
     * Adds a descriptor to those for which the thread waits.
     * \param fd the descriptor
     * \param events the events, of epoll(7)
     */
    void Watch(int fd, uint32_t events);

    int m_portFd;                     //!< descriptor of the port
    int m_linkFd;                     //!< descriptor of link changes, or -1
    int m_eventFd;                    //!< wakes the thread for Disturb, and at its end
    int m_timerFd;                    //!< wakes the thread at the time given to Arm
    int m_epollFd;                    //!< what the thread waits for: the descriptors above
    WakeFunction m_wake;              //!< wakes the simulator
    uint64_t m_untilNs;               //!< time to which m_timerFd is set
    std::atomic<bool> m_armed{false}; //!< whether the port, or the time, wakes the simulator
    std::atomic<bool> m_stop{false};  //!< whether the thread has to end
    std::thread m_thread; //!< the thread; last, so that the other members exist when it starts
};

} // namespace ns3

#endif /* SLIPRING_POLLER_H */
