// SPDX-License-Identifier: GPL-2.0-only
//
// What is at the other end of a pipe: a slow wire, or a drain, which takes all frames. With the
// wire, frames stay in the device's tx ring until the wire takes them.

#ifndef FD_NETMAP_EMU_WIRE_H
#define FD_NETMAP_EMU_WIRE_H

#include <slipring.h>
// Included after slipring.h.
#include <net/netmap.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>

namespace emu
{

/**
 * Takes frames from one end of a pipe at the rate of a wire, and sends them on a port; passes what
 * the port receives into the pipe immediately. A veth takes frames at any rate, and would leave
 * nothing to queue; with the wire, a device at the other end of the pipe sees a network card of
 * that rate.
 *
 *   device -- pipe: tx ring -- PacedWire, `rate` -- port -- ...
 *
 * One thread, which uses only the two ports, by the C library.
 */
class PacedWire
{
  public:
    /// \return whether both ends could be opened; Error says why not
    bool Start(const std::string& pipeEnd, const std::string& port, double bitsPerSecond)
    {
        m_bitsPerSecond = bitsPerSecond;
        if (slipring_open(pipeEnd.c_str(), nullptr, &m_pipe) < 0 ||
            slipring_open(port.c_str(), nullptr, &m_port) < 0)
        {
            m_error = std::string(slipring_error_message()) + "; try: " + slipring_error_help();
            return false;
        }
        m_thread = std::thread(&PacedWire::Run, this);
        return true;
    }

    ~PacedWire()
    {
        m_ended = true;
        if (m_thread.joinable())
        {
            m_thread.join();
        }
        slipring_close(m_pipe);
        slipring_close(m_port);
    }

    PacedWire() = default;
    PacedWire(const PacedWire&) = delete;
    PacedWire& operator=(const PacedWire&) = delete;

    const std::string& Error() const
    {
        return m_error;
    }

  private:
    using Clock = std::chrono::steady_clock;

    /// \return how long a frame takes on the wire, where CRC, preamble and gap add 24 bytes
    Clock::duration TimeOf(uint32_t bytes) const
    {
        const std::chrono::duration<double> time((bytes + 24) * 8 / m_bitsPerSecond);
        return std::chrono::duration_cast<Clock::duration>(time);
    }

    /// Sends what the wire has time for. \return when it has time for the next frame
    Clock::time_point Send(Clock::time_point free)
    {
        netmap_ring* ring = slipring_rx_ring(m_pipe, 0);
        const auto now = Clock::now();
        // A thread that wakes late makes up for 1 ms at most.
        free = std::max(free, now - std::chrono::milliseconds(1));
        while (free <= now && ring->head != ring->tail)
        {
            const uint32_t bytes = ring->slot[ring->head].len;
            if (slipring_forward(m_pipe, m_port, 1) < 1)
            {
                break;
            }
            free += TimeOf(bytes);
        }
        return free;
    }

    void Run()
    {
        auto free = Clock::now();
        while (!m_ended)
        {
            slipring_rx_sync(m_pipe, 0);
            free = Send(free);
            slipring_forward(m_port, m_pipe, 256);
            const bool busy = free > Clock::now();
            // While the wire is busy, a frame in the pipe need not wake the thread.
            struct slipring_wait waits[2] = {{m_port, SLIPRING_WAIT_RX, 0}, {m_pipe, SLIPRING_WAIT_RX, 0}};
            const auto pause = busy ? free - Clock::now() : std::chrono::milliseconds(50);
            const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(pause).count();
            ::slipring_wait(waits, busy ? 1 : 2, std::max<int64_t>(ns, 0));
        }
    }

    slipring_port* m_pipe{nullptr};
    slipring_port* m_port{nullptr};
    double m_bitsPerSecond{0};
    std::string m_error;
    std::atomic<bool> m_ended{false};
    std::thread m_thread;
};

/// Takes all frames that arrive at a port, in a thread of its own.
class Drain
{
  public:
    /// \return whether the port could be opened; Error says why not
    bool Start(const std::string& port)
    {
        if (slipring_open(port.c_str(), nullptr, &m_port) < 0)
        {
            m_error = std::string(slipring_error_message()) + "; try: " + slipring_error_help();
            return false;
        }
        m_thread = std::thread(&Drain::Run, this);
        return true;
    }

    ~Drain()
    {
        m_ended = true;
        if (m_thread.joinable())
        {
            m_thread.join();
        }
        slipring_close(m_port);
    }

    Drain() = default;
    Drain(const Drain&) = delete;
    Drain& operator=(const Drain&) = delete;

    const std::string& Error() const
    {
        return m_error;
    }

  private:
    void Run()
    {
        netmap_ring* ring = slipring_rx_ring(m_port, 0);
        struct slipring_wait wait = {m_port, SLIPRING_WAIT_RX, 0};
        while (!m_ended)
        {
            ::slipring_wait(&wait, 1, 50000000);
            ring->head = ring->cur = ring->tail;
            slipring_rx_sync(m_port, 0);
        }
    }

    slipring_port* m_port{nullptr};
    std::string m_error;
    std::atomic<bool> m_ended{false};
    std::thread m_thread;
};

} // namespace emu

#endif // FD_NETMAP_EMU_WIRE_H
