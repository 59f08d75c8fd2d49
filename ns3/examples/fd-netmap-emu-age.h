// SPDX-License-Identifier: GPL-2.0-only
//
// Measures how long packets of slipring-source take to reach the application of a simulated node.

#ifndef FD_NETMAP_EMU_AGE_H
#define FD_NETMAP_EMU_AGE_H

#include "ns3/packet.h"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <deque>
#include <fstream>
#include <ostream>

namespace emu
{

/**
 * The ages of packets at their delivery. A packet begins with times of the steady clock: when it was
 * sent, when its burst began, and when the last bursts began in which the machine stopped the source.
 * Packets of such bursts are left out: they waited in the source.
 *
 * \verbatim
   sent                                                       delivered
    |--------- others are delivered, N of them -----------------|      the age
    |-- run --|-- the machine runs other programs --|-- run ----|      the age while the simulator ran
   \endverbatim
 *
 * N tells how long the queue before the application is, whatever the speed of the machine.
 */
class PacketAges
{
  public:
    /// Records a packet that is delivered now.
    void Note(ns3::Ptr<const ns3::Packet> packet, const ns3::Address&)
    {
        Times times;
        packet->CopyData(reinterpret_cast<uint8_t*>(&times), sizeof(times));
        const int64_t sent = times.sent;
        if (times.burst != m_burst.start)
        {
            EndBurst(times.interrupted);
            m_burst.start = times.burst;
        }
        const Delivery now = Now();
        while (!m_deliveries.empty() && m_deliveries.front().time <= sent)
        {
            m_before = m_deliveries.front();
            m_deliveries.pop_front();
        }
        m_mostAhead = std::max(m_mostAhead, m_deliveries.size());
        m_burst.packets++;
        m_burst.oldest = std::max(m_burst.oldest, now.time - sent);
        m_burst.oldestRunning = std::max(m_burst.oldestRunning, now.time - sent - (now.preempted - m_before.preempted));
        m_deliveries.push_back(now);
    }

    /// Ends the last burst, which nothing says was interrupted.
    void End()
    {
        EndBurst({});
    }

    friend std::ostream& operator<<(std::ostream& os, const PacketAges& ages)
    {
        return os << "the oldest packet after " << ages.m_oldest / 1e6 << " ms, while the simulator ran after "
                  << ages.m_oldestRunning / 1e6 << " ms, the longest queue " << ages.m_mostAhead
                  << " packets, the longest pause " << ages.m_pause / 1e6 << " ms, the longest stop "
                  << ages.m_stop / 1e6 << " ms, " << ages.m_leftOut << " packets left out";
    }

  private:
    /// A delivered packet
    struct Delivery
    {
        int64_t time{0};      //!< when, by the steady clock, in ns
        int64_t preempted{0}; //!< how long the thread could not run until then, in ns
    };

    /// The times at the start of a packet, in ns
    struct Times
    {
        int64_t sent{0};                      //!< when it was sent
        int64_t burst{0};                     //!< when its burst began
        std::array<int64_t, 8> interrupted{}; //!< when the last interrupted bursts began; 0 for none
    };

    /// The packets of one burst of the source
    struct Burst
    {
        int64_t start{0};         //!< when it began
        uint64_t packets{0};      //!< number of those delivered so far
        int64_t oldest{0};        //!< the highest age
        int64_t oldestRunning{0}; //!< the highest age, without the time for which the thread could not run
    };

    /// Counts the packets of the burst so far, unless it was interrupted.
    void EndBurst(const std::array<int64_t, 8>& interrupted)
    {
        if (std::find(interrupted.begin(), interrupted.end(), m_burst.start) != interrupted.end())
        {
            m_leftOut += m_burst.packets;
        }
        else
        {
            m_oldest = std::max(m_oldest, m_burst.oldest);
            m_oldestRunning = std::max(m_oldestRunning, m_burst.oldestRunning);
        }
        m_burst = Burst();
    }

    /// What the kernel says about the simulator's thread
    struct Schedule
    {
        int64_t cpu{0};    //!< its CPU time, in ns
        int64_t delay{0};  //!< how long it has waited for a CPU, in ns
        int64_t sleeps{0}; //!< how often it went to sleep
    };

    static Schedule ReadSchedule()
    {
        timespec cpu{};
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
        rusage used{};
        getrusage(RUSAGE_THREAD, &used);
        Schedule schedule{cpu.tv_sec * INT64_C(1000000000) + cpu.tv_nsec, 0, used.ru_nvcsw};
        int64_t running = 0;
        std::ifstream("/proc/thread-self/schedstat") >> running >> schedule.delay;
        return schedule;
    }

    /// \return a delivery now
    Delivery Now()
    {
        const auto clock = std::chrono::steady_clock::now().time_since_epoch();
        const int64_t time = std::chrono::nanoseconds(clock).count();
        const int64_t pause = m_time > 0 ? time - m_time : 0;
        m_pause = std::max(m_pause, pause);
        if (m_time == 0 || pause > LEAST_PAUSE)
        {
            const Schedule schedule = ReadSchedule();
            // A thread that did not sleep has wanted to run all the time. So all time without CPU
            // is missing, including time that the host of a virtual machine took.
            const bool slept = schedule.sleeps != m_schedule.sleeps;
            const int64_t missing = slept ? schedule.delay - m_schedule.delay
                                          : time - m_read - (schedule.cpu - m_schedule.cpu);
            const int64_t stop = std::clamp<int64_t>(missing, 0, pause);
            m_preempted += stop;
            m_stop = std::max(m_stop, m_read > 0 ? stop : 0);
            m_schedule = schedule;
            m_read = time;
        }
        m_time = time;
        return {time, m_preempted};
    }

    /// If the time between two deliveries is at most this, in ns, the simulator counts as running
    /// for all of it
    static constexpr int64_t LEAST_PAUSE = 100000;

    std::deque<Delivery> m_deliveries; //!< since the packet delivered last was sent
    Delivery m_before;                 //!< the last one before
    int64_t m_time{0};                 //!< when the last packet was delivered
    Schedule m_schedule;               //!< what the kernel said last
    int64_t m_read{0};                 //!< when
    int64_t m_preempted{0};            //!< how long the thread could not run, so far
    Burst m_burst;                     //!< the burst of the last packet
    uint64_t m_leftOut{0};             //!< number of packets of interrupted bursts
    int64_t m_oldest{0};               //!< the highest age
    int64_t m_oldestRunning{0};        //!< the highest age, without the time for which the thread could not run
    int64_t m_pause{0};                //!< the longest time between two packets
    int64_t m_stop{0};                 //!< the longest part of such a time for which the thread could not run
    std::size_t m_mostAhead{0};        //!< most packets that were delivered while one waited
};

} // namespace emu

#endif // FD_NETMAP_EMU_AGE_H
