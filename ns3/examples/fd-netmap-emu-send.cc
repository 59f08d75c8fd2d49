// SPDX-License-Identifier: GPL-2.0-only
//
// Measures how many frames a second a simulated node can send, by three primitives:
//
//   --mode=0   FdNetDevice::Write: a frame that is made once
//   --mode=1   NetDevice::Send: a packet, with its Ethernet header
//   --mode=2   Socket::SendTo: a UDP packet through the node's stack and queue disc
//
//   ns3/examples/run.sh send --mode=0 --size=60

#include "fd-netmap-emu.h"

using namespace emu;

namespace
{

/// The result of a measurement.
struct Result
{
    uint64_t sent{0};
    uint64_t failed{0};
    double seconds{0};
    double cpuSeconds{0};
};

/// Calls \p send as often as it can for \p seconds, inside one event of the simulation.
template <typename Send>
Result
Measure(double seconds, Ptr<SlipringNetDevice> ours, Send send)
{
    using Clock = std::chrono::steady_clock;
    Result result;
    const double cpu = CpuSeconds();
    const auto start = Clock::now();
    const auto end = start + std::chrono::duration<double>(seconds);
    while (Clock::now() < end && !g_interrupted)
    {
        for (int burst = 0; burst < 32; burst++)
        {
            const bool sent = send();
            result.sent += sent;
            result.failed += !sent;
            if (!sent && ours)
            {
                // While this event runs, no other event does, so the ring is served here.
                ours->Service();
                break;
            }
        }
    }
    result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    result.cpuSeconds = CpuSeconds() - cpu;
    return result;
}

void
Run(Ptr<NetDevice> device, const std::string& server, int mode, uint32_t size, double seconds)
{
    auto raw = DynamicCast<FdNetDevice>(device);
    auto ours = DynamicCast<SlipringNetDevice>(device);
    std::vector<uint8_t> frame(size, 0);
    // To and from stations that do not exist; an EtherType for experiments.
    frame[0] = frame[6] = 2;
    frame[5] = 1;
    frame[12] = 0x88;
    frame[13] = 0xb5;
    Result result;
    if (mode == 0)
    {
        result = Measure(seconds, ours, [&] {
            return static_cast<size_t>(raw->Write(frame.data(), frame.size())) == frame.size();
        });
    }
    else if (mode == 1)
    {
        const Mac48Address peer("02:00:00:00:00:01");
        result = Measure(seconds, ours, [&] {
            return device->Send(Create<Packet>(size - 14), peer, 0x88b5);
        });
    }
    else
    {
        auto socket = Socket::CreateSocket(device->GetNode(), UdpSocketFactory::GetTypeId());
        socket->Bind();
        const InetSocketAddress address(server.c_str(), 9);
        const int payload = size - 42;
        result = Measure(seconds, ours, [&] {
            return socket->SendTo(Create<Packet>(payload), 0, address) == payload;
        });
    }
    if (ours)
    {
        ours->Service();
    }
    std::cout << "mode " << mode << ", frames of " << size << " bytes\n"
              << "packets sent " << result.sent << "\n"
              << "period " << result.seconds * 1000 << " ms\n"
              << "failures " << result.failed << "\n"
              << "throughput " << result.sent / result.seconds << " pps, "
              << result.sent * size * 8 / result.seconds / 1e6 << " Mbit/s\n"
              << "cpu " << result.cpuSeconds / std::max<uint64_t>(result.sent, 1) * 1e9
              << " ns per packet" << std::endl;
    auto real = DynamicCast<RealtimeSimulatorImpl>(Simulator::GetImplementation());
    std::cout << "lag of the simulator after the loop "
              << (real->RealtimeNow() - Simulator::Now()).As(Time::MS) << std::endl;
    // The device has 100 ms to send the rest.
    Simulator::Stop(real->RealtimeNow() - Simulator::Now() + MilliSeconds(100));
}

} // namespace

int
main(int argc, char** argv)
{
    ExampleOptions options;
    options.duration = 1;
    std::string client = "10.0.1.11";
    std::string server = "10.0.1.2";
    int mode = 0;
    uint32_t size = 60;
    std::string drain;
    CommandLine line(__FILE__);
    options.AddTo(line);
    line.AddValue("client", "address of the simulated node", client);
    line.AddValue("server", "address to send to, with --mode=2", server);
    line.AddValue("mode", "0: Write; 1: Send; 2: a UDP socket", mode);
    line.AddValue("size", "bytes of a frame, without CRC: 60 to 1514", size);
    line.AddValue("drain", "port whose frames a thread takes: the other end of a pipe", drain);
    line.Parse(argc, argv);
    if (mode < 0 || mode > 2 || size < 60 || size > 1514)
    {
        std::cerr << "--mode is 0, 1 or 2; --size is 60 to 1514" << std::endl;
        return 1;
    }

    SlipringNetDeviceHelper::EnableRealtime();
    auto node = CreateObject<Node>();
    auto device = Install(options, node, options.deviceName, client);
    if (!device)
    {
        return 1;
    }
    Drain peer;
    if (!drain.empty() && !peer.Start(drain))
    {
        std::cerr << drain << ": " << peer.Error() << std::endl;
        return 1;
    }
    Simulator::ScheduleWithContext(node->GetId(),
                                   MilliSeconds(100),
                                   &Run,
                                   device,
                                   server,
                                   mode,
                                   size,
                                   options.duration);
    RunUntilSignal();
    PrintDevice(device);
    Simulator::Destroy();
    return 0;
}
