// SPDX-License-Identifier: GPL-2.0-only
//
// Sends UDP to port 8000 of a host at a constant rate, from a port of slipring: the load behind
// `make ns3-figures`. Starts with the first frame that arrives, which says that the host is there.
// Each payload begins with times of the steady clock in ns, in the machine's order of bytes: when the
// frame was stamped, when the burst began that it belongs to, and when the last eight interrupted
// bursts began, in any order. A burst is interrupted if its frames have not left after a
// millisecond, because the machine stopped this program.
//
//   slipring-source PORT ADDRESS PACKETS-PER-SECOND SECONDS BYTES

#include <slipring.h>

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <thread>
#include <vector>

namespace
{

using Clock = std::chrono::steady_clock;

/// Maximum number of frames that are stamped and queued for one sync
constexpr uint64_t BURST = 16;

/// A burst that takes longer was interrupted: its frames are older without being late in the
/// receiver
constexpr std::chrono::milliseconds INTERRUPTED(1);

/// Lengths of the headers, in bytes
constexpr std::size_t ETHERNET = 14;
constexpr std::size_t IP = 20;
constexpr std::size_t UDP = 8;

void
Put16(uint8_t* at, std::size_t value)
{
    at[0] = static_cast<uint8_t>(value >> 8);
    at[1] = static_cast<uint8_t>(value);
}

/// Adds the 16-bit words of some bytes to a sum of the Internet checksum. The length must be even.
uint32_t
Sum(const uint8_t* at, std::size_t length, uint32_t sum)
{
    for (std::size_t i = 0; i < length; i += 2)
    {
        sum += at[i] << 8 | at[i + 1];
    }
    return sum;
}

/// Returns the Internet checksum of a sum.
std::size_t
Checksum(uint32_t sum)
{
    sum = (sum & 0xffff) + (sum >> 16);
    return ~(sum + (sum >> 16)) & 0xffff;
}

/// The times at the start of a payload, in ns
struct Times
{
    int64_t stamped{0};                   //!< of the frame
    int64_t burst{0};                     //!< start of its burst
    std::array<int64_t, 8> interrupted{}; //!< starts of interrupted bursts
};

int64_t
Now()
{
    return std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
}

/// Frames with times in their payload
struct Frames
{
    std::vector<uint8_t> frame; //!< the next frame
    uint32_t sum{0};            //!< sum of its pseudo header and UDP header without the checksum
    Times times;                //!< of the next frame
    uint64_t interruptions{0};  //!< number of interrupted bursts

    /// Writes the times and the checksum.
    void Stamp()
    {
        times.stamped = Now();
        uint8_t* udp = frame.data() + ETHERNET + IP;
        std::memcpy(udp + UDP, &times, sizeof(times));
        const std::size_t checksum = Checksum(Sum(udp + UDP, sizeof(times), sum));
        // 0 would say that there is no checksum.
        Put16(udp + 6, checksum == 0 ? 0xffff : checksum);
    }
};

/// Builds the frames: UDP from 10.0.1.2 to \p address, sent to the broadcast MAC address. The
/// payload after the times is zero.
Frames
MakeFrames(const char* address, std::size_t size)
{
    Frames frames;
    std::vector<uint8_t>& frame = frames.frame;
    frame.assign(size, 0);
    std::memset(frame.data(), 0xff, 6);
    frame[6] = 2;
    frame[12] = 8;
    uint8_t* ip = frame.data() + ETHERNET;
    ip[0] = 0x45;
    Put16(ip + 2, size - ETHERNET);
    ip[8] = 64;
    ip[9] = 17;
    inet_pton(AF_INET, "10.0.1.2", ip + 12);
    inet_pton(AF_INET, address, ip + 16);
    Put16(ip + 10, Checksum(Sum(ip, IP, 0)));
    uint8_t* udp = ip + IP;
    Put16(udp, 8000);
    Put16(udp + 2, 8000);
    Put16(udp + 4, size - ETHERNET - IP);
    // The pseudo header: addresses, protocol, length.
    frames.sum = Sum(ip + 12, 8 + UDP, 17 + static_cast<uint32_t>(size - ETHERNET - IP));
    return frames;
}

/// Stamps and queues \p count frames. \return how many there was room for
uint64_t
Queue(slipring_port* port, Frames& frames, uint64_t count)
{
    uint64_t queued = 0;
    for (; queued < count; queued++)
    {
        frames.Stamp();
        if (slipring_send(port, 0, frames.frame.data(), frames.frame.size()) != 1)
        {
            break;
        }
    }
    return queued;
}

/// Sends up to \p count frames. Returns when they have left, so that the age of the next frames does
/// not include time in the ring of the source. \return how many
uint64_t
SendBurst(slipring_port* port, Frames& frames, uint64_t count)
{
    Times& times = frames.times;
    times.burst = Now();
    const uint64_t queued = Queue(port, frames, count);
    slipring_drain(port, -1);
    if (queued > 0 && std::chrono::nanoseconds(Now() - times.burst) > INTERRUPTED)
    {
        times.interrupted[frames.interruptions++ % times.interrupted.size()] = times.burst;
    }
    return queued;
}

} // namespace

int
main(int argc, char** argv)
{
    if (argc != 6 || std::strtoul(argv[5], nullptr, 10) < ETHERNET + IP + UDP + sizeof(Times))
    {
        std::cerr << "slipring-source PORT ADDRESS PACKETS-PER-SECOND SECONDS BYTES" << std::endl;
        return 2;
    }
    slipring_port* port = nullptr;
    if (slipring_open(argv[1], nullptr, &port) < 0)
    {
        std::cerr << slipring_error_message() << "; try: " << slipring_error_help() << std::endl;
        return 1;
    }
    const double rate = std::atof(argv[3]);
    const std::chrono::duration<double> length(std::atof(argv[4]));
    Frames frames = MakeFrames(argv[2], std::strtoul(argv[5], nullptr, 10));
    std::cout << "source waits" << std::endl;
    struct slipring_wait first = {port, SLIPRING_WAIT_RX, 0};
    ::slipring_wait(&first, 1, -1);

    const auto start = Clock::now();
    uint64_t sent = 0;
    std::chrono::duration<double> elapsed(0);
    for (; elapsed < length; elapsed = Clock::now() - start)
    {
        const auto target = static_cast<uint64_t>(elapsed.count() * rate);
        sent += SendBurst(port, frames, std::min(target - std::min(sent, target), BURST));
        if (sent >= target)
        {
            std::this_thread::sleep_for(std::chrono::microseconds(200));
        }
    }
    std::cout << "source sent " << sent << " frames in " << elapsed.count()
              << " s, and was interrupted in " << frames.interruptions << " bursts" << std::endl;
    slipring_close(port);
    return 0;
}
