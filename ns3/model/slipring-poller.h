/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef SLIPRING_POLLER_H
#define SLIPRING_POLLER_H

#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

namespace ns3
{

/**
 * \ingroup slipring-net-device
 * \brief A thread that waits for descriptors and wakes the simulator, and does nothing else.
 *
 * \verbatim
   simulator thread                     poll thread
   Arm(until)       --- eventfd --->    poll(port, link, eventfd, until)
                    <--- wake() ---     ready: disarms itself
   serves the port, and arms again
   \endverbatim
 *
 * After it has called the wake function, the thread ignores the port until it is armed again. So
 * there is at most one wake-up for each Arm, however many frames arrive.
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

    /// Wakes the thread without an event of the port. The thread looks at its state and waits
    /// again.
    void Disturb();

  private:
    /// The thread.
    void Run();

    /**
     * Waits once.
     * \param armed whether to wait for the port
     * \param untilNs time after which to wake
     * \return whether the port is ready or the time has come
     */
    bool Wait(bool armed, uint64_t untilNs);

    int m_portFd;             //!< descriptor of the port
    int m_linkFd;             //!< descriptor of link changes, or -1
    int m_eventFd;            //!< wakes the thread after Arm and Disturb, and at its end
    WakeFunction m_wake;      //!< wakes the simulator
    std::mutex m_mutex;       //!< protects the members below
    bool m_armed{false};      //!< whether the thread waits for the port
    bool m_stop{false};       //!< whether the thread has to end
    uint64_t m_untilNs{0};    //!< time after which to wake
    uint64_t m_generation{0}; //!< number of the last Arm
    std::thread m_thread;     //!< the thread; last, so that the other members exist when it starts
};

} // namespace ns3

#endif /* SLIPRING_POLLER_H */
