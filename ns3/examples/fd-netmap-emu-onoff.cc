// SPDX-License-Identifier: GPL-2.0-only
//
// Measures the throughput of UDP or TCP between a simulated node and a peer, which may be a program
// such as iperf or nc, or a second run of this example.
//
//   simulated client 10.0.1.11 --- veth0 ======= veth1 --- server 10.0.1.2, port 8000
//
//   ns3/examples/run.sh onoff --transportProt=Udp --bql=true
//
// With --serverMode=true the simulated node is the server.

#include "fd-netmap-emu-age.h"
#include "fd-netmap-emu.h"

using namespace emu;

namespace
{

/// Prints what a sink receives.
void
SampleSink(Ptr<PacketSink> sink, uint64_t before, Time interval)
{
    const uint64_t total = sink->GetTotalRx();
    std::cout << "at " << Simulator::Now().As(Time::S) << ": received "
              << (total - before) * 8 / interval.GetSeconds() / 1e6 << " Mbit/s" << std::endl;
    Simulator::Schedule(interval, &SampleSink, sink, total, interval);
}

} // namespace

int
main(int argc, char** argv)
{
    ExampleOptions options;
    std::string client = "10.0.1.11";
    std::string server = "10.0.1.2";
    std::string transport = "Udp";
    std::string rate = "1Gbps";
    uint32_t packetSize = 1400;
    uint16_t port = 8000;
    bool serverMode = false;
    bool stamped = false;
    CommandLine line(__FILE__);
    options.AddTo(line);
    line.AddValue("client", "address of the client", client);
    line.AddValue("server", "address of the server", server);
    line.AddValue("port", "port of the server", port);
    line.AddValue("transportProt", "Udp or Tcp", transport);
    line.AddValue("rate", "offered rate", rate);
    line.AddValue("packetSize", "bytes of payload in a packet", packetSize);
    line.AddValue("serverMode", "the simulated node is the server", serverMode);
    line.AddValue("discard", "in place of the device, one that discards each packet: what the rest of the program costs", options.discard);
    line.AddValue("stamped", "with serverMode: packets come from slipring-source, so print the age of the oldest", stamped);
    line.Parse(argc, argv);
    if (transport != "Udp" && transport != "Tcp")
    {
        std::cerr << "--transportProt=" << transport << " is neither Udp nor Tcp" << std::endl;
        return 1;
    }

    SlipringNetDeviceHelper::EnableRealtime();
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(4 << 20));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(4 << 20));
    const std::string factory = "ns3::" + transport + "SocketFactory";
    auto node = CreateObject<Node>();
    auto device = Install(options, node, options.deviceName, serverMode ? server : client);
    if (!device)
    {
        return 1;
    }
    if (options.discard)
    {
        AddNeighbour(node, device, server);
    }
    const Time stop = Seconds(options.duration);
    const Time interval = Seconds(options.interval);
    Pinger pinger;
    ApplicationContainer applications;
    PacketAges ages;
    if (serverMode)
    {
        PacketSinkHelper sinks(factory, InetSocketAddress(Ipv4Address::GetAny(), port));
        applications = sinks.Install(node);
        Simulator::Schedule(interval, &SampleSink, DynamicCast<PacketSink>(applications.Get(0)), 0, interval);
        if (stamped)
        {
            applications.Get(0)->TraceConnectWithoutContext("Rx", MakeCallback(&PacketAges::Note, &ages));
        }
    }
    else
    {
        OnOffHelper source(factory, InetSocketAddress(server.c_str(), port));
        source.SetConstantRate(DataRate(rate), packetSize);
        applications = source.Install(node);
        applications.Start(MilliSeconds(200));
    }
    if (options.ping)
    {
        pinger.Start(node, serverMode ? client : server, MilliSeconds(100), stop);
    }
    applications.Stop(stop);
    Sampler sampler;
    sampler.Start(device, interval);
    Simulator::Stop(stop);
    RunUntilSignal();
    if (serverMode)
    {
        const uint64_t bytes = DynamicCast<PacketSink>(applications.Get(0))->GetTotalRx();
        std::cout << "received " << bytes << " bytes";
        if (stamped)
        {
            ages.End();
            std::cout << ", " << ages;
        }
        std::cout << std::endl;
    }
    sampler.Print();
    pinger.Print();
    PrintDevice(device);
    PrintDiscarded(device);
    Simulator::Destroy();
    return 0;
}
